"""NG+: raise the cross-entropy of the forget identities and lower that of the retain identities."""

from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.heads.base import Head
from damnatio.heads.cosface import margin_of
from damnatio.methods import METHODS
from damnatio.methods.base import Context, ForgetBatch, ForgetSet, Method, MethodSettings, RetainBatch
from damnatio.methods.centroid_push import mean_directions


@METHODS.register("NG+")
class NegGradPlus(Method):
    """NegGrad+ (Kurmanji et al., NeurIPS 2023), adapted to the face head as the paper says (III-C):

        L = alpha CE(retain) - (1 - alpha) CE(forget)

    CE(forget) uses one extra class vector per forget identity, which starts at the identity's mean embedding under f*.
    The paper leaves alpha, the vectors and the margin open. The defaults are NegGrad+'s published alpha of 0.95,
    trained vectors that take part in the retain softmax, and the margin and the logit scale of the paper's head. The
    pull of -CE does not fade: it drives every image of an identity the same way, so their mutual similarity rises
    (paper, V-B).
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

    def __init__(self, settings: Any, forget: ForgetSet, head: Head) -> None:
        super().__init__(settings, forget, head)
        shape = int(forget.identities.max()) + 1, head.weight.shape[1]
        self.vectors = nn.Parameter(torch.zeros(shape), requires_grad=settings.train_vectors)

    def prepare(self, context: Context) -> None:
        units = context.embed_frozen().to(self.vectors)
        identities = torch.from_numpy(self.forget.identities).to(self.vectors.device)
        with torch.no_grad():
            self.vectors.copy_(mean_directions(units, identities, len(self.vectors)))

    def classification_loss(self, batch: RetainBatch, head: Head) -> Tensor:
        if not self.settings.vectors_in_retain:
            return super().classification_loss(batch, head)
        return head.softmax_loss(batch.raw, batch.labels, self._cosines(batch.unit))

    def forget_loss(self, batch: ForgetBatch, head: Head) -> Tensor:
        return -head.softmax_loss(
            batch.raw,
            head.classes + batch.identities,
            self._cosines(batch.unit),
            margins=margin_of(self.settings.margin),
            logit_scale=self.settings.logit_scale,
        )

    def _cosines(self, units: Tensor) -> Tensor:
        return (units @ F.normalize(self.vectors, dim=1).T).clamp(-1, 1)
