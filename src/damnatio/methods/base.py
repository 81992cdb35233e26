"""The contract of a forgetting method: losses on a batch, what it needs, and what it does before training and each
epoch. The training loop does the rest:

    L(f) = lambda_r L_retain(f) + lambda_f L_forget(f)            (the paper's composite objective, III-C)

A method is a torch module. What it learns (rows of a head, say) are parameters: the loop optimises them beside the
backbone and the head. What it fixes (targets, centroids) are buffers, allocated in `__init__` at their final shape and
filled in `prepare` or `begin_epoch`. Both travel in the checkpoints, so that a resumed run goes on with the same ones.
"""

from abc import ABC, abstractmethod
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
from damnatio.recipe.schema import Recipe, Section
from damnatio.recipe.sentences import validated
from damnatio.support.errors import DamnatioError


class MethodSettings(Section):
    """Hyper-parameters that every method has; each adds its own in its own file."""

    method: str
    lr: float = Field(1e-3, gt=0)
    lambda_retain: float = Field(1.0, ge=0)
    lambda_forget: float = Field(1.0, ge=0)


class ForgetSet:
    """The forget-train images, by image id (their row in the table of faces): ascending, with their identities."""

    def __init__(self, images: NDArray[np.int64], identities: NDArray[np.int64]) -> None:
        order = np.argsort(images)
        self.images, self.identities = images[order], identities[order]

    def __len__(self) -> int:
        return len(self.images)

    def places(self, images: Tensor) -> Tensor:
        """Where each image id stands in the set; an image that is not in it is an error, never a neighbour's place."""
        known = torch.from_numpy(self.images).to(images.device)
        places = torch.searchsorted(known, images).clamp_(max=len(known) - 1)
        strangers = images[known[places] != images]
        if len(strangers):
            raise DamnatioError(f"Image {int(strangers[0])} belongs to no forget identity: a method cannot forget it.")
        return places


@dataclass(frozen=True)
class Embedded:
    """A batch under the model in training. `unit` is f(x); `raw` is it before normalisation."""

    raw: Tensor
    unit: Tensor
    frozen: Tensor | None
    """f*(x), where the method asked for it."""


@dataclass(frozen=True)
class RetainBatch(Embedded):
    labels: Tensor


@dataclass(frozen=True)
class ForgetBatch(Embedded):
    images: Tensor
    """image ids: what per-image targets are addressed by"""
    identities: Tensor


@dataclass(frozen=True)
class Context:
    """What a method may look at outside a step."""

    forget: ForgetSet
    head: Head
    seed: int
    embed: Callable[[], Tensor]
    """f(x) of every forget-train image under the model as it is now, in the order of `forget.images`"""
    embed_frozen: Callable[[], Tensor]
    """the same under f*"""


class Method(nn.Module, ABC):
    """One way to forget. `title` is its name in full, `frozen_model` asks for f*(x) in every batch, `pairs` says that
    an identity with a single image gives it nothing to work on."""

    Settings: ClassVar[type[MethodSettings]]
    title: ClassVar[str]
    reference: ClassVar[str]
    kind: ClassVar[str] = "outside"
    """the paper's grouping: generic, prior, proposed; or outside"""
    reconstruction: ClassVar[bool] = False
    """whether the original is not public and this is what could be made of its description"""
    frozen_model: ClassVar[bool] = False
    pairs: ClassVar[bool] = False

    def __init__(self, settings: Any, forget: ForgetSet, head: Head) -> None:
        super().__init__()
        self.settings = settings
        self.forget = forget

    def prepare(self, context: Context) -> None:
        """Once, before the first step."""

    def begin_epoch(self, epoch: int, context: Context) -> None:
        """Before the first step of each epoch."""

    def retain_loss(self, batch: RetainBatch, head: Head) -> Tensor:
        """The term that holds everybody else in place; f*'s own classification loss unless a method says otherwise."""
        loss: Tensor = head(batch.raw, batch.labels)
        return loss

    @abstractmethod
    def forget_loss(self, batch: ForgetBatch, head: Head) -> Tensor:
        """The term that makes the chosen identities unlinkable."""


def method_settings(recipe: Recipe, label: str, source: str | Path = "") -> "MethodSettings":
    """The hyper-parameters of the row `label`: the method's defaults and what the recipe says differs."""
    from damnatio.methods import METHODS

    given = {"method": label, **recipe.forget.settings.get(label, {})}
    return validated(
        METHODS.get(str(given["method"])).Settings, given, source or recipe.name, f"forget.settings.{label}"
    )
