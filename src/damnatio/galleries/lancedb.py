"""Templates in a table of LanceDB.

lancedb:folder?table=faces&name=person&vector=embedding

A delete writes a list of deleted rows and a new version; the files of the old ones stay. The table is then compacted,
so that every file with a deleted row is written anew, its indexes with it, and all older versions are removed.
LanceDB's own `optimize` compacts only where a tenth of a file is deleted.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np

from damnatio.galleries import STORES
from damnatio.galleries.base import Store, content_ids, need
from damnatio.galleries.files import BACKUPS, ENGINE
from damnatio.galleries.folders import files_in, need_own_files
from damnatio.galleries.items import Block, FileClass, Key, Place, Step, Vectors
from damnatio.galleries.occupied import need_alone
from damnatio.support.errors import DamnatioError

ENDING = ".lance"
ROWS = 4096
"""rows that are read at once"""
ROW = "_rowid"


@STORES.register("lancedb")
class LanceDB(Store):
    """One table in a folder of LanceDB."""

    scheme = "lancedb"
    aliases = ("lance",)
    options: ClassVar[Mapping[str, str]] = {
        "table": "the table; not needed where there is one only",
        "name": "the column of names (name)",
        "vector": "the column of vectors; not needed where there is one only",
        "id": "the column that names a row; without it a row is known by its content",
    }

    @classmethod
    def likeness(cls, path: Path, head: bytes) -> int:
        return 2 if path.is_dir() and ((path / "_versions").is_dir() or _tables(path)) else 0

    def open(self, write: bool) -> None:
        self._lance = need("lance", "lancedb")
        self._path = self._table_folder()
        with self._told():
            self._data: Any = self._lance.dataset(str(self._path))
            tags = sorted(self._data.tags.list())
        self._columns = self._checked_columns()
        if write:
            if tags:
                raise DamnatioError(
                    f"The gallery {self._path}: the tag `{tags[0]}` keeps an old version, and its rows with it: delete "
                    "the tags first."
                )
            need_own_files(self._path)
            need_alone(files_in(self._path))
        self.writes = write

    def close(self) -> None:
        self.writes = False
        self._data = None

    def _table_folder(self) -> Path:
        assert self.address.path is not None
        path, wanted = self.address.path.resolve(), self.address.option("table")
        if not path.is_dir():
            raise DamnatioError(f"There is no folder {self.address.path}: name the folder of LanceDB.")
        if (path / "_versions").is_dir():
            return path
        known = _tables(path)
        chosen = wanted or (known[0] if len(known) == 1 else "")
        if chosen not in known:
            wrong = f"has no table `{wanted}`" if wanted else ("has several tables" if known else "holds no table")
            hint = f": choose one with ?table=... of {', '.join(known)}." if known else "."
            raise DamnatioError(f"The gallery {path} {wrong}{hint}")
        return path / f"{chosen}{ENDING}"

    def _checked_columns(self) -> tuple[str, str, str]:
        """The columns of names, vectors and ids; the last may be empty."""
        arrow = need("pyarrow", "lancedb").types
        schema = self._data.schema
        kinds = [field.name for field in schema if arrow.is_fixed_size_list(field.type)]
        vectors = [one for one in kinds if arrow.is_floating(schema.field(one).type.value_type)]
        vector = self.address.option("vector") or (vectors[0] if len(vectors) == 1 else "vector")
        name, id = self.address.option("name", "name"), self.address.option("id")
        for column, known in ((vector, vectors), (name, schema.names), (id, [*schema.names, ""])):
            if column not in known:
                option = {vector: "vector", name: "name"}.get(column, "id")
                raise DamnatioError(
                    f"The gallery {self._path} has no column `{column}` that could hold it: choose one with "
                    f"?{option}=... of {', '.join(one for one in known if one)}."
                )
        return name, vector, id

    def places(self) -> list[Place]:
        return [Place(self._path.stem, "template")]

    @property
    def versions(self) -> dict[str, str]:
        return {"pylance": str(self._lance.__version__), "format": str(self._data.data_storage_version)}

    # --- rows --------------------------------------------------------------------------------------------------------

    def blocks(self, place: str) -> Iterator[Block]:
        for block, _ in self._rows():
            yield block

    def _rows(self) -> Iterator[tuple[Block, list[int]]]:
        """Blocks, with the numbers that this version of the table gives to their rows."""
        name, vector, id = self._columns
        with self._told():
            self._data.checkout_latest()  # somebody else may have made a newer version
            batches = self._data.scanner(batch_size=ROWS, with_row_id=True).to_batches()
            for batch in batches:
                held = np.array(batch.column(vector).is_valid())
                for mask in (held, ~held):
                    if not mask.any():
                        continue
                    some = batch.filter(need("pyarrow", "lancedb").array(mask))
                    names = ["" if one is None else str(one) for one in some.column(name).to_pylist()]
                    vectors = _matrix(some.column(vector)) if mask is held else None
                    others = _others(some, (name, vector, id, ROW))
                    yield (
                        Block(self._ids(some, names, vectors, others), names, vectors, others),
                        some.column(ROW).to_pylist(),
                    )

    def _ids(self, batch: Any, names: list[str], vectors: Vectors | None, others: list[bytes]) -> list[str]:
        if self._columns[2]:
            return [str(one) for one in batch.column(self._columns[2]).to_pylist()]
        first = [b""] * len(names) if vectors is None else [row.tobytes() for row in vectors]
        return content_ids(names, (one + other for one, other in zip(first, others, strict=True)))

    # --- changes -----------------------------------------------------------------------------------------------------

    def add(self, name: str, vectors: Vectors) -> list[Key]:
        self.need_write()
        arrow = need("pyarrow", "lancedb")
        named, vector, id = self._columns
        schema = self._data.schema
        kind = schema.field(vector).type
        flat = arrow.array(np.ascontiguousarray(vectors).ravel().astype(kind.value_type.to_pandas_dtype()))
        columns: dict[str, Any] = {
            named: arrow.array([name] * len(vectors), type=schema.field(named).type),
            vector: arrow.FixedSizeListArray.from_arrays(flat, type=kind),
        }
        if id:
            numbers = arrow.types.is_integer(schema.field(id).type)
            made = [uuid4().int >> 65 if numbers else str(uuid4()) for _ in vectors]
            columns[id] = arrow.array(made, type=schema.field(id).type)
        for field in schema:
            columns.setdefault(field.name, arrow.nulls(len(vectors), type=field.type))
        with self._told():
            self._data.insert(arrow.table([columns[field.name] for field in schema], schema=schema), mode="append")
        if id:
            return [Key(self._path.stem, str(one)) for one in made]
        wanted = {np.asarray(row).tobytes() for row in vectors.astype(kind.value_type.to_pandas_dtype())}
        found = {
            block.vectors[row].tobytes(): Key(self._path.stem, key)
            for block, _ in self._rows()
            for row, key in enumerate(block.ids)
            if block.names[row] == name and block.vectors is not None and block.vectors[row].tobytes() in wanted
        }
        return [found[row.tobytes()] for row in vectors.astype(kind.value_type.to_pandas_dtype())]

    def delete(self, keys: Sequence[Key]) -> int:
        self.need_write()
        gone = {key.id for key in keys}
        numbers = [
            number for block, rows in self._rows() for id, number in zip(block.ids, rows, strict=True) if id in gone
        ]
        if numbers:
            with self._told():
                self._data.delete(f"{ROW} IN ({', '.join(map(str, numbers))})")
        return len(numbers)

    def steps(self) -> list[Step]:
        def compact() -> None:
            self.need_write()
            with self._told():
                self._data.optimize.compact_files(materialize_deletions=True, materialize_deletions_threshold=0.0)

        def clean() -> None:
            self.need_write()
            with self._told():
                self._data = self._lance.dataset(str(self._path))
                self._data.cleanup_old_versions(timedelta(0), delete_unverified=True)

        size = sum(file.stat().st_size for file in files_in(self._path))
        return [
            Step("compact", "optimize.compact_files(materialize_deletions_threshold=0)", compact, "", size, self._path),
            Step("old versions", "cleanup_old_versions(timedelta(0), delete_unverified=True)", clean, "other writers"),
        ]

    # --- files -------------------------------------------------------------------------------------------------------

    def file_classes(self) -> list[FileClass]:
        files, inside = files_in(self._path), self._path / "_indices"
        indexes = [file for file in files if file.is_relative_to(inside)]
        return [
            FileClass("table", [file for file in files if not file.is_relative_to(inside)]),
            FileClass("indexes", indexes),
        ]

    def unreached(self) -> list[str]:
        return [ENGINE, BACKUPS]

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What the engine refuses, as one sentence."""
        try:
            yield
        except (OSError, ValueError, RuntimeError, NotImplementedError) as error:
            said = re.sub(r",? /\S+\.rs:\S+", "", " ".join(str(error).split()))[:200]
            raise DamnatioError(
                f"The gallery {self._path}: pylance {self._lance.__version__} cannot do it: {said}"
            ) from error


def _tables(path: Path) -> list[str]:
    return sorted(one.stem for one in path.glob(f"*{ENDING}") if (one / "_versions").is_dir())


def _matrix(column: Any) -> Vectors:
    """The vectors of a column without gaps, [n, d]."""
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat).reshape(len(column), -1)


def _others(batch: Any, without: Sequence[str]) -> list[bytes]:
    """The other columns of each row."""
    names = [name for name in batch.schema.names if name not in without]
    if not names:
        return [b""] * batch.num_rows
    return [repr(sorted(row.items())).encode() for row in batch.select(names).to_pylist()]
