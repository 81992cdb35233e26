"""BI: the network's own weights learn to make the people unlinkable, one by one and on average."""

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from damnatio.heads.base import Head
from damnatio.methods import METHODS
from damnatio.methods.base import ForgetBatch, Method, MethodSettings
from damnatio.recipe.schema import BatchNorm, Optimiser, RetainTerm


@METHODS.register("BI")
class BurnIn(Method):
    """Burn-in: hard dispersion, the same for averaged templates, and everybody else held where f* put them:

        L = lambda_r 1/R sum_i (1 - <f(z_i), f*(z_i)>)
            + lambda_f 1/N sum_a (max(0, m + max_b <f(x_a), f(x_b)>) + w max(0, n + <f(x_a), t_a>))
        t_a = norm(sum_b f(x_b))

    over the retain images z_i of the batch and its forget images x_a; b runs over the other images of x_a's identity
    in the batch. The second hinge is needed because pairs say little about averages: if every image keeps a share s
    of a common direction, a pair has the cosine s^2, and an image and the average of many others the cosine s.

    The margins are small: a hinge that is met leaves the network alone, and everybody else with it.
    """

    class Settings(MethodSettings):
        lr: float = Field(1e-3, gt=0, description="of AdamW, for some hundreds of steps")
        lambda_retain: float = Field(4.0, ge=0)
        retain: RetainTerm | None = Field("distil", description="classification lets everybody's embedding move")
        optimiser: Optimiser | None = Field("adamw", description="some hundreds of steps are too few for SGD")
        weight_decay: float | None = Field(0.0, ge=0, description="decay moves everybody, and serves nobody here")
        batch_norm: BatchNorm | None = Field("frozen", description="so that f = f* before the first step")
        margin: float = Field(0.1, description="m: a hardest partner is pushed below a cosine of -m")
        average: float = Field(2.0, ge=0, description="w, the weight of the hinge on the averaged template")
        average_margin: float = Field(0.1, description="n: an averaged template is pushed below a cosine of -n")

    title = "Burn-in"
    reference = "ours; hard dispersion is Zakharov's, arXiv 2512.13317"
    pairs = True

    def forget_loss(self, batch: ForgetBatch, head: Head) -> Tensor:
        partners = batch.identities[:, None] == batch.identities[None, :]
        partners.fill_diagonal_(False)
        some = partners.any(dim=1)
        hardest = (batch.unit @ batch.unit.T).masked_fill(~partners, -torch.inf).amax(dim=1)[some]
        templates = F.normalize(partners.to(batch.unit) @ batch.unit, dim=1)
        averaged = (batch.unit * templates).sum(dim=1)[some]
        own = self.settings
        loss: Tensor = (own.margin + hardest).clamp_min(0) + own.average * (own.average_margin + averaged).clamp_min(0)
        return loss.mean()
