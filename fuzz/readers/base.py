"""The campaign's interface to a reader."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fuzz.mutations import Mutate


@dataclass(frozen=True)
class Reader:
    """`seeds` makes valid files in an empty folder and returns their contents; `read` reads a file of this ending
    like the program, and lets its exceptions pass."""

    name: str
    ending: str
    seeds: Callable[[Path], list[bytes]]
    read: Callable[[Path], object]
    mutate: Mutate
