"""Long work in pieces. Each finished piece is a file, so an interrupted call goes on where it stopped.

The files lie in the folder `pieces` of the output that is being built. Several processes may write pieces at the same
time, each its own: a piece appears whole or not at all. The name of a piece says what it holds, such as the rows from
and to, so that a call which cuts the work in another way does not take it for one of its own.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from damnatio.support import processes
from damnatio.support.errors import DamnatioError
from damnatio.support.manifests import PIECES

ENDING = ".safetensors"


def missing(folder: Path, names: Sequence[str]) -> list[str]:
    """The pieces that are still to be made, in this order; the same list in every process."""
    return processes.from_main(lambda: _missing(folder / PIECES, names))


def _missing(place: Path, names: Sequence[str]) -> list[str]:
    place.mkdir(parents=True, exist_ok=True)
    known = set(os.listdir(place))
    return [name for name in names if f"{name}{ENDING}" not in known]


def keep(folder: Path, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Store a finished piece."""
    from damnatio.support.arrays import write_arrays  # it imports torch

    write_arrays(arrays, folder / PIECES / f"{name}{ENDING}")


def kept(folder: Path, name: str) -> dict[str, NDArray[Any]]:
    """The arrays of a piece."""
    path = folder / PIECES / f"{name}{ENDING}"
    try:
        arrays: dict[str, NDArray[Any]] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DamnatioError(
            f"{path}, a piece of an unfinished output, cannot be read ({error}): delete it and run the command again."
        ) from error
    return arrays


def drop(folder: Path) -> None:
    """Delete all pieces."""
    shutil.rmtree(folder / PIECES, ignore_errors=True)
