"""A model on disk: its weights, and a card with all that is needed to use them.

A folder holds `model.safetensors`, or `model.onnx` where the network came as an ONNX graph, with `card.json`; a single
file has its card beside it, `<file>.card.json`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from damnatio.backbones import BACKBONES
from damnatio.devices import device
from damnatio.errors import DamnatioError
from damnatio.exchange.graph import GraphNetwork
from damnatio.exchange.onnx_files import parity_of, read_network, write_network
from damnatio.files import need_regular
from damnatio.heads import HEADS
from damnatio.heads.base import Head
from damnatio.recipe import ModelSettings
from damnatio.workspace import atomic_file, checked, digest_of, write_atomically

WEIGHTS, GRAPH, HEAD, CARD = "model.safetensors", "model.onnx", "head.safetensors", "card.json"

LISTED = 8
"""tensors named where many do not fit"""
ONNX = "onnx"
"""the backbone of a card whose network is the graph of its file"""


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


def new_backbone(name: str, size: int, dim: int) -> nn.Module:
    """A network by name, its weights laid out as images come: channels last."""
    backbone = BACKBONES.get(name)(size, dim)
    return backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def new_head(settings: ModelSettings, classes: int) -> Head:
    try:
        return HEADS.get(settings.head)(
            classes, settings.dim, scale=settings.scale, margin=settings.margin, **settings.head_options
        )
    except TypeError:
        raise DamnatioError(
            f"model.head_options: the head '{settings.head}' takes no such option ({', '.join(settings.head_options)})."
        ) from None


def save_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Tensors to a safetensors file, atomically."""
    with atomic_file(path) as temporary:
        try:
            save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, temporary, metadata)
        except SafetensorError as error:  # a full disk, for one, is told as any other file would tell it
            raise OSError(str(error)) from error


def save_model(backbone: nn.Module, head: Head | None, card: Card, folder: Path) -> None:
    parity = None
    if isinstance(backbone, GraphNetwork):
        path = folder / GRAPH
        write_network(backbone, path)
        parity = parity_of(backbone, path, card.size)
    else:
        path = folder / WEIGHTS
        save_tensors(backbone.state_dict(), path)
    if head is not None:
        save_tensors(head.state_dict(), folder / HEAD)
    write_card(card.model_copy(update={"sha256": digest_of(path), "parity": parity}), folder / CARD)


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


def weights_in(folder: Path) -> Path:
    """The weight file of a model folder."""
    return folder / GRAPH if (folder / GRAPH).is_file() else folder / WEIGHTS


def load_backbone(folder: Path) -> tuple[nn.Module, Card]:
    """The network of a folder that `save_model` wrote, in evaluation mode."""
    card = load_card(folder)
    if card.backbone == ONNX:
        return read_network(checked(folder / GRAPH))[0].to(device()), card
    backbone = new_backbone(card.backbone, card.size, card.dim)
    load_weights(backbone, folder / WEIGHTS)
    return backbone.to(device()).eval(), card


def load_head(settings: ModelSettings, folder: Path) -> Head:
    weights = read_tensors(folder / HEAD)
    if "weight" not in weights:
        raise DamnatioError(f"{folder / HEAD} is no classifier head: it has no tensor 'weight'.")
    head = new_head(settings, len(weights["weight"]))
    put_tensors(head, weights, folder / HEAD, settings.head)
    return head.to(device())


def load_weights(module: nn.Module, path: Path) -> None:
    put_tensors(module, read_tensors(path), path)


def put_tensors(module: nn.Module, tensors: Mapping[str, Tensor], path: Path, name: str = "") -> None:
    """The tensors into the network, all of them and no other; what does not fit is told in one sentence."""
    wanted = module.state_dict()
    faults = {
        "missing": [name for name in wanted if name not in tensors],
        "foreign": [name for name in tensors if name not in wanted],
        "of another shape": [
            f"{name} ({_shape(tensors[name])} for {_shape(wanted[name])})"
            for name in wanted
            if name in tensors and tensors[name].shape != wanted[name].shape
        ],
    }
    told = [
        f"{len(names)} tensors are {fault}: {', '.join(names[:LISTED])}{', ...' if len(names) > LISTED else ''}"
        for fault, names in faults.items()
        if names
    ]
    if told:
        network = f"the network{' ' + name if name else ''}"
        raise DamnatioError(f"{path} does not fit {network}: {'; '.join(told)}. Check model.backbone and model.dim.")
    module.load_state_dict(tensors)


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"


def read_tensors(path: Path) -> dict[str, Any]:
    try:
        tensors: dict[str, Any] = load_file(checked(path))
    except (OSError, SafetensorError) as error:
        raise DamnatioError(f"{path} is not a readable safetensors file ({error}).") from error
    return tensors
