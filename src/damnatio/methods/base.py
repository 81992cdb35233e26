"""The contract of a method that fine-tunes the network: its losses on a batch, what it needs, and what it does before
the training and before each epoch. The training loop does the rest:

    L(f) = lambda_r L_retain(f) + lambda_f L_forget(f)            (the paper's composite objective, III-C)

A method is a torch module, and so is its loss. The parameters of the loss (class vectors of its own, for example) are
optimised beside the backbone and the head. Its buffers (targets, centroids) are fixed: `make_loss` allocates them at
their final shape, and `prepare` or `begin_epoch` fills them. Checkpoints hold both, so that a resumed run continues
with the same values.
"""

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from damnatio.heads.base import Head
from damnatio.losses import Distillation, ForgetLoss
from damnatio.losses.base import unit
from damnatio.recipe.schema import BatchNorm, Count, ForgetSettings, Images, Optimiser, Recipe, RetainTerm, Section
from damnatio.recipe.sentences import validated
from damnatio.support.errors import DamnatioError


class AnySettings(Section):
    """Hyper-parameters of a method; each adds its own in its own file."""

    method: str


class MethodSettings(AnySettings):
    """Hyper-parameters that every method has which fine-tunes. The last ones are unset unless the method or the variant
    needs another value than `forget` has for all methods."""

    lr: float = Field(1e-3, gt=0)
    lambda_retain: float = Field(1.0, ge=0)
    lambda_forget: float = Field(1.0, ge=0)
    retain: RetainTerm | None = Field(None, description="the retain term; unset: forget.retain")
    epochs: Count | None = Field(None, le=1_000_000, description="unset: forget.epochs")
    batch: Images | None = Field(None, ge=2, description="retain images per step; unset: forget.batch")
    warmup_epochs: float | None = Field(None, ge=0, description="unset: forget.warmup_epochs")
    optimiser: Optimiser | None = Field(None, description="unset: forget.optimiser")
    weight_decay: float | None = Field(None, ge=0, description="unset: forget.weight_decay")
    batch_norm: BatchNorm | None = Field(None, description="unset: forget.batch_norm")
    identities_per_batch: Images | None = Field(None, description="unset: forget.identities_per_batch")
    images_per_identity: Images | None = Field(None, ge=2, description="unset: forget.images_per_identity")


SCHEDULE = (
    "epochs",
    "batch",
    "warmup_epochs",
    "optimiser",
    "weight_decay",
    "batch_norm",
    "identities_per_batch",
    "images_per_identity",
)
"""the settings of `forget` that a variant may replace for itself"""


class ForgetSet:
    """The forget-train images and their identities, in ascending order of image id (the row in the table of faces)."""

    def __init__(self, images: NDArray[np.int64], identities: NDArray[np.int64]) -> None:
        order = np.argsort(images)
        self.images, self.identities = images[order], identities[order]

    def __len__(self) -> int:
        return len(self.images)

    def places(self, images: Tensor) -> Tensor:
        """The place of each image id in the set. An image that is not in the set is an error."""
        known = torch.from_numpy(self.images).to(images.device)
        places = torch.searchsorted(known, images).clamp_(max=len(known) - 1)
        strangers = images[known[places] != images]
        if len(strangers):
            raise DamnatioError(f"Image {int(strangers[0])} belongs to no forget identity: a method cannot forget it.")
        return places


@dataclass(frozen=True)
class Embedded:
    """A batch under the model in training: `raw` is f(x) before normalisation."""

    raw: Tensor
    frozen: Tensor | None
    """f*(x) before normalisation, if the method or its retain term needs it"""

    @property
    def unit(self) -> Tensor:
        """f(x)."""
        return unit(self.raw)


@dataclass(frozen=True)
class RetainBatch(Embedded):
    labels: Tensor


@dataclass(frozen=True)
class ForgetBatch(Embedded):
    images: Tensor
    """image ids, by which a method finds the target of an image"""
    identities: Tensor


@dataclass(frozen=True)
class Context:
    """What a method may use outside a step."""

    forget: ForgetSet
    head: Head
    seed: int
    embed: Callable[[], Tensor]
    """computes f(x) of every forget-train image under the present model, raw, in the order of `forget.images`"""
    embed_frozen: Callable[[], Tensor]
    """computes the same under f*"""
    folder: Path | None = None
    """where a preparation of hours keeps what is finished, as pieces (`support/pieces.py`); None: nowhere"""


class Method(nn.Module, ABC):
    """One way to forget by fine-tuning: a loss of `damnatio.losses` with the settings of a recipe. `title` is its full
    name. `frozen_model` asks for f*(x) in every batch. `pairs` says that the method works on pairs of images, so that
    it can do nothing with an identity of a single image."""

    Settings: ClassVar[type[MethodSettings]]
    title: ClassVar[str]
    reference: ClassVar[str]
    kind: ClassVar[str] = "outside"
    """the paper's grouping (generic, prior, proposed), or reference, or outside"""
    reconstruction: ClassVar[bool] = False
    """whether the original is not public and this method was rebuilt from its description"""
    frozen_model: ClassVar[bool] = False
    pairs: ClassVar[bool] = False
    behind: ClassVar[bool] = False
    """whether it is a map behind a network that stays as it is: cut it off, and everybody is back"""
    loss: ForgetLoss | None

    def __init__(self, settings: Any, forget: ForgetSet, head: Head) -> None:
        super().__init__()
        self.settings = settings
        self.forget = forget
        dim: int = head.weight.shape[1]
        self.loss = self.make_loss(settings, forget, dim)

    def make_loss(self, settings: Any, forget: ForgetSet, dim: int) -> ForgetLoss | None:
        """The loss, with its tensors at their final shape; None for a method that overrides `forget_loss`."""
        return None

    def prepare(self, context: Context) -> None:
        """Called once, before the first step."""

    def begin_epoch(self, epoch: int, context: Context) -> None:
        """Called before the first step of each epoch."""
        if self.loss is not None and self.loss.updates and epoch % self.loss.updates == 0:
            found = context.embed()
            identities = torch.from_numpy(self.forget.identities).to(found.device)
            self.loss.update(found, identities, context.seed + epoch)

    @property
    def distils(self) -> bool:
        """Whether the retain term is the distance to f*(x), which each retain batch must hold then."""
        return bool(self.settings.retain == "distil")

    def retain_loss(self, batch: RetainBatch, head: Head) -> Tensor:
        """The term that keeps everybody else recognised:

            classify:  the head's loss on the labels (the paper, III-C)
            distil:    1/N sum_i (1 - <f(x_i), f*(x_i)>)

        A method that overrides this has a retain term of its own, and the setting `retain` does not apply to it."""
        if self.distils:
            assert batch.frozen is not None
            kept: Tensor = Distillation()(batch.raw, batch.frozen)
            return kept
        return self.classification_loss(batch, head)

    def classification_loss(self, batch: RetainBatch, head: Head) -> Tensor:
        """The retain term `classify`: f*'s own loss unless a method overrides it."""
        loss: Tensor = head(batch.raw, batch.labels)
        return loss

    def forget_loss(self, batch: ForgetBatch, head: Head) -> Tensor:
        """The term that makes the chosen identities unlinkable: the loss, unless a method overrides this."""
        if self.loss is None:
            raise NotImplementedError(f"{type(self).__name__} has neither a loss nor a forget_loss of its own")
        images = self.forget.places(batch.images) if "images" in self.loss.needs else None
        found: Tensor = self.loss(batch.raw, batch.identities, images, before=batch.frozen, head=head)
        return found


def fine_tuning(name: str) -> type[Method]:
    """The method of this name, which must be one that fine-tunes."""
    from damnatio.methods import METHODS

    kind = METHODS.get(name)
    if not issubclass(kind, Method):
        raise DamnatioError(f"{name} is a closed form, and no training loop runs it.")
    return kind


def method_settings(recipe: Recipe, variant: str, source: str | Path = "") -> AnySettings:
    """The hyper-parameters of a variant: the defaults of its method, changed as the recipe says. What the variant
    leaves unset and `forget` sets for all is filled in here, and nowhere else."""
    from damnatio.methods import METHODS

    given = {"method": variant, **recipe.forget.settings.get(variant, {})}
    kind, place = METHODS.get(str(given["method"])), f"forget.settings.{variant}"
    settings = validated(kind.Settings, given, source or recipe.name, place)
    if not isinstance(settings, MethodSettings) or not issubclass(kind, Method):
        return settings
    if kind.retain_loss is not Method.retain_loss:
        if settings.retain is not None:
            raise DamnatioError(
                f"Recipe {source or recipe.name}: {place}.retain: {settings.method} has a retain term of its own, and "
                "neither 'classify' nor 'distil' replaces it: leave 'retain' unset."
            )
        return settings
    return settings.model_copy(update={"retain": settings.retain or recipe.forget.retain})


def schedule_of(recipe: Recipe, variant: str, source: str | Path = "") -> ForgetSettings:
    """The section `forget` for one variant: with the variant's own values where it has any."""
    settings = method_settings(recipe, variant, source)
    if not isinstance(settings, MethodSettings):  # a closed form has no schedule
        return recipe.forget
    own = {name: value for name in SCHEDULE if (value := getattr(settings, name)) is not None}
    common = recipe.forget.model_dump()
    return validated(ForgetSettings, {**common, **own}, source or recipe.name, f"forget.settings.{variant}")
