"""Arrays and tensors on disk: safetensors files, written atomically."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import load_file, save_file
from torch import Tensor

from damnatio.support.errors import DamnatioError
from damnatio.support.files import atomic_file
from damnatio.support.manifests import checked
from damnatio.support.tables import Column


def write_arrays(arrays: Mapping[str, Column], path: Path) -> None:
    """Write arrays to a safetensors file, atomically."""
    with atomic_file(path) as temporary:
        try:
            save_numpy(dict(arrays), temporary)
        except SafetensorError as error:
            raise OSError(str(error)) from error


def save_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write tensors to a safetensors file, atomically."""
    with atomic_file(path) as temporary:
        try:
            save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, temporary, metadata)
        except SafetensorError as error:  # a full disk is reported as for any other file
            raise OSError(str(error)) from error


def read_tensors(path: Path) -> dict[str, Any]:
    """The tensors of a safetensors file by name; a file of a finished output is checked against its hash first."""
    try:
        tensors: dict[str, Any] = load_file(checked(path))
    except (OSError, SafetensorError) as error:
        raise DamnatioError(f"{path} is not a readable safetensors file ({error}).") from error
    return tensors


def plain(given: ArrayLike) -> NDArray[Any]:
    """A user's array or tensor, as NumPy's."""
    return np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)


def unit_rows(given: ArrayLike, name: str, wanted: str, count: int) -> NDArray[np.float64]:
    """A user's vectors at unit length, `count` of them. `name` and `wanted` say in an error which argument it is, and
    what it should be."""
    array = plain(given)
    if array.ndim != 2 or len(array) != count:
        raise DamnatioError(f"{name} wants {wanted}, [{count}, d], and has the shape {list(array.shape)}.")
    units = array.astype(np.float64)
    norms = np.linalg.norm(units, axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0))
    if len(bad):
        raise DamnatioError(f"{name} has no direction in row {bad[0]}: it is zero, or not finite.")
    return np.asarray(units / norms)


BLOCK = 1024
"""rows whose squares are held at once"""


def lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The length of each row, its squares folded in halves: one order of sums on every processor. `np.linalg.norm`
    promises none, and the last bit of a length decides where a component half-way between two grid points goes."""
    found = np.empty(len(rows))
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        squares = block * block
        while squares.shape[1] > 1:
            half = squares.shape[1] // 2
            folded = squares[:, :half] + squares[:, half : 2 * half]
            if squares.shape[1] % 2:
                folded[:, 0] += squares[:, -1]
            squares = folded
        found[start : start + BLOCK] = np.sqrt(squares[:, 0])
    return found
