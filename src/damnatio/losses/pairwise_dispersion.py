"""PD: push the images of each forget identity apart, pair by pair."""

from torch import Tensor

from damnatio.losses.base import ForgetLoss, Given


class PairwiseDispersion(ForgetLoss):
    """Pairwise dispersion (Zakharov, arXiv 2512.13317; eq. PD of the paper):

        L = 1/|P_F| sum_{(a,b) in P_F} max(0, m + f(x_a)^T f(x_b))

    over the pairs of images of one identity in the batch. One value per pair; a batch without a pair gives 0.

    >>> images = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> float(PairwiseDispersion(margin=0.25)(images, torch.tensor([7, 7])))
    0.25
    """

    lambda_forget = 10.0

    def __init__(self, margin: float = 0.35, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def values(self, given: Given) -> Tensor:
        units = given.unit
        pairs = (given.identities[:, None] == given.identities[None, :]).triu(diagonal=1)
        return (self.margin + (units @ units.T)[pairs]).clamp_min(0)
