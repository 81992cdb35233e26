"""HD: push each forget image away from the most similar image of its identity."""

import torch
from pydantic import Field
from torch import Tensor

from damnatio.heads.base import Head
from damnatio.methods import METHODS
from damnatio.methods.base import ForgetBatch, Method, MethodSettings


@METHODS.register("HD")
class HardDispersion(Method):
    """Hard dispersion (Zakharov, arXiv 2512.13317; eq. HD of the paper):

        L = 1/N sum_a max(0, m + max_{b : (a,b) in P_F} f(x_a)^T f(x_b))

    over the images a of the batch that have a partner b: another image of the same identity. The images of a forget
    identity are of distinct capture instances, so every such pair is an across-instance pair. The head is not used.
    """

    class Settings(MethodSettings):
        lambda_forget: float = Field(10.0, ge=0)  # IV-B: lambda_f = 10 lambda_r
        margin: float = Field(0.35, description="the hinge margin m (IV-B)")

    title = "Hard dispersion"
    reference = "Zakharov, arXiv 2512.13317"
    kind = "prior"
    pairs = True

    def forget_loss(self, batch: ForgetBatch, head: Head) -> Tensor:
        partners = batch.identities[:, None] == batch.identities[None, :]
        partners.fill_diagonal_(False)
        cosines = (batch.unit @ batch.unit.T).masked_fill(~partners, -torch.inf)
        hardest = cosines.amax(dim=1)[partners.any(dim=1)]
        margin: float = self.settings.margin
        return (margin + hardest).clamp_min(0).mean()
