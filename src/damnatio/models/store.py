"""A model on disk: its weights, and a card that says how to use them.

A folder holds `card.json` and `model.safetensors`, or `model.onnx` if the network came as an ONNX graph. A single file
has its card beside it, `<file>.card.json`. A gate behind the network is in the same file.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from damnatio.backbones import BACKBONES
from damnatio.heads import HEADS
from damnatio.heads.base import Head
from damnatio.models.card import CARD, Card, load_card, write_card
from damnatio.models.gate import Gate, ungated
from damnatio.models.limits import limits_of
from damnatio.models.maps import followed, method_of, parted, tensors_of
from damnatio.models.onnx.files import parity_of, read_graph, write_network
from damnatio.models.onnx.graph import GraphNetwork
from damnatio.recipe.schema import ModelSettings
from damnatio.support import row_files
from damnatio.support.arrays import read_tensors, save_tensors
from damnatio.support.devices import device
from damnatio.support.errors import DamnatioError
from damnatio.support.files import digest_of
from damnatio.support.manifests import checked
from damnatio.support.row_files import Rows

WEIGHTS, GRAPH, HEAD = "model.safetensors", "model.onnx", "head.safetensors"

LISTED = 8
"""the most tensors that an error names"""
ONNX = "onnx"
"""the backbone in the card of a network that is an ONNX graph"""


def new_backbone(name: str, size: int, dim: int) -> nn.Module:
    """A new network by name. Its weights have their channels last, as the images do."""
    backbone = BACKBONES.get(name)(size, dim)
    return backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def new_head(settings: ModelSettings, classes: int) -> Head:
    """A new head of the recipe for so many identities."""
    try:
        head = HEADS.get(settings.head)(
            classes, settings.dim, logit_scale=settings.logit_scale, margin=settings.margin, **settings.head_options
        )
        head.partial_fc = settings.partial_fc
        return head
    except TypeError:
        raise DamnatioError(
            f"model.head_options: the head '{settings.head}' takes no such option ({', '.join(settings.head_options)})."
        ) from None


def save_model(backbone: nn.Module, head: Head | None, card: Card, folder: Path) -> None:
    """Write the network, its head if it has one, and its card to a folder."""
    parity = None
    if isinstance(ungated(backbone)[0], GraphNetwork):
        path = folder / GRAPH
        write_network(backbone, path)
        parity = parity_of(backbone, path, card.size)
    else:
        path = folder / WEIGHTS
        save_tensors(tensors_of(backbone), path)
    if head is not None:
        save_head(head, folder)
    found = {"sha256": digest_of(path), "parity": parity, "map": method_of(backbone, card.map)}
    write_card(card.model_copy(update={**found, "limits": limits_of(backbone)}), folder / CARD)


def save_head(head: Head, folder: Path) -> None:
    """Write the head to a folder. If its rows are spread over the processes of a job, every process calls this."""
    spread = {"weight": head.classes} if head.shared else {}
    row_files.write({name: Rows(t, spread.get(name)) for name, t in head.state_dict().items()}, folder / HEAD)


def weights_in(folder: Path) -> Path:
    """The weight file of a model folder."""
    return folder / GRAPH if (folder / GRAPH).is_file() else folder / WEIGHTS


def load_backbone(folder: Path) -> tuple[nn.Module, Card]:
    """The network of a folder that `save_model` wrote, in evaluation mode."""
    card = load_card(folder)
    if card.backbone == ONNX:
        return read_graph(checked(folder / GRAPH)).model.to(device()), card
    backbone = new_backbone(card.backbone, card.size, card.dim)
    network = filled(backbone, read_tensors(folder / WEIGHTS), card, folder / WEIGHTS)
    return network.to(device()).eval(), card


def load_head(settings: ModelSettings, folder: Path) -> Head:
    """The head of a folder that `save_model` wrote."""
    weights = read_tensors(folder / HEAD)
    if "weight" not in weights:
        raise DamnatioError(f"{folder / HEAD} is not a classifier head: it has no tensor 'weight'.")
    head = new_head(settings, len(weights["weight"]))
    put_tensors(head, weights, folder / HEAD, name=settings.head)
    return head.to(device())


def filled(backbone: nn.Module, tensors: Mapping[str, Tensor], card: Card, path: Path, name: str = "") -> nn.Module:
    """The backbone with the tensors of a file, and behind it the map that the file holds, if it holds one."""
    own, behind = parted(tensors, own=backbone.state_dict())
    put_tensors(backbone, own, path, name=name)
    model = followed(backbone, behind, card.map, path)
    gate = ungated(model)[1]
    if isinstance(gate, Gate) and gate.directions.shape[1] != card.dim:
        raise DamnatioError(
            f"{path} makes {card.dim} values of an image, and its gate takes {gate.directions.shape[1]}: the gate is "
            "that of another model."
        )
    return model


def put_tensors(module: nn.Module, tensors: Mapping[str, Tensor], path: Path, name: str = "") -> None:
    """Load the tensors into a module. Missing, foreign and misshapen tensors are reported in one sentence."""
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
    sentences = [
        f"{len(names)} tensors are {fault}: {', '.join(names[:LISTED])}{', ...' if len(names) > LISTED else ''}"
        for fault, names in faults.items()
        if names
    ]
    if sentences:
        network = f"the network{' ' + name if name else ''}"
        raise DamnatioError(
            f"{path} does not fit {network}: {'; '.join(sentences)}. Check model.backbone and model.dim."
        )
    module.load_state_dict(tensors)


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"
