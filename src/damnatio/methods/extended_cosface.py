"""EC: make each forget image a class of its own under the margin head."""

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.heads.base import Head
from damnatio.heads.cosface import margin_of
from damnatio.methods import METHODS
from damnatio.methods.base import Context, ForgetBatch, ForgetSet, Method, MethodSettings


@METHODS.register("EC")
class ExtendedCosFace(Method):
    """Extended CosFace with one fake class per image (the paper, III-C):

        L = -sum_i log pi_{c_i}(x_i; W),
        pi_t(x; W) = exp(s_f (<f(x), W_t> - m_f)) / sum_k exp(s_f (<f(x), W_k> - m_f 1[k = t]))

    W holds the retain class vectors and one trainable vector per image, drawn at random. The sum runs over the forget
    images of the batch; `reduction: mean` divides it by their number, as the retain term is. The retain term uses the
    retain class vectors only.
    """

    class Settings(MethodSettings):
        lr: float = Field(5e-3, gt=0)  # IV-B
        logit_scale: float = Field(64.0, gt=0, description="s_f (IV-B)")
        margin: float = Field(0.65, ge=0, description="m_f (IV-B)")
        reduction: Literal["sum", "mean"] = Field("mean", description="over the images of the batch (III-C: a sum)")

    title = "Extended CosFace"
    reference = "the paper, III-C"
    kind = "proposed"

    def __init__(self, settings: Any, forget: ForgetSet, head: Head) -> None:
        super().__init__(settings, forget, head)
        self.vectors = nn.Parameter(torch.zeros(len(forget), head.weight.shape[1]))

    def prepare(self, context: Context) -> None:
        generator = torch.Generator().manual_seed(context.seed)
        drawn = torch.randn(self.vectors.shape, generator=generator)
        with torch.no_grad():
            self.vectors.copy_(F.normalize(drawn, dim=1))

    def forget_loss(self, batch: ForgetBatch, head: Head) -> Tensor:
        cosines = (batch.unit @ F.normalize(self.vectors, dim=1).T).clamp(-1, 1)
        targets = head.classes + self.forget.places(batch.images)
        loss = head.softmax_loss(
            batch.raw,
            targets,
            cosines,
            margins=margin_of(self.settings.margin),
            logit_scale=self.settings.logit_scale,
        )
        return loss * len(targets) if self.settings.reduction == "sum" else loss
