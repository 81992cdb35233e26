"""Templates in a SQLite database: deepface's, InsightFace's, sqlite-vec's tables, and any table by its columns.

    faces.db                                                             (deepface's or InsightFace's is recognised)
    sqlite:faces.db?table=faces&vector=encoding&name=people.name

A deleted row stays in the file until its page is written again, and in the log until a checkpoint: so a delete is
followed by VACUUM and by a checkpoint that cuts the log off.
"""

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import numpy as np

from damnatio.galleries import STORES
from damnatio.galleries.base import content_ids, need
from damnatio.galleries.files import ENGINE, FileStore, need_room
from damnatio.galleries.items import Effect, FileClass, Mention, Step, Vectors
from damnatio.galleries.occupied import need_alone
from damnatio.galleries.sql_layouts import OPTIONS, described, recognised, unknown
from damnatio.galleries.sql_store import SqlStore
from damnatio.galleries.sql_tables import Layout, Link, Table, column, joined, label_of, quoted
from damnatio.galleries.sql_vectors import Row, digest, guessed_dtype, read_vector, written, written_vector
from damnatio.galleries.sqlite_effects import effects_of, mentions_of
from damnatio.support.errors import DamnatioError

MAGIC = b"SQLite format 3\0"
NEWEST_FORMAT = 2
"""of the file, as its bytes 18 and 19 say it; 2 is a database with a log"""
LOG, INDEX, JOURNAL = "-wal", "-shm", "-journal"
VEC = re.compile(r"using\s+vec0\b", re.IGNORECASE)
VEC_COLUMN = re.compile(r"[\"'`\[]?(\w+)[\"'`\]]?\s+(float|f32|int8|i8|bit)\s*\[\s*\d+\s*\]", re.IGNORECASE)
VEC_DTYPES = {"float": "<f4", "f32": "<f4", "int8": "i1", "i8": "i1"}
TRIED = 64
"""rows by which the type of numbers is found out"""


@STORES.register("sqlite")
class Sqlite(SqlStore, FileStore):
    """A gallery in a SQLite file."""

    scheme = "sqlite"
    aliases: ClassVar[tuple[str, ...]] = ("sqlite3",)
    options: ClassVar[Mapping[str, str]] = OPTIONS
    blocks_left: ClassVar[str] = ENGINE
    _connection: Any = None

    @classmethod
    def likeness(cls, path: Path, head: bytes) -> int:
        return 2 if head.startswith(MAGIC) else 0

    # --- opened ------------------------------------------------------------------------------------------------------

    def files(self) -> list[Path]:
        return [self.path]

    @property
    def _beside(self) -> dict[str, Path]:
        return {ending: self.path.with_name(self.path.name + ending) for ending in (LOG, INDEX, JOURNAL)}

    def open(self, write: bool) -> None:
        super().open(write)
        self._need_format()
        if write:
            need_alone(path for path in self._beside.values() if path.exists())
        self._connect(sqlite3)
        if any(VEC.search(text) for text in self._made.values()):
            self._load_vec()
        if write:
            self.change("PRAGMA secure_delete = ON")
            with self.transaction("EXCLUSIVE"):
                pass
        self.layout = self._layout()

    def close(self) -> None:
        super().close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _need_format(self) -> None:
        with self.path.open("rb") as file:
            head = file.read(100)
        if head and not head.startswith(MAGIC):
            raise DamnatioError(f"The gallery {self.path} is no SQLite database, or it is encrypted.")
        if head and max(head[18:20], default=0) > NEWEST_FORMAT:
            raise DamnatioError(f"The gallery {self.path} was written by a newer SQLite: install a newer one first.")

    def _connect(self, engine: Any) -> None:
        mode = "rw" if self.writes else "ro"
        beside = [path for path in self._beside.values() if path.exists() and path.stat().st_size]
        if not self.writes and not beside and not os.access(self.path.parent, os.W_OK):
            mode += "&immutable=1"  # a database with a log makes files beside it even for readers
        self._engine = engine
        with self._sentences():
            self._connection = engine.connect(
                f"file:{quote(str(self.path))}?mode={mode}", uri=True, isolation_level=None, timeout=2
            )
            self._connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
            self.__dict__.pop("_made", None)
            _ = self._made

    def _load_vec(self) -> None:
        """Load the extension sqlite-vec. Some builds of Python cannot load any, and pysqlite3 can."""
        vec = need("sqlite_vec", "sqlite-vec")
        if not hasattr(self._connection, "enable_load_extension"):
            engine = need("pysqlite3.dbapi2", "sqlite-vec")
            self._connection.close()
            self._connect(engine)
        self._connection.enable_load_extension(True)
        vec.load(self._connection)
        self._connection.enable_load_extension(False)
        (installed,) = next(self.query("SELECT vec_version()"))
        for table, text in self._made.items():
            if VEC.search(text):
                self._need_vec(table, str(installed))

    def _need_vec(self, table: str, installed: str) -> None:
        """Refuse a table that a newer sqlite-vec has made."""
        info = f"{table}_info"
        if info in self._made:
            for (made,) in self.query(f"SELECT value FROM {quoted(info)} WHERE key = 'CREATE_VERSION'"):
                if _version(str(made)) > _version(installed):
                    raise DamnatioError(
                        f"The gallery {self.path}: `{table}` was made by sqlite-vec {made}, and {installed} is "
                        "installed: pip install -U sqlite-vec."
                    )

    # --- what tables there are ---------------------------------------------------------------------------------------

    @cached_property
    def _made(self) -> dict[str, str]:
        """How each table was made."""
        text = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        return {str(name): str(sql or "") for name, sql in self.query(text)}

    def columns_of(self, table: str) -> Sequence[str]:
        found = [str(row[1]) for row in self.query(f"PRAGMA table_info({column(table)})")]
        return [*found, "rowid"] if VEC.search(self._made.get(table, "")) and not self._key(table) else found

    def _key(self, table: str) -> str:
        """The one column of the primary key; empty if there are none or several."""
        keys = [str(row[1]) for row in self.query(f"PRAGMA table_info({column(table)})") if row[5]]
        return keys[0] if len(keys) == 1 else ""

    def _link(self, table: str, other: str) -> Link | None:
        for row in self.query(f"PRAGMA foreign_key_list({column(table)})"):
            if str(row[2]).lower() == other.lower():
                return Link(other, str(row[3]), str(row[4] or self._key(other)))
        mine, theirs = self._key(table) or ("rowid" if VEC.search(self._made[table]) else ""), self._key(other)
        return Link(other, mine, theirs) if mine and theirs else None

    def _layout(self) -> Layout:
        columns = {table: self.columns_of(table) for table in self._made}
        if not self.address.options:
            found = recognised(columns)
            if found is None:
                raise unknown(self.address.shown, columns)
            return found
        table = self.address.option("table")
        key = self._key(table) if table in columns else ""
        is_vec = bool(VEC.search(self._made.get(table, "")))
        layout = described(self.address, columns, self._link, key or ("rowid" if is_vec else ""))
        return replace(layout, tables=(self._typed(layout.tables[0], is_vec),))

    def _typed(self, table: Table, is_vec: bool) -> Table:
        """The table with the type of its numbers, after a check that its ids name one row each."""
        if is_vec:
            types = {name: kind.lower() for name, kind in VEC_COLUMN.findall(self._made[table.name])}
            if types.get(table.vector) not in VEC_DTYPES:
                raise DamnatioError(
                    f"The gallery {self.address.shown}: `{table.vector}` holds bits or no vectors, which cannot be "
                    "compared: name a column of floats."
                )
            return replace(table, dtype=VEC_DTYPES[types[table.vector]])
        if table.id and table.id != self._key(table.name):
            id = column(table.id)
            rows, ids = next(self.query(f"SELECT count(*), count(DISTINCT {id}) FROM {quoted(table.name)}"))
            if rows != ids:
                raise DamnatioError(
                    f"The gallery {self.address.shown}: `{table.id}` names {rows} rows by {ids} values, so one cannot "
                    "be deleted alone: name a column whose values differ."
                )
        vector = column(table.vector)
        text = f"SELECT {vector} FROM {quoted(table.name)} WHERE {vector} IS NOT NULL LIMIT {TRIED}"
        tried = [value for (value,) in self.query(text)]
        dtype = table.dtype or guessed_dtype(tried)
        try:
            for value in tried:
                read_vector(value, dtype)
        except ValueError as error:
            raise DamnatioError(
                f"The gallery {self.address.shown}: `{table.vector}` of `{table.name}` is no column of vectors "
                f"({error}); if it is, add &dtype=float32 or &dtype=float64."
            ) from error
        return replace(table, dtype=dtype)

    # --- queries -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """What SQLite says, as a sentence."""
        try:
            yield
        except (self._engine.Error, UnicodeError) as error:
            said = " ".join(str(error).split())
            if "locked" in said or "busy" in said:
                raise DamnatioError(
                    f"The gallery {self.path} is locked by another program: stop that first, then try again."
                ) from error
            if "readonly" in said or "read-only" in said:
                raise DamnatioError(
                    f"The gallery {self.path} cannot be written ({said}): a program that was stopped may have left it "
                    "in the middle of a change, which opening it for writing ends."
                ) from error
            raise DamnatioError(f"The gallery {self.path}: SQLite says '{said}'.") from error

    def query(self, text: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        with self._sentences():
            yield from self._connection.execute(text, tuple(values))

    def change(self, text: str, values: Sequence[Any] = ()) -> int:
        with self._sentences():
            return max(int(self._connection.execute(text, tuple(values)).rowcount), 0)

    @contextmanager
    def transaction(self, how: str = "IMMEDIATE") -> Iterator[None]:
        with self._sentences():
            self._connection.execute(f"BEGIN {how}")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(self._engine.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def spelt(self, expression: str) -> str:
        return f"CASE typeof({expression}) WHEN 'blob' THEN hex({expression}) ELSE CAST({expression} AS TEXT) END"

    def rows(self, table: Table) -> Iterator[Row]:
        for row, _ in self._rows(table, "0"):
            yield row

    def _rows(self, table: Table, more: str) -> Iterator[tuple[Row, Any]]:
        others = [name for name in self.columns_of(table.name) if name not in (table.id, table.vector)]
        own = self.id_of(table) if table.id else "''"
        name = "''" if table.referred else label_of(table)
        vector = f"t.{column(table.vector)}" if table.vector else "NULL"
        wanted = [more, own, name, vector, *(f"t.{column(name)}" for name in others)]
        for extra, id, label, value, *rest in self.query(f"SELECT {', '.join(wanted)} {joined(table)}"):
            called, content = "" if label is None else str(label), digest(rest)
            try:
                found = read_vector(value, table.dtype)
            except ValueError as error:
                raise DamnatioError(
                    f"The gallery {self.path}: `{table.vector}` of row {id or '?'} of `{table.name}` is no vector "
                    f"({error}): remove or mend that row."
                ) from error
            if found is not None and found.dtype.kind != "f":
                found = found.astype(np.float32)
            named = [str(id)] if table.id else content_ids([called], [content + written(found)])
            yield Row(named[0], called, found, content), extra

    def codes(self, vectors: Vectors) -> Sequence[bytes]:
        if any(table.dtype == "i1" for table in self.layout.tables):
            return [vector.astype(np.int8).tobytes() for vector in vectors]
        return ()

    # --- changes -----------------------------------------------------------------------------------------------------

    def delete_unnamed(self, table: Table, ids: set[str]) -> int:
        gone = [rowid for row, rowid in self._rows(table, "t.rowid") if row.id in ids]
        return sum(self.change(f"DELETE FROM {quoted(table.name)} WHERE rowid = ?", [rowid]) for rowid in gone)

    def needs_id(self, table: str, id: str) -> bool:
        kinds = {str(row[1]): str(row[2]).upper() for row in self.query(f"PRAGMA table_info({column(table)})")}
        return kinds.get(id, "INTEGER") not in ("INTEGER", "INT", "BIGINT")

    def insert(self, table: str, values: dict[str, Any], id: str) -> str:
        names = ", ".join(column(name) for name in values)
        text = f"INSERT INTO {quoted(table)} ({names}) VALUES ({', '.join('?' * len(values))})"
        with self._sentences():
            rowid = self._connection.execute(text, tuple(values.values())).lastrowid
        if id:
            found = self.query(f"SELECT {self.spelt(column(id))} FROM {quoted(table)} WHERE rowid = ?", [rowid])
            return str(next(found)[0])
        return next(row.id for row, own in self._rows(self.layout.table(table), "t.rowid") if own == rowid)

    def value_of(self, table: Table, vector: Vectors) -> Any:
        text = (
            f"SELECT {column(table.vector)} FROM {quoted(table.name)} WHERE {column(table.vector)} IS NOT NULL LIMIT 1"
        )
        like = next((value for (value,) in islice(self.query(text), 1)), b"")
        return written_vector(vector, like, table.dtype or "<f4")

    def steps(self) -> list[Step]:
        room = 2 * self.path.stat().st_size

        def vacuum() -> None:
            self.need_write()
            need_room(self.path.parent, room)
            self.change("VACUUM")

        def checkpoint() -> None:
            self.need_write()
            busy, *_ = next(self.query("PRAGMA wal_checkpoint(TRUNCATE)"))
            if busy:
                raise DamnatioError(
                    f"The log of the gallery {self.path} is read by another program: stop that first, then try again."
                )

        locks = f"{self.path} as a whole"
        return [
            Step("vacuum", f"sqlite3 {self.path} 'VACUUM'", vacuum, locks, room, self.path.parent),
            Step("checkpoint", f"sqlite3 {self.path} 'PRAGMA wal_checkpoint(TRUNCATE)'", checkpoint, locks),
        ]

    def effects(self) -> list[Effect]:
        return effects_of(self.query, self.written, [self.layout.blobs.table] if self.layout.blobs else [])

    def mentions(self, names: Sequence[str]) -> list[Mention]:
        return mentions_of(self.query, names, self.written)

    # --- what is scanned ---------------------------------------------------------------------------------------------

    def file_classes(self) -> list[FileClass]:
        """The index of the log (-shm) holds numbers of pages and no content, so it is no class of its own."""
        database, *others = super().file_classes()
        there = {ending: [path] if path.exists() else [] for ending, path in self._beside.items()}
        return [
            FileClass("database", [*database.files, *there[INDEX]]),
            FileClass("log", there[LOG]),
            FileClass("journal", there[JOURNAL]),
            *others,
        ]

    def unreached(self) -> list[str]:
        return [*super().unreached(), *self.layout.remarks]

    @property
    def versions(self) -> dict[str, str]:
        found = {"sqlite": str(self._engine.sqlite_version)}
        if any(VEC.search(text) for text in self._made.values()):
            found["sqlite-vec"] = str(next(self.query("SELECT vec_version()"))[0])
        return found


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])
