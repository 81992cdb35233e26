"""Tables on disk and in memory: Parquet files, and named columns of one length.

Throughout the program, `codes` are identity numbers: `codes[i]` is the number 0, 1, 2 ... of the identity of item i,
which is its place among the sorted names (`codes_of`). Arrays hold codes where a table holds names.
"""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from damnatio.support.errors import DamnatioError
from damnatio.support.files import atomic_file
from damnatio.support.manifests import checked

Column = NDArray[Any]
FEW_ROWS, ROWS_PER_BYTE = 1_000_000, 8
"""rows that any file may have, and how many more a longer one"""
Codes = NDArray[np.int64]
"""Numbers that stand for identities in arrays: two vectors with equal codes are of one identity."""


class Table:
    """Named columns of one length. Strings are object arrays, so that they compare and sort as in Python."""

    def __init__(self, columns: Mapping[str, Sequence[Any] | Column]) -> None:
        self.columns: dict[str, Column] = {name: _column(values) for name, values in columns.items()}
        lengths = {len(column) for column in self.columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: { {n: len(c) for n, c in self.columns.items()} }")
        self._length = lengths.pop() if lengths else 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def where(self, mask: Column) -> "Table":
        """The rows of a mask, or the rows at these places in this order."""
        return Table({name: column[mask] for name, column in self.columns.items()})

    def sorted_by(self, *names: str) -> "Table":
        """The rows sorted by the first of these columns, then by the next; strings as Python orders them."""
        keys = pa.table({name: pa.array(self.columns[name]) for name in names})
        return self.where(pc.sort_indices(keys, [(name, "ascending") for name in names]).to_numpy())

    def with_columns(self, **columns: Sequence[Any] | Column) -> "Table":
        return Table({**self.columns, **columns})

    def rows(self) -> list[dict[str, Any]]:
        names = list(self.columns)
        lists = [column.tolist() for column in self.columns.values()]
        return [dict(zip(names, values, strict=True)) for values in zip(*lists, strict=True)]

    @staticmethod
    def of_rows(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> "Table":
        return Table({name: [row[i] for row in rows] for i, name in enumerate(names)})

    @staticmethod
    def joined(tables: Sequence["Table"]) -> "Table":
        return Table({name: np.concatenate([t[name] for t in tables]) for name in tables[0].columns})

    def write(self, path: Path, metadata: Mapping[str, str] | None = None) -> None:
        with atomic_file(path) as temporary:
            table = pa.table({name: pa.array(column) for name, column in self.columns.items()})
            pq.write_table(table.replace_schema_metadata(metadata), temporary)

    @staticmethod
    def read_metadata(path: Path) -> dict[str, str]:
        """The metadata that `write` was given."""
        found = pq.read_schema(path).metadata or {}
        return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in found.items()}

    def write_csv(self, path: Path) -> None:
        """A CSV file for people and spreadsheets; NaN is left empty."""
        with atomic_file(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            for row in self.rows():
                writer.writerow(["" if isinstance(v, float) and math.isnan(v) else v for v in row.values()])

    @staticmethod
    def read(path: Path, columns: Sequence[str] | None = None) -> "Table":
        try:
            need_rows(checked(path))
            table = pq.read_table(path, columns=list(columns) if columns else None)
            return Table({name: from_arrow(table.column(name)) for name in table.column_names})
        except DamnatioError:
            raise
        except FileNotFoundError:
            raise DamnatioError(f"There is no table {path}: run the stage that makes it.") from None
        except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: text that is not UTF-8
            raise DamnatioError(
                f"{path} is not a readable Parquet table ({' '.join(str(error).split())[:200]})."
            ) from error


def need_rows(path: Path) -> None:
    """Refuse a Parquet file of more rows than it has room for names of images. Equal values take next to no room: a few
    bytes could claim gigabytes of memory."""
    rows, size = pq.read_metadata(path).num_rows, path.stat().st_size
    if rows > max(FEW_ROWS, ROWS_PER_BYTE * size):
        raise DamnatioError(f"{path} claims {rows:,} rows in {size:,} bytes, and no table of images is so dense.")


def _column(values: Sequence[Any] | Column) -> Column:
    if not isinstance(values, np.ndarray) and len(values) and all(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)  # NumPy's own strings lose trailing NULs
    column = np.asarray(values)
    return column.astype(object) if column.dtype.kind in "US" else column


def from_arrow(column: Any) -> Column:
    """An Arrow column as an array. Equal strings become one object, so that millions of rows fit into memory; a column
    whose first thousands of strings all differ, such as names of images, is converted directly."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    some = column.slice(0, 10_000)
    if not pa.types.is_string(column.type) or column.null_count or pc.count_distinct(some).as_py() == len(some):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    encoded = column.combine_chunks().dictionary_encode()
    return np.asarray(encoded.dictionary.to_numpy(zero_copy_only=False)[encoded.indices.to_numpy()])


def codes_of(values: Column) -> tuple[Codes, Column]:
    """The code of each value, which is its place among the sorted distinct values; and those values."""
    if values.dtype != object:
        distinct, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int64), distinct
    # Arrow finds the distinct strings by hash; sorting millions of objects takes far longer.
    encoded = pa.array(values, pa.string()).dictionary_encode()
    distinct = encoded.dictionary.to_numpy(zero_copy_only=False)
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[encoded.indices.to_numpy()], distinct[order]


def groups_of(codes: Codes) -> Iterator[NDArray[np.int64]]:
    """The rows of each code, in ascending order of code and row."""
    if len(codes) == 0:
        return
    order = np.argsort(codes, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
