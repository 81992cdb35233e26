"""AdaFace (Kim et al. 2022, arXiv 2204.00964): the margin follows the norm of the embedding, a proxy of image quality.

    ẑ      = clip(h (|x| - μ) / (σ + ε), -1, 1)
    target = cos(clip(θ_y - m ẑ, ε, π - ε)) - (m + m ẑ),        ε = 1e-3

At ẑ = -1 this is ArcFace, at ẑ = 0 CosFace, at ẑ = 1 an additive margin of 2m less an angle m: hard images weigh more
the better they are. μ and σ are running statistics of the norms: buffers, so that a resumed training continues them.
"""

import math

import torch
from torch import Tensor

from damnatio.heads import HEADS
from damnatio.heads.base import Head, targets_of, with_targets

EPS = 1e-3


@HEADS.register("adaface")
class AdaFace(Head):
    """Margin and concentration `h` are those of the published runs (m = 0.4, h = 0.333).

    t_alpha     the share of a batch in the running mean and deviation of the norms; 0.01 in the authors' command line,
                while their class, used by itself, defaults to 1 and looks at the batch alone
    """

    norm_mean: Tensor
    norm_std: Tensor

    def __init__(
        self,
        classes: int,
        dim: int,
        scale: float = 64.0,
        margin: float = 0.4,
        *,
        h: float = 0.333,
        t_alpha: float = 0.01,
    ) -> None:
        super().__init__(classes, dim, scale, margin)
        self.h = h
        self.t_alpha = t_alpha
        self.register_buffer("norm_mean", torch.tensor(20.0))  # the authors' start
        self.register_buffer("norm_std", torch.tensor(100.0))

    def margins(self, cosines: Tensor, norms: Tensor, labels: Tensor) -> Tensor:
        norms = norms.detach().clamp(EPS, 100)  # quality weighs the loss; it is not trained by it
        if self.training and len(norms) > 1:  # one image has no deviation
            self.norm_mean.lerp_(norms.mean().to(self.norm_mean.dtype), self.t_alpha)
            self.norm_std.lerp_(norms.std().to(self.norm_std.dtype), self.t_alpha)
        z = (self.h * (norms - self.norm_mean) / (self.norm_std + EPS)).clamp(-1, 1)
        cosines = cosines.clamp(-1 + EPS, 1 - EPS)  # keeps the slope of acos finite
        theta = targets_of(cosines, labels).acos()
        target = (theta - self.margin * z).clamp(EPS, math.pi - EPS).cos() - self.margin * (1 + z)
        return with_targets(cosines, labels, target)
