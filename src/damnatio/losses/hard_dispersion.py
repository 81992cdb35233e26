"""HD: push each forget image away from the most similar image of its identity."""

import torch
from torch import Tensor

from damnatio.losses.base import ForgetLoss, Given


class HardDispersion(ForgetLoss):
    """Hard dispersion (Zakharov, arXiv 2512.13317; eq. HD of the paper):

        L = 1/N sum_a max(0, m + max_{b : (a,b) in P_F} f(x_a)^T f(x_b))

    over the images a of the batch that have a partner b: another image of the same identity. One value per such image;
    a batch without a pair gives 0.

    >>> images = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> HardDispersion(margin=0.25, reduction="none")(images, torch.tensor([7, 7, 7]))
    tensor([0.2500, 0.2500, 0.2500])
    """

    lambda_forget = 10.0

    def __init__(self, margin: float = 0.35, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def values(self, given: Given) -> Tensor:
        units = given.unit
        partners = given.identities[:, None] == given.identities[None, :]
        partners.fill_diagonal_(False)
        cosines = (units @ units.T).masked_fill(~partners, -torch.inf)
        hardest = cosines.amax(dim=1)[partners.any(dim=1)]
        return (self.margin + hardest).clamp_min(0)
