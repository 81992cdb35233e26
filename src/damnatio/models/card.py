"""The card of a model: how to feed its weights, and where they come from."""

import json
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from damnatio.recipe.schema import ModelSettings
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular, write_atomically
from damnatio.support.manifests import checked

CARD = "card.json"


class Card(BaseModel):
    """What travels with the weights: how to feed them, where they come from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backbone: str
    dim: int = Field(ge=1)
    size: int = Field(ge=1)
    colour: Literal["RGB", "BGR"] = "RGB"
    mean: float = 127.5
    scale: float = Field(127.5, gt=0)
    origin: str = ""
    licence: str = ""
    sha256: str = ""
    parity: float | None = None
    """of an ONNX file: the most that torch and onnxruntime differ by, as a share of the embedding's length"""

    def fed_as(self, settings: ModelSettings) -> "Card":
        """The card with what the recipe says of the feeding and the licence."""
        feeding = {"colour": settings.colour, "mean": settings.mean, "scale": settings.deviation}
        said = {**feeding, "licence": settings.licence}
        return self.model_copy(update={key: value for key, value in said.items() if value is not None})

    def prepare(self, images: NDArray[np.uint8], device: torch.device) -> Tensor:
        """uint8 RGB [n, size, size, 3] as the network takes them: float [n, 3, size, size]."""
        x = torch.from_numpy(images).to(device).permute(0, 3, 1, 2)
        if self.colour == "BGR":
            x = x.flip(1)
        return x.to(torch.float32).sub_(self.mean).div_(self.scale)


def write_card(card: Card, path: Path) -> None:
    write_atomically(path, card.model_dump_json(indent=1, exclude_none=True) + "\n")


def card_beside(path: Path) -> Path | None:
    """Where the card of a weight file lies, if it has one."""
    places = (path.with_name(f"{path.name}.{CARD}"), path.with_name(CARD))
    return next((place for place in places if place.exists()), None)


def read_card(path: Path) -> Card:
    need_regular(path, "The model card")
    try:
        return Card.model_validate(json.loads(checked(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise DamnatioError(f"{path} is not a readable model card ({' '.join(str(error).split())[:200]}).") from error


def load_card(folder: Path) -> Card:
    return read_card(folder / CARD)
