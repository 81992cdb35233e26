"""CURE in a recipe: `losses.Cure`, and its retain term."""

from typing import Any

from pydantic import Field
from torch import Tensor

from damnatio import losses
from damnatio.heads.base import Head
from damnatio.losses.base import unit
from damnatio.methods import METHODS
from damnatio.methods.base import ForgetSet, Method, MethodSettings, RetainBatch


@METHODS.register("CURE")
class CURE(Method):
    """See `damnatio.losses.Cure`. The retain term is CURE's own, and `retain` does not apply:

    L_retain = w_distil mean |f(x) - f*(x)|^2                (+ the head's own loss if `classify`)
    """

    class Settings(MethodSettings):
        repel: float = Field(1.0, ge=0)
        contrast: float = Field(1.0, ge=0)
        distil: float = Field(1.0, ge=0)
        temperature: float = Field(0.1, gt=0)
        clusters: int = Field(0, ge=0, description="K; 0 takes 256, or the number of forget images if it is less")
        refresh: int = Field(5, ge=1, description="epochs between two clusterings")
        classify: bool = Field(False, description="keep the head's retain loss beside the distillation")

    title = "CURE (reconstruction)"
    reference = "Shivam et al., arXiv 2509.19562"
    kind = "generic"
    reconstruction = True
    frozen_model = True
    loss: losses.Cure

    def make_loss(self, settings: Any, forget: ForgetSet, dim: int) -> losses.Cure:
        return losses.Cure(
            len(forget),
            dim,
            settings.clusters,
            settings.refresh,
            repel=settings.repel,
            contrast=settings.contrast,
            temperature=settings.temperature,
        )

    def retain_loss(self, batch: RetainBatch, head: Head) -> Tensor:
        assert batch.frozen is not None
        loss: Tensor = self.settings.distil * (batch.unit - unit(batch.frozen)).square().sum(dim=1).mean()
        return loss + self.classification_loss(batch, head) if self.settings.classify else loss
