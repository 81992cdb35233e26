"""BI: the network's own weights learn to take the person out of each photograph's embedding."""

import torch
from torch import Tensor
from torch.nn import functional as F

from damnatio.losses.base import ForgetLoss, Given, rows_of, unit


class BurnIn(ForgetLoss):
    """Burn-in: residual targets, hard dispersion, and the same for averaged templates:

        L = 1/N sum_a ( r (1 - <f(x_a), u_a>) + p max(0, <f(x_a), c_y>)
                        + h max(0, m + max_b <f(x_a), f(x_b)>) + w max(0, n + <f(x_a), t_a>) )
        u_a = norm(f*(x_a) - <f*(x_a), c_y> c_y)        t_a = norm(sum_b f(x_b))

    b runs over the other images of x_a's identity y in the batch; c_y is the mean direction of the identity's images
    under f*: row y of `centres`, K x d, for identities 0 to K - 1, as `losses.mean_directions` makes them.

    - The target u_a is what f* says of the photograph without what it says of the person: a smooth function of f*(x_a),
      which the network can follow on unseen photographs too. Alone it leaves a rest of the person, as a share s of c_y
      costs only about s^2/2.
    - The hinges take that rest: p what lies along c_y; h and w whatever the images of a person share. Pairs say little
      about averages: two images have the cosine s^2, an image and the average of many others the cosine s. So averages
      have a hinge of their own.
    - The margins are small: a hinge that is met leaves the network alone, and everybody else with it.

    Everybody else is held by `Distillation`, eight times as strongly. One value per image.
    """

    needs = frozenset({"before"})
    lambda_retain = 8.0
    centres: Tensor

    def __init__(
        self,
        centres: Tensor,
        residual: float = 2.0,
        *,
        centre: float = 1.0,
        hard: float = 0.5,
        margin: float = 0.1,
        average: float = 1.0,
        average_margin: float = 0.1,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.residual, self.centre = residual, centre
        self.hard, self.margin, self.average, self.average_margin = hard, margin, average, average_margin
        self.register_buffer("centres", unit(centres.detach()))

    def values(self, given: Given) -> Tensor:
        units = given.unit
        centres = rows_of(self.centres.to(units), given.identities, "BurnIn", "identity")
        partners = given.identities[:, None] == given.identities[None, :]
        partners.fill_diagonal_(False)
        hardest = (units @ units.T).masked_fill(~partners, -torch.inf).amax(dim=1)
        templates = F.normalize(partners.to(units) @ units, dim=1)
        averaged = (units * templates).sum(dim=1)
        missed = 1 - (units * residuals(given.before, centres)).sum(dim=1)
        kept = (units * centres).sum(dim=1).clamp_min(0)
        hinges = self.hard * (self.margin + hardest).clamp_min(0)
        hinges = hinges + self.average * (self.average_margin + averaged).clamp_min(0)
        return self.residual * missed + self.centre * kept + hinges.where(partners.any(dim=1), 0)


def residuals(before: Tensor, centres: Tensor) -> Tensor:
    """u: each unit vector without its part along the centre in the same row."""
    along = (before * centres).sum(dim=1, keepdim=True)
    return F.normalize(before - along * centres, dim=1)
