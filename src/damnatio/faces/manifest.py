"""A manifest: a CSV or Parquet table with a column `path` and a column `identity`, one row per image."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from damnatio.faces import SOURCES
from damnatio.faces.base import UnreadableError
from damnatio.faces.decoding import FileSettings, FileSource, image_file, state
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular
from damnatio.support.tables import Column, Table, from_arrow, need_rows

COLUMNS = ["path", "identity"]


@SOURCES.register("manifest")
class Manifest(FileSource):
    """A CSV or Parquet table of path and identity."""

    class Settings(FileSettings):
        source: Literal["manifest"]
        root: Path | None = Field(None, description="where relative paths begin; else the folder of the manifest")

    def fingerprint(self) -> Any:
        """Size and time of the manifest only: a look at each of millions of images would cost more than the rest. A
        run notices images that changed under the same names when the manifest is touched."""
        return state(self._path)

    def index(self) -> Table:
        names, identities = self._columns()
        kept = _first(names) & (names != "") & (identities != "")
        for row in np.flatnonzero(~kept):
            if not names[row]:
                self.skip(f"row {row + 1}", "no path", identities[row])
            else:
                self.skip(names[row], "no identity" if not identities[row] else "listed before", identities[row])
        if not len(names):
            raise DamnatioError(f"The manifest {self._path} names no image.")
        return Table({"image": names[kept], "identity": identities[kept]}).sorted_by("identity", "image")

    def content(self, row: Mapping[str, Any]) -> bytes:
        root = Path(self.settings.root or self._path.parent).expanduser()
        try:
            return image_file(Path(root, row["image"]))
        except ValueError:  # the path holds a NUL
            raise UnreadableError("not the path of a file") from None

    def _columns(self) -> tuple[Column, Column]:
        """Paths and identities as strings; "" for a missing one."""
        path = self._path
        need_regular(path, "The manifest")
        try:
            return self._of_csv(path) if path.suffix.lower() == ".csv" else _of_parquet(path)
        except DamnatioError:
            raise
        except KeyError:
            raise DamnatioError(f"The manifest {path} must have the columns 'path' and 'identity'.") from None
        except OSError as error:
            raise DamnatioError(f"The manifest {path} cannot be read: {error.strerror or _line(error)}.") from error
        except (csv.Error, ValueError, pa.ArrowException, MemoryError) as error:
            raise DamnatioError(f"The manifest {path} cannot be read: {_line(error)}.") from error

    def _of_csv(self, path: Path) -> tuple[Column, Column]:
        """Python's reader skips a line that is not UTF-8; Arrow's would refuse the whole file."""
        names: list[str] = []
        identities: list[str] = []
        known: dict[str, str] = {}
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            lines = csv.reader(file)
            header = [title.strip() for title in next(lines, [])]
            if not set(COLUMNS) <= set(header):
                raise KeyError
            path_at, identity_at = (header.index(title) for title in COLUMNS)
            for line in lines:
                if len(line) == len(header):
                    names.append(_text(line[path_at]))
                    identity = _text(line[identity_at])
                    identities.append(known.setdefault(identity, identity))  # one string per identity, not one per row
                elif line:
                    self.skip(f"line {lines.line_num}", f"{len(line)} values where {len(header)} are expected")
        return np.array(names, dtype=object), np.array(identities, dtype=object)


def _first(names: Column) -> NDArray[np.bool_]:
    """Which names occur for the first time: Arrow numbers values as they come, so a new value has a new number."""
    numbers = pa.array(names, pa.string()).dictionary_encode().indices.to_numpy()
    return np.diff(np.maximum.accumulate(numbers), prepend=-1) > 0


def _of_parquet(path: Path) -> tuple[Column, Column]:
    if not set(COLUMNS) <= set(pq.read_schema(path).names):
        raise KeyError
    need_rows(path)
    table = pq.read_table(path, columns=COLUMNS)
    return _strings(table.column("path")), _strings(table.column("identity"))


def _strings(column: Any) -> Column:
    """Text as it is, whole numbers in digits, "" for a missing value or a fraction."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_floating(kind):  # pandas writes whole numbers so if one is missing
        column = pc.if_else(pc.equal(pc.floor(column), column), column, None)
        column, kind = column.cast(pa.int64()), pa.int64()
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise pa.ArrowInvalid(f"a column holds {kind} where text or whole numbers are expected")
    return from_arrow(pc.utf8_trim_whitespace(pc.fill_null(column.cast(pa.string()), "")))


def _text(value: str) -> str:
    """The value without spaces around it; "" if it is not UTF-8."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return ""
    return value.strip()


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")[:200]
