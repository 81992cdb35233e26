"""How a column of Postgres holds vectors: pgvector's types, arrays of numbers, bytes and text."""

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from damnatio.galleries.items import Vectors
from damnatio.galleries.sql_tables import Table, column, quoted
from damnatio.galleries.sql_vectors import Vector, guessed_dtype, read_vector, written_vector
from damnatio.support.errors import DamnatioError

VECTOR = re.compile(r"(?:.*\.)?\"?(vector|halfvec)\"?(?:\(\d+\))?")
OTHER = "vectors."
"""the schema of pgvecto.rs, which Immich used before"""
ARRAYS = {"real[]": ">f4", "double precision[]": ">f8", "numeric[]": ">f8"}
TEXTS = ("text", "json", "jsonb", "character varying")
TRIED = 64


@dataclass(frozen=True)
class Type:
    """The type of a column of vectors."""

    kind: str
    """vector: pgvector's; cast: a vector of another extension; array, bytes or text"""
    written_as: str
    dtype: str
    """of the numbers as they are stored; empty for text"""
    like: Any = None
    """a value that is there, for bytes and text"""

    def read(self, expression: str) -> str:
        """What to select: numbers in the form in which Postgres sends them, which needs no text."""
        if self.kind == "cast":
            return f"array_send({expression}::real[])"
        if self.kind == "array":
            return f"array_send({expression}{'::float8[]' if self.written_as == 'numeric[]' else ''})"
        return f"{expression}::text" if self.kind == "text" else expression

    def vector(self, value: Any) -> Vector | None:
        """The vector in what was selected, as it is stored. A ValueError says why there is none."""
        if value is None or self.kind in ("bytes", "text"):
            return read_vector(value, self.dtype)
        if self.kind == "vector":
            return np.frombuffer(value, self.dtype.replace("<", ">"), offset=4).astype(self.dtype)
        dimensions, nulls, _ = struct.unpack_from(">iiI", value)
        if nulls or dimensions > 1:
            raise ValueError("it has missing values" if nulls else f"it has {dimensions} dimensions")
        sent = ">f4" if self.kind == "cast" else ARRAYS[self.written_as]
        pairs = np.frombuffer(value, [("length", ">i4"), ("number", sent)], offset=12 + 8 * dimensions)
        return pairs["number"].astype(self.dtype)

    def written(self, vector: Vectors) -> Any:
        """A vector as a value of this column."""
        if self.kind in ("vector", "cast"):
            return "[" + ",".join(repr(float(number)) for number in vector) + "]"
        if self.kind == "array":
            return [float(number) for number in vector]
        return written_vector(
            vector, "[]" if self.like is None and self.kind == "text" else self.like or b"", self.dtype
        )


def type_of(written_as: str, table: Table, shown: str, query: Callable[[str], Iterator[tuple[Any, ...]]]) -> Type:
    """The type of a column, by its declaration; of bytes and text also by its values."""
    name = column(table.vector)
    if known := VECTOR.fullmatch(written_as):
        kind = "cast" if written_as.startswith(OTHER) else "vector"
        return Type(kind, written_as, "<f2" if known[1] == "halfvec" else "<f4")
    if written_as in ARRAYS:
        return Type("array", written_as, ARRAYS[written_as].replace(">", "<"))
    is_text = written_as.startswith(TEXTS)
    if is_text or written_as == "bytea":
        text = f"SELECT {name}{'::text' if is_text else ''} FROM {quoted(table.name)} WHERE {name} IS NOT NULL"
        tried = [value for (value,) in query(f"{text} LIMIT {TRIED}")]
        dtype = "" if is_text else table.dtype or guessed_dtype(tried)
        found = Type("text" if is_text else "bytes", written_as, dtype, tried[0] if tried else None)
        try:
            for value in tried:
                found.vector(value)
            return found
        except ValueError as error:
            raise DamnatioError(
                f"The gallery {shown}: `{table.vector}` of `{table.name}` is no column of vectors ({error}); if it is, "
                "add &dtype=float32 or &dtype=float64."
            ) from error
    raise DamnatioError(f"The gallery {shown}: `{table.vector}` of `{table.name}` is {written_as}, and no vector.")
