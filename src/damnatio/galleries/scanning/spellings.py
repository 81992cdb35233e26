"""The ways in which floats are written in binary files."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Spelling:
    """One way to write a float."""

    dtype: np.dtype[Any]
    strides: dict[int, str]
    """distances between two values, with a name for each: 5 and 9 where each value has a byte before it that says its
    type, as in CBOR, msgpack and pickled lists"""
    lead: int = 0
    """where in a value its three telling bytes begin: sign, exponent and first digits"""

    @property
    def is_half(self) -> bool:
        return self.dtype.itemsize == 2


TAGGED = "with a type before each value (CBOR, msgpack, pickle)"
SPELLINGS = (
    Spelling(np.dtype("<f4"), {4: "float32"}, lead=1),
    Spelling(np.dtype(">f4"), {4: "float32, big-endian", 5: f"float32, {TAGGED}"}),
    Spelling(np.dtype("<f8"), {8: "float64"}, lead=5),
    Spelling(np.dtype(">f8"), {8: "float64, big-endian", 9: f"float64, {TAGGED}"}),
    Spelling(np.dtype("<f2"), {2: "float16"}),
    Spelling(np.dtype(">f2"), {2: "float16, big-endian"}),
)
