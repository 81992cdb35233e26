"""PD: push the images of each forget identity apart, pair by pair."""

import torch
from pydantic import Field
from torch import Tensor

from damnatio.heads.base import Head
from damnatio.methods import METHODS
from damnatio.methods.base import ForgetBatch, Method, MethodSettings


@METHODS.register("PD")
class PairwiseDispersion(Method):
    """Pairwise dispersion (Zakharov, arXiv 2512.13317; eq. PD of the paper):

        L = 1/|P_F| sum_{(a,b) in P_F} max(0, m + f(x_a)^T f(x_b))

    over the pairs of images of one identity in the batch, which are of distinct capture instances. The head is not
    used.
    """

    class Settings(MethodSettings):
        lambda_forget: float = Field(10.0, ge=0)  # IV-B: lambda_f = 10 lambda_r
        margin: float = Field(0.35, description="the hinge margin m (IV-B)")

    title = "Pairwise dispersion"
    reference = "Zakharov, arXiv 2512.13317"
    kind = "prior"
    pairs = True

    def forget_loss(self, batch: ForgetBatch, head: Head) -> Tensor:
        pairs = (batch.identities[:, None] == batch.identities[None, :]).triu(diagonal=1)
        cosines = (batch.unit @ batch.unit.T)[pairs]
        margin: float = self.settings.margin
        return torch.clamp_min(margin + cosines, 0).mean()
