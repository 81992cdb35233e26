"""ArcFace (Deng et al. 2019, arXiv 1801.07698): a constant is added to the target's angle.

    cos(θ_y + m) = cos θ_y cos m - sin θ_y sin m,     sin θ_y = sqrt(1 - cos² θ_y)

The gradient is the analytic one. InsightFace's code computes the margin without a gradient, so that
dL/dcos_ij = s (p_ij - 1[j = y_i]) as in CosFace. The losses agree; the training differs.

Past θ_y = π - m, cos(θ + m) would rise again and reward an embedding for going further away. There the target is
cos θ_y - m sin m, as in the authors' first code; it falls with θ everywhere. InsightFace's present code has no such
guard.
"""

import math

import torch
from torch import Tensor

from damnatio.heads import HEADS
from damnatio.heads.base import Head, targets_of, with_targets


@HEADS.register("arcface")
class ArcFace(Head):
    """cos(θ_y + m); InsightFace trains with s = 64, m = 0.5 (radians)."""

    def __init__(self, classes: int, dim: int, logit_scale: float = 64.0, margin: float = 0.5) -> None:
        super().__init__(classes, dim, logit_scale=logit_scale, margin=margin)

    def margins(self, cosines: Tensor, norms: Tensor, labels: Tensor) -> Tensor:
        cos = targets_of(cosines, labels)
        sin = (1 - cos**2).clamp(min=1e-6).sqrt()  # the slope of the root is infinite at 0
        widened = cos * math.cos(self.margin) - sin * math.sin(self.margin)
        beyond = cos - self.margin * math.sin(self.margin)
        inside = cos > math.cos(math.pi - self.margin)
        return with_targets(cosines, labels, torch.where(inside, widened, beyond))
