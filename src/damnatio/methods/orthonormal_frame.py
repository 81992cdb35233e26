"""OF: give each forget image a target direction, far from everybody and from the other targets, and align it there."""

from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from damnatio.heads.base import Head
from damnatio.methods import METHODS
from damnatio.methods.base import Context, ForgetBatch, ForgetSet, Method, MethodSettings
from damnatio.methods.frames import ClosedFrame, greedy_frame
from damnatio.support.errors import DamnatioError


@METHODS.register("OF")
class OrthonormalFrame(Method):
    """Orthonormal frame (the paper, III-C):

        L = w/N sum_i (1 - <f(x_i), U_i>)

    U_i are unit targets, one per image, fixed before training. `greedy` is the paper's furthest-point sampling against
    the retain class vectors; `closed` computes a target from the image's place in the forget set and the seed, and
    stores nothing.
    """

    class Settings(MethodSettings):
        lr: float = Field(5e-3, gt=0)  # IV-B
        weight: float = Field(100.0, gt=0, description="the factor w of the forget term (IV-B)")
        frame: Literal["greedy", "closed"] = "greedy"
        candidates: int = Field(
            256, ge=1, le=65_536, description="random candidates of each target of the greedy frame, drawn for it alone"
        )

        @model_validator(mode="after")
        def _one_frame(self) -> "OrthonormalFrame.Settings":
            if self.frame == "closed" and "candidates" in self.model_fields_set:
                raise ValueError("'candidates' belongs to the greedy frame; the closed form has no candidates")
            return self

    title = "Orthonormal frame"
    reference = "the paper, III-C"
    kind = "proposed"
    targets: Tensor
    seed: Tensor

    def __init__(self, settings: Any, forget: ForgetSet, head: Head) -> None:
        super().__init__(settings, forget, head)
        dim, greedy = head.weight.shape[1], settings.frame == "greedy"
        self.register_buffer("targets", torch.zeros(len(forget) if greedy else 0, dim))
        self.register_buffer("seed", torch.zeros((), dtype=torch.long))
        self._closed: ClosedFrame | None = None
        if not greedy and len(forget) > len(ClosedFrame(dim, 0)):
            raise DamnatioError(
                f"OF: {len(forget):,} forget images need one target each, and the closed-form frame has "
                f"{len(ClosedFrame(dim, 0)):,} at dimension {dim}: set frame: greedy or a larger model.dim."
            )

    def prepare(self, context: Context) -> None:
        self.seed.fill_(context.seed)
        if self.settings.frame == "greedy":
            retain = context.head.class_vectors().detach()
            count, candidates = len(self.targets), self.settings.candidates
            self.targets.copy_(greedy_frame(count, retain, candidates, context.seed, context.folder))

    def targets_of(self, images: Tensor) -> Tensor:
        """The target of each image, found by the image id."""
        places = self.forget.places(images)
        if self.settings.frame == "greedy":
            return self.targets[places]
        if self._closed is None:
            self._closed = ClosedFrame(self.targets.shape[1], int(self.seed))
        return self._closed(places)

    def forget_loss(self, batch: ForgetBatch, head: Head) -> Tensor:
        weight: float = self.settings.weight
        return weight * (1 - (batch.unit * self.targets_of(batch.images)).sum(dim=1)).mean()
