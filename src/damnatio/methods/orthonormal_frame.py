"""OF in a recipe: `losses.OrthonormalFrame`, and its targets."""

from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from damnatio import losses
from damnatio.frames import Closed, greedy
from damnatio.heads.base import Head
from damnatio.methods import METHODS
from damnatio.methods.base import Context, ForgetSet, Method, MethodSettings
from damnatio.support.errors import DamnatioError


@METHODS.register("OF")
class OF(Method):
    """See `damnatio.losses.OrthonormalFrame`. `greedy` is the paper's furthest-point sampling against the retain class
    vectors; `closed` computes a target from the image's place in the forget set and the seed, and stores nothing."""

    class Settings(MethodSettings):
        lr: float = Field(5e-3, gt=0)  # IV-B
        weight: float = Field(100.0, gt=0, description="the factor w of the forget term (IV-B)")
        frame: Literal["greedy", "closed"] = "greedy"
        candidates: int = Field(
            256, ge=1, le=65_536, description="random candidates of each target of the greedy frame, drawn for it alone"
        )

        @model_validator(mode="after")
        def _one_frame(self) -> "OF.Settings":
            if self.frame == "closed" and "candidates" in self.model_fields_set:
                raise ValueError("'candidates' belongs to the greedy frame; the closed form has no candidates")
            return self

    title = "Orthonormal frame"
    reference = "the paper, III-C"
    kind = "proposed"
    seed: Tensor
    loss: losses.OrthonormalFrame

    def __init__(self, settings: Any, forget: ForgetSet, head: Head) -> None:
        super().__init__(settings, forget, head)
        self.register_buffer("seed", torch.zeros((), dtype=torch.long))
        self._closed: Closed | None = None

    def make_loss(self, settings: Any, forget: ForgetSet, dim: int) -> losses.OrthonormalFrame:
        if settings.frame == "greedy":
            return losses.OrthonormalFrame(torch.zeros(len(forget), dim), settings.weight)
        self._dim = dim
        try:
            most = len(Closed(dim))
        except DamnatioError as error:
            raise DamnatioError(f"OF: {error} Set frame: greedy.") from None
        if len(forget) > most:
            raise DamnatioError(
                f"OF: {len(forget):,} forget images need one target each, and the closed-form frame has "
                f"{most:,} at dimension {dim}: set frame: greedy or a larger model.dim."
            )
        return losses.OrthonormalFrame(self._closed_targets, settings.weight)

    def prepare(self, context: Context) -> None:
        self.seed.fill_(context.seed)
        if self.loss.targets is not None:
            retain = context.head.class_vectors().detach()
            count, candidates = len(self.loss.targets), self.settings.candidates
            targets = greedy(count, retain, candidates=candidates, seed=context.seed, folder=context.folder)
            self.loss.targets.copy_(targets)

    def _closed_targets(self, places: Tensor) -> Tensor:
        if self._closed is None:
            self._closed = Closed(self._dim, int(self.seed))
        return self._closed(places)
