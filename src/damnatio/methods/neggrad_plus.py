"""NG+ in a recipe: `losses.NegGradPlus`, and its retain term."""

from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from damnatio import losses
from damnatio.heads.base import Head
from damnatio.methods import METHODS
from damnatio.methods.base import Context, ForgetSet, Method, MethodSettings, RetainBatch


@METHODS.register("NG+")
class NGPlus(Method):
    """NegGrad+ (Kurmanji et al., NeurIPS 2023), adapted to the face head as the paper says (III-C):

        L = alpha CE(retain) - (1 - alpha) CE(forget)

    See `damnatio.losses.NegGradPlus` for CE(forget). The paper leaves alpha, the vectors and the margin open. The
    defaults are NegGrad+'s published alpha of 0.95, trained vectors that take part in the retain softmax, and the
    margin and the logit scale of the paper's head.
    """

    class Settings(MethodSettings):
        lambda_retain: float = Field(0.95, ge=0, description="alpha")
        lambda_forget: float = Field(0.05, ge=0, description="1 - alpha")
        logit_scale: float = Field(64.0, gt=0, description="the factor s of the cosines")
        margin: float = Field(0.4, ge=0)
        train_vectors: bool = Field(True, description="whether the extra class vectors are trained")
        vectors_in_retain: bool = Field(
            True, description="whether the softmax of `retain: classify` includes the extra class vectors"
        )

    title = "NegGrad+"
    reference = "Kurmanji et al., NeurIPS 2023"
    kind = "generic"
    loss: losses.NegGradPlus

    def make_loss(self, settings: Any, forget: ForgetSet, dim: int) -> losses.NegGradPlus:
        return losses.NegGradPlus(
            torch.zeros(int(forget.identities.max()) + 1, dim),
            settings.margin,
            settings.logit_scale,
            train_vectors=settings.train_vectors,
        )

    def prepare(self, context: Context) -> None:
        found = context.embed_frozen()
        identities = torch.from_numpy(self.forget.identities).to(found.device)
        with torch.no_grad():
            self.loss.vectors.copy_(losses.mean_directions(found, identities))

    def classification_loss(self, batch: RetainBatch, head: Head) -> Tensor:
        if not self.settings.vectors_in_retain:
            return super().classification_loss(batch, head)
        return head.softmax_loss(batch.raw, batch.labels, self.loss.cosines(batch.unit))
