"""CosFace (Wang et al. 2018, arXiv 1801.09414): a constant is subtracted from the target's cosine.

L = mean_i -log exp(s (cos_{i,y_i} - m)) / (exp(s (cos_{i,y_i} - m)) + sum_{j != y_i} exp(s cos_ij))
"""

from torch import Tensor
from torch.nn import functional as F

from damnatio.heads import HEADS
from damnatio.heads.base import Head, at_least_float32, targets_of, with_targets


@HEADS.register("cosface")
class CosFace(Head):
    """cos_y - m; InsightFace trains with s = 64, m = 0.4."""

    def __init__(self, classes: int, dim: int, logit_scale: float = 64.0, margin: float = 0.4) -> None:
        super().__init__(classes, dim, logit_scale=logit_scale, margin=margin)

    def margins(self, cosines: Tensor, norms: Tensor, labels: Tensor) -> Tensor:
        return subtract_margin(cosines, labels, self.margin)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return margin_softmax_loss(self.cosines(embeddings), labels, logit_scale=self.logit_scale, margin=self.margin)


def subtract_margin(cosines: Tensor, targets: Tensor, margin: float) -> Tensor:
    """cos_{i, y_i} - m at the targets, cos_ij elsewhere."""
    return with_targets(cosines, targets, targets_of(cosines, targets) - margin)


def margin_softmax_loss(cosines: Tensor, targets: Tensor, *, logit_scale: float, margin: float) -> Tensor:
    """L above over any K unit vectors: N x K cosines, and for each image the index of its own vector."""
    return F.cross_entropy(logit_scale * subtract_margin(at_least_float32(cosines), targets, margin), targets)
