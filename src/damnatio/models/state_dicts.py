"""State dicts: the tensors of a `.pth`, `.pt` or `.safetensors` file, and the backbone that they belong to."""

import io
import pickle
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from damnatio.backbones import BACKBONES
from damnatio.models.gate import PREFIX
from damnatio.support.errors import DamnatioError

WRAPPERS = ("state_dict_backbone", "state_dict", "model", "backbone", "net")
"""keys under which trainers keep the weights, beside an optimiser for example"""
PREFIXES = ("module.", "_orig_mod.", "backbone.")
"""prefixes of every name, put there by DistributedDataParallel, torch.compile or a model with its head"""

SIZES = (112, 96, 128, 160, 224, 256, 192, 144, 64, 32)
"""usual sides of images, tried if the wanted side does not fit"""
DIM = 512
"""the dimension of an embedding if nothing states it"""


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by the names that they have in the network."""
    if path.suffix == ".safetensors":
        try:
            return _bare(load_file(path))
        except (OSError, SafetensorError) as error:
            raise DamnatioError(f"{path} is not a readable safetensors file ({error}).") from error
    try:
        content: Any = torch.load(_source(path), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise DamnatioError(
            f"{path} holds more than tensors, and code in a file is never run: save only its state dict, with "
            "torch.save(network.state_dict(), path)."
        ) from error
    except Exception as error:  # torch may raise anything on damaged content
        raise DamnatioError(f"{path} is not a file that torch.save wrote, or a damaged one.") from error
    for key in WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    values = list(content.values()) if isinstance(content, Mapping) else []
    if not values or not all(isinstance(value, Tensor) for value in values):
        raise DamnatioError(f"{path} holds no state dict: a mapping of names to tensors is expected.")
    return _bare(content)


def _source(path: Path) -> Path | io.BytesIO:
    """The file; or its whole content, if it has torch's old format. In that format torch reads texts of any length that
    the file states, and from a file it would ask for all that memory, even if the file holds less."""
    return path if zipfile.is_zipfile(path) else io.BytesIO(path.read_bytes())


def _bare(content: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors without the prefixes that all names share, those of a gate apart."""
    state = dict(content)
    for prefix in PREFIXES:
        if all(name.startswith((prefix, PREFIX)) for name in state):
            state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
    return state


def guess(state: Mapping[str, Tensor], size: int, path: Path) -> tuple[str, int]:
    """The registered backbone that has these tensors, or the most similar ones, and its dimension. Of several, the one
    that has them at the wanted size comes first. The tensors of a gate say nothing about it."""
    given = {name: tensor.shape for name, tensor in state.items() if not _aside(name)}
    likeness: dict[str, float] = {}
    fitting: dict[str, int] = {}
    for backbone in BACKBONES.names():
        shapes = _shapes(backbone, size, DIM)
        likeness[backbone] = len(given.items() & shapes.items()) / len(given.keys() | shapes.keys())
        if given.keys() == shapes.keys():
            dim = _dimension(backbone, size, given)
            fits = input_size(state, backbone, dim=dim, wanted=size)
            if fits == size:
                return backbone, dim
            if fits:
                fitting[backbone] = dim
    for backbone, dim in fitting.items():
        return backbone, dim
    nearest = max(likeness, key=lambda name: likeness[name])
    if likeness[nearest] < 0.5:
        raise DamnatioError(
            f"{path} holds the tensors of no known backbone ({', '.join(list(state)[:3])}, ...): "
            "`damnatio ls backbones` lists the known ones, and docs/bring-your-own-model.md says how to add one."
        )
    return nearest, DIM


def input_size(state: Mapping[str, Tensor], backbone: str, *, dim: int, wanted: int) -> int | None:
    """The side of the images that these weights of a backbone fit: the wanted one if possible, else one of the usual
    ones; None if they fit none."""
    given = {name: tensor.shape for name, tensor in state.items() if not _aside(name)}
    return next((size for size in dict.fromkeys((wanted, *SIZES)) if _shapes(backbone, size, dim) == given), None)


def _dimension(backbone: str, size: int, given: Mapping[str, torch.Size]) -> int:
    """The dimension, read from a tensor whose shape depends on it."""
    shapes, others = _shapes(backbone, size, DIM), _shapes(backbone, size, DIM + 1)
    place = next(name for name in shapes if shapes[name] != others[name])
    axis = next(i for i, side in enumerate(shapes[place]) if side != others[place][i])
    return given[place][axis] if axis < len(given[place]) else DIM


def fill_counters(state: dict[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with BatchNorm's counts of batches, which old files lack. Nothing here depends on them."""
    return {name: torch.zeros_like(tensor) for name, tensor in wanted.items() if _counter(name)} | state


def _counter(name: str) -> bool:
    return name.endswith(".num_batches_tracked")


def _aside(name: str) -> bool:
    """Whether the tensor does not tell one backbone from another."""
    return _counter(name) or name.startswith(PREFIX)


@lru_cache(maxsize=64)
def _shapes(backbone: str, size: int, dim: int) -> dict[str, torch.Size]:
    try:
        with torch.device("meta"):
            state = BACKBONES.get(backbone)(size, dim).state_dict()
    except DamnatioError:  # the backbone does not exist at this size
        return {}
    return {name: tensor.shape for name, tensor in state.items() if not _aside(name)}
