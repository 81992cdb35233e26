"""CP: push every forget image away from its identity's mean direction."""

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from damnatio.heads.base import Head
from damnatio.methods import METHODS
from damnatio.methods.base import Context, ForgetBatch, ForgetSet, Method, MethodSettings


@METHODS.register("CP")
class CentroidPush(Method):
    """Centroid push (the paper, III-C):

        L = 1/|F| sum_y 1/|X_y| sum_{x in X_y} (1 + f(x)^T c_y),        c_y = norm(sum_{x in X_y} f(x))

    The centroid is a constant of the step: no gradient flows through it, so the fixed point of each embedding is the
    antipode of the centroid, as the paper says. It is the mean over all its forget-train images, computed at each
    epoch, or over its images in the batch, computed at each step.
    """

    class Settings(MethodSettings):
        lambda_forget: float = Field(10.0, ge=0)  # IV-B: lambda_f = 10 lambda_r
        centroid: Literal["step", "epoch"] = Field("epoch", description="how often c_y is recomputed (III-C: either)")

    title = "Centroid push"
    reference = "the paper, III-C"
    kind = "proposed"
    pairs = True
    centroids: Tensor

    def __init__(self, settings: Any, forget: ForgetSet, head: Head) -> None:
        super().__init__(settings, forget, head)
        self.register_buffer("centroids", torch.zeros(int(forget.identities.max()) + 1, head.weight.shape[1]))

    def begin_epoch(self, epoch: int, context: Context) -> None:
        if self.settings.centroid == "epoch":
            identities = torch.from_numpy(self.forget.identities).to(self.centroids.device)
            self.centroids.copy_(mean_directions(context.embed().to(self.centroids), identities, len(self.centroids)))

    def forget_loss(self, batch: ForgetBatch, head: Head) -> Tensor:
        centroids = self.centroids
        if self.settings.centroid == "step":
            centroids = mean_directions(batch.unit.detach(), batch.identities, len(centroids))
        pushed = 1 + (batch.unit * centroids[batch.identities]).sum(dim=1)
        counts = torch.bincount(batch.identities, minlength=len(centroids))
        sums = pushed.new_zeros(len(centroids)).index_add(0, batch.identities, pushed)
        return (sums / counts)[counts > 0].mean()


def mean_directions(units: Tensor, identities: Tensor, count: int) -> Tensor:
    """norm(sum of the unit vectors) of each identity; zero for an identity without vectors."""
    return F.normalize(units.new_zeros(count, units.shape[1]).index_add(0, identities, units), dim=1)
