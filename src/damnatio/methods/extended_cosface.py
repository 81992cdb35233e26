"""EC in a recipe: `losses.ExtendedCosFace`."""

from typing import Any, Literal

from pydantic import Field

from damnatio import losses
from damnatio.methods import METHODS
from damnatio.methods.base import Context, ForgetSet, Method, MethodSettings


@METHODS.register("EC")
class EC(Method):
    """See `damnatio.losses.ExtendedCosFace`. The sum over the forget images of the batch is divided by their number, as
    the retain term is, unless `reduction: sum`. The retain term uses the retain class vectors only."""

    class Settings(MethodSettings):
        lr: float = Field(5e-3, gt=0)  # IV-B
        logit_scale: float = Field(64.0, gt=0, description="s_f (IV-B)")
        margin: float = Field(0.65, ge=0, description="m_f (IV-B)")
        reduction: Literal["sum", "mean"] = Field("mean", description="over the images of the batch (III-C: a sum)")

    title = "Extended CosFace"
    reference = "the paper, III-C"
    kind = "proposed"
    loss: losses.ExtendedCosFace

    def make_loss(self, settings: Any, forget: ForgetSet, dim: int) -> losses.ExtendedCosFace:
        return losses.ExtendedCosFace(
            len(forget), dim, settings.margin, settings.logit_scale, reduction=settings.reduction
        )

    def prepare(self, context: Context) -> None:
        self.loss.draw(context.seed)
