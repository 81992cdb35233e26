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
"""the middle value and the largest value of a vector are within these, or the bytes were read wrongly"""
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
    """Whether bytes are float32 or float64; empty where they are neither, or both are possible. Float64 read as float32
    gives huge numbers, and float32 read as float64 tiny ones."""
    found = [bytes(value) for value in values if isinstance(value, bytes | memoryview | bytearray)]
    found = [value for value in found if value and not value.startswith(NPY)]
    fits = [dtype for dtype in ("<f4", "<f8") if found and all(_plausible(value, dtype) for value in found)]
    return fits[0] if len(fits) == 1 else ""


def _plausible(content: bytes, dtype: str) -> bool:
    if len(content) % np.dtype(dtype).itemsize:
        return False
    numbers = np.abs(np.frombuffer(content, dtype).astype(np.float64))
    if not np.isfinite(numbers).all():
        return False
    present = numbers[numbers > 0]
    return not len(present) or (float(np.median(present)) > SMALLEST and float(numbers.max()) < LARGEST)


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
