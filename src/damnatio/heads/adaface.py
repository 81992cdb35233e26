"""AdaFace (Kim et al. 2022, arXiv 2204.00964): the margin follows the norm of the embedding, a proxy of image quality.

    ẑ      = clip(h (|x| - μ) / (σ + ε), -1, 1)
    target = cos(clip(θ_y - m ẑ, ε, π - ε)) - (m + m ẑ),        ε = 1e-3

At ẑ = -1 this is ArcFace, at ẑ = 0 it is CosFace, at ẑ = 1 the angle is m smaller and the margin 2m: a hard image of
high quality weighs more than one of low quality. μ and σ are running statistics of the norms. They are buffers, so that
a resumed training continues them.
"""

import math

import torch
from torch import Tensor

from damnatio.heads import HEADS
from damnatio.heads.base import Head, targets_of, with_targets

EPS = 1e-3


@HEADS.register("adaface")
class AdaFace(Head):
    """The margin and the concentration `h` are those of the published runs (m = 0.4, h = 0.333).

    t_alpha     the share of a batch in the running mean and deviation of the norms. The authors' command line has 0.01;
                their class by itself has 1 by default, which uses the batch only.
    """

    norm_mean: Tensor
    norm_std: Tensor

    def __init__(
        self,
        classes: int,
        dim: int,
        logit_scale: float = 64.0,
        margin: float = 0.4,
        *,
        h: float = 0.333,
        t_alpha: float = 0.01,
    ) -> None:
        super().__init__(classes, dim, logit_scale=logit_scale, margin=margin)
        self.h = h
        self.t_alpha = t_alpha
        self.register_buffer("norm_mean", torch.tensor(20.0))  # the authors' start
        self.register_buffer("norm_std", torch.tensor(100.0))

    def margins(self, cosines: Tensor, norms: Tensor, labels: Tensor) -> Tensor:
        norms = norms.detach().clamp(EPS, 100)  # the quality weighs the loss and gets no gradient
        if self.training and len(norms) > 1:  # a single image has no deviation
            self.norm_mean.lerp_(norms.mean().to(self.norm_mean.dtype), self.t_alpha)
            self.norm_std.lerp_(norms.std().to(self.norm_std.dtype), self.t_alpha)
        z = (self.h * (norms - self.norm_mean) / (self.norm_std + EPS)).clamp(-1, 1)
        cosines = cosines.clamp(-1 + EPS, 1 - EPS)  # so that the slope of acos stays finite
        theta = targets_of(cosines, labels).acos()
        target = (theta - self.margin * z).clamp(EPS, math.pi - EPS).cos() - self.margin * (1 + z)
        return with_targets(cosines, labels, target)
