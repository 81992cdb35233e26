"""BI in a recipe: `losses.BurnIn`, beside the distillation of everybody else."""

from typing import Any

import torch
from pydantic import Field

from damnatio import losses
from damnatio.methods import METHODS
from damnatio.methods.base import Context, ForgetSet, Method, MethodSettings
from damnatio.recipe.schema import BatchNorm, Optimiser, RetainTerm


@METHODS.register("BI")
class BI(Method):
    """See `damnatio.losses.BurnIn`. L = lambda_r 1/R sum_i (1 - <f(z_i), f*(z_i)>) + lambda_f L_forget."""

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
    loss: losses.BurnIn

    def make_loss(self, settings: Any, forget: ForgetSet, dim: int) -> losses.BurnIn:
        weights = {name: getattr(settings, name) for name in ("centre", "hard", "margin", "average", "average_margin")}
        return losses.BurnIn(torch.zeros(int(forget.identities.max()) + 1, dim), settings.residual, **weights)

    def prepare(self, context: Context) -> None:
        found = context.embed_frozen()
        identities = torch.from_numpy(self.forget.identities).to(found.device)
        self.loss.centres.copy_(losses.mean_directions(found, identities))
