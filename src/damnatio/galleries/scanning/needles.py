"""What a scan looks for: the vectors of a person, the codes of a store for them, and the bytes of photographs."""

from collections.abc import Sequence
from dataclasses import dataclass

from damnatio.galleries.items import Vectors


@dataclass(frozen=True)
class Needles:
    """Personal data: kept in memory, or in the working folder of a purge until its scan is done."""

    vectors: Sequence[Vectors]
    """[d] each, as they are stored"""
    codes: Sequence[bytes] = ()
    contents: Sequence[bytes] = ()
