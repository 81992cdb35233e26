"""HD in a recipe: `losses.HardDispersion`."""

from typing import Any

from pydantic import Field

from damnatio import losses
from damnatio.methods import METHODS
from damnatio.methods.base import ForgetSet, Method, MethodSettings


@METHODS.register("HD")
class HD(Method):
    """See `damnatio.losses.HardDispersion`."""

    class Settings(MethodSettings):
        lambda_forget: float = Field(10.0, ge=0)  # IV-B: lambda_f = 10 lambda_r
        margin: float = Field(0.35, description="the hinge margin m (IV-B)")

    title = "Hard dispersion"
    reference = "Zakharov, arXiv 2512.13317"
    kind = "prior"
    pairs = True

    def make_loss(self, settings: Any, forget: ForgetSet, dim: int) -> losses.HardDispersion:
        return losses.HardDispersion(settings.margin)
