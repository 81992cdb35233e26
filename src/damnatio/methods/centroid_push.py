"""CP in a recipe: `losses.CentroidPush`."""

from typing import Any, Literal

import torch
from pydantic import Field

from damnatio import losses
from damnatio.methods import METHODS
from damnatio.methods.base import ForgetSet, Method, MethodSettings


@METHODS.register("CP")
class CP(Method):
    """See `damnatio.losses.CentroidPush`. The centroid is the mean over all forget-train images of the identity,
    computed at each epoch, or over its images in the batch, computed at each step."""

    class Settings(MethodSettings):
        lambda_forget: float = Field(10.0, ge=0)  # IV-B: lambda_f = 10 lambda_r
        centroid: Literal["step", "epoch"] = Field("epoch", description="how often c_y is recomputed (III-C: either)")

    title = "Centroid push"
    reference = "the paper, III-C"
    kind = "proposed"
    pairs = True
    loss: losses.CentroidPush

    def make_loss(self, settings: Any, forget: ForgetSet, dim: int) -> losses.CentroidPush:
        count = int(forget.identities.max()) + 1
        return losses.CentroidPush(torch.zeros(count, dim) if settings.centroid == "epoch" else None)
