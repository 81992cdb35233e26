"""BI: the network's own weights learn to take the person out of each photograph's embedding."""

from typing import Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from damnatio.heads.base import Head
from damnatio.methods import METHODS
from damnatio.methods.base import Context, ForgetBatch, ForgetSet, Method, MethodSettings
from damnatio.methods.centroid_push import mean_directions
from damnatio.recipe.schema import BatchNorm, Optimiser, RetainTerm


@METHODS.register("BI")
class BurnIn(Method):
    """Burn-in: residual targets, hard dispersion, the same for averaged templates, and everybody else held where f*
    put them:

        L = lambda_r 1/R sum_i (1 - <f(z_i), f*(z_i)>)
            + lambda_f 1/N sum_a ( r (1 - <f(x_a), u_a>) + p max(0, <f(x_a), c_y>)
                                   + h max(0, m + max_b <f(x_a), f(x_b)>) + w max(0, n + <f(x_a), t_a>) )
        u_a = norm(f*(x_a) - <f*(x_a), c_y> c_y)        t_a = norm(sum_b f(x_b))

    over the retain images z_i of the batch and its forget images x_a; b runs over the other images of x_a's identity y
    in the batch, and c_y is the mean direction of the identity's images under f*.

    - The target u_a is what f* says of the photograph without what it says of the person: a smooth function of f*(x_a),
      which the network can follow on unseen photographs too. Alone it leaves a rest of the person, as a share s of c_y
      costs only about s^2/2.
    - The hinges take that rest: p what lies along c_y; h and w whatever the images of a person share. Pairs say little
      about averages: two images have the cosine s^2, an image and the average of many others the cosine s. So averages
      have a hinge of their own.
    - The margins are small: a hinge that is met leaves the network alone, and everybody else with it.
    """

    class Settings(MethodSettings):
        lr: float = Field(2e-3, gt=0, description="of AdamW, for some hundreds of steps")
        lambda_retain: float = Field(8.0, ge=0, description="large: the term starts at zero and is quadratic there")
        retain: RetainTerm | None = Field("distil", description="classification lets everybody's embedding move")
        optimiser: Optimiser | None = Field("adamw", description="all trials were made with it")
        weight_decay: float | None = Field(0.0, ge=0, description="decay moves everybody, and serves nobody here")
        batch_norm: BatchNorm | None = Field("frozen", description="so that f = f* before the first step")
        residual: float = Field(2.0, ge=0, description="r, the weight of the targets")
        centre: float = Field(1.0, ge=0, description="p, the weight of the hinge on the person's mean under f*")
        hard: float = Field(0.5, ge=0, description="h, the weight of the hinge on the hardest partner")
        margin: float = Field(0.1, description="m: the hardest partner is pushed below the cosine -m")
        average: float = Field(1.0, ge=0, description="w, the weight of the hinge on the averaged template")
        average_margin: float = Field(0.1, description="n: the averaged template is pushed below the cosine -n")

    title = "Burn-in"
    reference = "Damnatio; hard dispersion is Zakharov's, arXiv 2512.13317"
    frozen_model = True
    pairs = True
    centres: Tensor

    def __init__(self, settings: Any, forget: ForgetSet, head: Head) -> None:
        super().__init__(settings, forget, head)
        self.register_buffer("centres", torch.zeros(int(forget.identities.max()) + 1, head.weight.shape[1]))

    def prepare(self, context: Context) -> None:
        identities = torch.from_numpy(self.forget.identities).to(self.centres.device)
        units = context.embed_frozen().to(self.centres)
        self.centres.copy_(mean_directions(units, identities, len(self.centres)))

    def forget_loss(self, batch: ForgetBatch, head: Head) -> Tensor:
        own = self.settings
        partners = batch.identities[:, None] == batch.identities[None, :]
        partners.fill_diagonal_(False)
        hardest = (batch.unit @ batch.unit.T).masked_fill(~partners, -torch.inf).amax(dim=1)
        templates = F.normalize(partners.to(batch.unit) @ batch.unit, dim=1)
        averaged = (batch.unit * templates).sum(dim=1)
        missed = 1 - (batch.unit * self.residuals(batch)).sum(dim=1)
        kept = (batch.unit * self.centres[batch.identities]).sum(dim=1).clamp_min(0)
        hinges = own.hard * (own.margin + hardest).clamp_min(0)
        hinges = hinges + own.average * (own.average_margin + averaged).clamp_min(0)
        loss: Tensor = own.residual * missed + own.centre * kept + hinges.where(partners.any(dim=1), 0)
        return loss.mean()

    def residuals(self, batch: ForgetBatch) -> Tensor:
        """u: f*(x) of each image without the mean direction of its identity."""
        assert batch.frozen is not None
        centres = self.centres[batch.identities]
        along = (batch.frozen * centres).sum(dim=1, keepdim=True)
        return F.normalize(batch.frozen - along * centres, dim=1)
