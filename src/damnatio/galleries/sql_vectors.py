"""Vectors in columns: numbers in bytes, .npy files in bytes, JSON and decimal text; and rows gathered into blocks."""

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from damnatio.galleries.base import BLOCK
from damnatio.galleries.items import Block

NPY = b"\x93NUMPY"
SMALLEST, LARGEST = 1e-9, 1e4
"""most numbers of vectors are between these, or the bytes were read wrongly"""
MOST, FEW = 0.9, 0.6
"""a larger share than the one is clear, and so is a smaller one than the other"""
Vector = NDArray[Any]


class Row(NamedTuple):
    """One row as a store reads it."""

    id: str
    name: str
    vector: Vector | None
    content: bytes
    """the hash of its other columns"""


def read_vector(value: Any, dtype: str) -> Vector | None:
    """The vector in a value of a column, as it is stored; None where there is none. A value that is no vector raises a
    ValueError."""
    if value is None:
        return None
    if isinstance(value, str):
        return _from_text(value)
    content = bytes(value)
    if content.startswith(NPY):
        return np.asarray(np.load(io.BytesIO(content), allow_pickle=False)).reshape(-1)
    if not dtype:
        raise ValueError("the bytes may be float32 or float64")
    return np.frombuffer(content, dtype)


def written_vector(vector: Vector, like: Any, dtype: str) -> Any:
    """A vector as the value `like` is written."""
    if isinstance(like, str):
        text = json.dumps([float(number) for number in vector])
        return text if like.lstrip().startswith("[") else text.strip("[]").replace(", ", "," if "," in like else " ")
    if bytes(like).startswith(NPY):
        file = io.BytesIO()
        np.save(file, vector.astype(np.load(io.BytesIO(bytes(like)), allow_pickle=False).dtype))
        return file.getvalue()
    return vector.astype(dtype).tobytes()


def written(vector: Vector | None) -> bytes:
    """The bytes of a vector that may be missing."""
    return b"" if vector is None else vector.tobytes()


def _from_text(text: str) -> Vector:
    if text.lstrip().startswith("["):
        return np.array(json.loads(text), dtype=np.float64).reshape(-1)
    return np.array([float(word) for word in text.replace(",", " ").split()], dtype=np.float64)


def guessed_dtype(values: Iterable[Any]) -> str:
    """Whether bytes are float32 or float64; empty where that is not clear. Every second word of float64 holds the last
    bits of its numbers: read as float32 it is any number, tiny or huge, where a float32 would be of a usual size.
    Float64 that was made from float32 ends in 29 zeros."""
    found = [bytes(value) for value in values if isinstance(value, bytes | memoryview | bytearray)]
    found = [value for value in found if value and not value.startswith(NPY)]
    if not found or any(len(value) % 4 for value in found):
        return ""
    if any(len(value) % 8 for value in found):
        return "<f4" if _usual(b"".join(found), "<f4") > MOST else ""
    content = b"".join(found)
    words = np.ascontiguousarray(np.frombuffer(content, "<u4")[::2])
    rounded = not np.any(words & np.uint32(0x1FFFFFFF))
    share = 0.0 if rounded else _usual(words[words != 0].tobytes(), "<f4")
    if share > MOST and _usual(content, "<f4") > MOST:
        return "<f4"
    return "<f8" if share < FEW and _usual(content, "<f8") > MOST else ""


def _usual(content: bytes, dtype: str) -> float:
    """The share of numbers other than 0 that are of a usual size; 0 where there are none."""
    with np.errstate(invalid="ignore"):
        numbers = np.abs(np.frombuffer(content, dtype))
        present = numbers[numbers != 0]
        return float(np.mean((present > SMALLEST) & (present < LARGEST))) if len(present) else 0.0


def gathered(rows: Iterable[Row]) -> Iterator[Block]:
    """Rows in blocks: those of one length of vector, or without a vector, together."""
    kept: dict[tuple[int, str] | None, list[Row]] = {}
    count = 0
    for row in rows:
        kind = None if row.vector is None else (len(row.vector), row.vector.dtype.str)
        kept.setdefault(kind, []).append(row)
        count += 1
        if count == BLOCK:
            yield from map(_block, kept.values())
            kept, count = {}, 0
    yield from map(_block, kept.values())


def _block(rows: Sequence[Row]) -> Block:
    vectors = [row.vector for row in rows if row.vector is not None]
    return Block(
        [row.id for row in rows],
        [row.name for row in rows],
        np.stack(vectors) if vectors else None,
        [row.content for row in rows],
    )


def digest(values: Iterable[Any]) -> bytes:
    """One hash of the other values of a row. A photograph is hashed and not kept."""
    found = hashlib.sha256()
    for value in values:
        content = (
            bytes(value) if isinstance(value, bytes | memoryview) else repr(value).encode("utf-8", "surrogatepass")
        )
        found.update(type(value).__name__.encode() + len(content).to_bytes(8, "little") + content)
    return found.digest()
