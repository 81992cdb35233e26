"""State dicts: the tensors of a `.pth`, `.pt` or `.safetensors` file, and which backbone they are the weights of."""

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
from damnatio.errors import DamnatioError

WRAPPERS = ("state_dict", "model", "backbone", "net")
"""keys under which trainers keep the weights beside an optimiser, say"""
PREFIXES = ("module.", "_orig_mod.", "backbone.")
"""what wrappers put before every name: DistributedDataParallel, torch.compile, a model with its head"""

SIZES = (112, 96, 128, 160, 224, 256, 192, 144, 64, 32)
"""sides of images that networks are made for, tried where the wanted one does not fit"""
DIM = 512
"""the dimension of an embedding where nothing says it"""


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by the names that the network gave them."""
    if path.suffix == ".safetensors":
        try:
            return _bare(load_file(path))
        except (OSError, SafetensorError) as error:
            raise DamnatioError(f"{path} is not a readable safetensors file ({error}).") from error
    try:
        content: Any = torch.load(_source(path), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise DamnatioError(
            f"{path} holds more than tensors, and code in a file is never run: save its state dict alone, with "
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
    """The file, or the whole of it in memory where it is of torch's old format. Of that, torch reads texts of whatever
    length the file states, and memory would be asked for in full where a file holds less."""
    return path if zipfile.is_zipfile(path) else io.BytesIO(path.read_bytes())


def _bare(content: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors without the prefixes that a wrapper put before all of their names."""
    state = dict(content)
    for prefix in PREFIXES:
        if all(name.startswith(prefix) for name in state):
            state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
    return state


def guess(state: Mapping[str, Tensor], size: int, path: Path) -> tuple[str, int]:
    """The registered backbone whose tensors these are, or are most like, and its dimension."""
    given = {name: tensor.shape for name, tensor in state.items() if not _counter(name)}
    likeness: dict[str, float] = {}
    for backbone in BACKBONES.names():
        shapes = _shapes(backbone, size, DIM)
        likeness[backbone] = len(given.items() & shapes.items()) / len(given.keys() | shapes.keys())
        if given.keys() == shapes.keys():
            dim = _dimension(backbone, size, given)
            if input_size(state, backbone, dim, size):
                return backbone, dim
    nearest = max(likeness, key=lambda name: likeness[name])
    if likeness[nearest] < 0.5:
        raise DamnatioError(
            f"{path} holds the tensors of no known backbone ({', '.join(list(state)[:3])}, ...): "
            "`damnatio ls backbones` shows which there are, and docs/bring-your-own-model.md how to add one."
        )
    return nearest, DIM


def input_size(state: Mapping[str, Tensor], backbone: str, dim: int, wanted: int) -> int | None:
    """The side of the images that these weights of a backbone are for: the wanted one if they fit it, else one of the
    usual ones; None where they fit none."""
    given = {name: tensor.shape for name, tensor in state.items() if not _counter(name)}
    return next((size for size in dict.fromkeys((wanted, *SIZES)) if _shapes(backbone, size, dim) == given), None)


def _dimension(backbone: str, size: int, given: Mapping[str, torch.Size]) -> int:
    """What the tensors say where the backbone's own shapes depend on the dimension."""
    shapes, others = _shapes(backbone, size, DIM), _shapes(backbone, size, DIM + 1)
    place = next(name for name in shapes if shapes[name] != others[name])
    axis = next(i for i, side in enumerate(shapes[place]) if side != others[place][i])
    return given[place][axis] if axis < len(given[place]) else DIM


def fill_counters(state: dict[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """BatchNorm's count of batches is in no file older than it, and nothing here depends on it."""
    return {name: torch.zeros_like(tensor) for name, tensor in wanted.items() if _counter(name)} | state


def _counter(name: str) -> bool:
    return name.endswith(".num_batches_tracked")


@lru_cache(maxsize=64)
def _shapes(backbone: str, size: int, dim: int) -> dict[str, torch.Size]:
    try:
        with torch.device("meta"):
            state = BACKBONES.get(backbone)(size, dim).state_dict()
    except DamnatioError:  # a network that there is not at this size
        return {}
    return {name: tensor.shape for name, tensor in state.items() if not _counter(name)}
