"""The card of a model: how the network is fed, and where its weights come from."""

import json
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from damnatio.models.statistics import Statistics
from damnatio.recipe.schema import ModelSettings
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular, write_atomically
from damnatio.support.manifests import checked

CARD = "card.json"


class Card(BaseModel):
    """The card of a model. The network is fed (x - mean) / deviation of values 0 to 255, as `colour`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backbone: str
    dim: int = Field(ge=1)
    size: int = Field(ge=1)
    colour: Literal["RGB", "BGR"] = "RGB"
    mean: float = 127.5
    deviation: float = Field(127.5, gt=0)
    origin: str = ""
    licence: str = ""
    sha256: str = ""
    parity: float | None = None
    """of an ONNX file: the largest difference between torch and onnxruntime, as a share of the embedding's length"""
    map: str = ""
    """the closed-form method whose map follows the network in the file; empty: none"""
    scores: Statistics | None = None
    """how mated and non-mated scores of the network lie, if they were measured"""
    limits: list[str] = Field(default_factory=list)
    """what the altered model does not do, in sentences"""

    def fed_as(self, settings: ModelSettings) -> "Card":
        """The card, with the feeding and the licence that the recipe states."""
        feeding = {"colour": settings.colour, "mean": settings.mean, "deviation": settings.deviation}
        stated = {**feeding, "licence": settings.licence}
        return self.model_copy(update={key: value for key, value in stated.items() if value is not None})

    def prepare(self, images: NDArray[np.uint8], device: torch.device) -> Tensor:
        """Images as the network takes them: uint8 RGB [n, size, size, 3] -> float [n, 3, size, size]."""
        x = torch.from_numpy(images).to(device, non_blocking=True).permute(0, 3, 1, 2)
        if self.colour == "BGR":
            x = x.flip(1)
        return x.to(torch.float32).sub_(self.mean).div_(self.deviation)


def altered_card(card: Card, variant: str, scale: str) -> Card:
    """The card of the model that a variant makes of this card's model."""
    origin = f"{card.sha256[:16]} ({card.origin}) altered by {variant} at {scale}"
    return card.model_copy(update={"origin": origin, "sha256": ""})


def write_card(card: Card, path: Path) -> None:
    unsaid = {key for key in ("map", "limits") if not getattr(card, key)}
    write_atomically(path, card.model_dump_json(indent=1, exclude_none=True, exclude=unsaid) + "\n")


def card_beside(path: Path) -> Path | None:
    """The path of the card of a weight file; None if it has no card."""
    places = (path.with_name(f"{path.name}.{CARD}"), path.with_name(CARD))
    return next((place for place in places if place.exists()), None)


def read_card(path: Path) -> Card:
    need_regular(path, "The model card")
    try:
        content = json.loads(checked(path).read_text(encoding="utf-8"))
        if isinstance(content, dict) and "scale" in content and "deviation" not in content:
            content["deviation"] = content.pop("scale")  # its name in cards of 0.1.0
        return Card.model_validate(content)
    except DamnatioError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise DamnatioError(f"{path} is not a readable model card ({' '.join(str(error).split())[:200]}).") from error


def load_card(folder: Path) -> Card:
    return read_card(folder / CARD)
