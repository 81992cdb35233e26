"""CosFace (Wang et al. 2018, arXiv 1801.09414): a constant is subtracted from the target's cosine.

L = mean_i -log exp(s (cos_{i,y_i} - m)) / (exp(s (cos_{i,y_i} - m)) + sum_{j != y_i} exp(s cos_ij))
"""

from torch import Tensor

from damnatio.heads import HEADS
from damnatio.heads.base import Head, Margins, targets_of, with_targets


@HEADS.register("cosface")
class CosFace(Head):
    """cos_y - m; InsightFace trains with s = 64, m = 0.4."""

    def __init__(self, classes: int, dim: int, logit_scale: float = 64.0, margin: float = 0.4) -> None:
        super().__init__(classes, dim, logit_scale=logit_scale, margin=margin)

    def margins(self, cosines: Tensor, norms: Tensor, labels: Tensor) -> Tensor:
        return subtract_margin(cosines, labels, self.margin)


def subtract_margin(cosines: Tensor, targets: Tensor, margin: float) -> Tensor:
    """cos_{i, y_i} - m at the targets, cos_ij elsewhere."""
    return with_targets(cosines, targets, targets_of(cosines, targets) - margin)


def margin_of(margin: float) -> Margins:
    """CosFace's margin for a softmax that is not the head's own."""
    return lambda cosines, norms, targets: subtract_margin(cosines, targets, margin)
