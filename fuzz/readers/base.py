"""What a reader is to the campaign."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fuzz.mutations import Mutate


@dataclass(frozen=True)
class Reader:
    """`seeds` makes valid files in an empty folder and returns their contents; `read` does with a file of this ending
    what the program does, and raises whatever it raises."""

    name: str
    ending: str
    seeds: Callable[[Path], list[bytes]]
    read: Callable[[Path], object]
    mutate: Mutate
