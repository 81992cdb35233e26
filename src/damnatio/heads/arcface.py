"""ArcFace (Deng et al. 2019, arXiv 1801.07698): the target's angle is widened by a constant.

    cos(θ_y + m) = cos θ_y cos m - sin θ_y sin m,     sin θ_y = sqrt(1 - cos² θ_y)

The gradient is the analytic one. InsightFace's code computes the margin without gradient instead, so that
dL/dcos_ij = s (p_ij - 1[j = y_i]) as in CosFace; losses agree, training differs.

Past θ_y = π - m, where cos(θ + m) would rise again and reward going further away, the target is the authors' first
code's cos θ_y - m sin m: it falls with θ everywhere. InsightFace's present code has no such guard.
"""

import math

import torch
from torch import Tensor

from damnatio.heads import HEADS
from damnatio.heads.base import Head, targets_of, with_targets


@HEADS.register("arcface")
class ArcFace(Head):
    """cos(θ_y + m); InsightFace trains with s = 64, m = 0.5 (radians)."""

    def __init__(self, classes: int, dim: int, scale: float = 64.0, margin: float = 0.5) -> None:
        super().__init__(classes, dim, scale, margin)

    def margins(self, cosines: Tensor, norms: Tensor, labels: Tensor) -> Tensor:
        cos = targets_of(cosines, labels)
        sin = (1 - cos**2).clamp(min=1e-6).sqrt()  # the root's slope is infinite at 0; there cos m alone is the slope
        widened = cos * math.cos(self.margin) - sin * math.sin(self.margin)
        beyond = cos - self.margin * math.sin(self.margin)
        inside = cos > math.cos(math.pi - self.margin)
        return with_targets(cosines, labels, torch.where(inside, widened, beyond))
