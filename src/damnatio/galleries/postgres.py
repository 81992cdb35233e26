"""Templates in Postgres: Immich's, CompreFace's, deepface's tables, and any table by its columns.

    postgresql://immich@localhost/immich
    postgresql://user@host/db?table=face&vector=embedding&name=subject

A deleted row stays in its table until VACUUM FULL writes that anew, in the statistics if it is short, and in the
write-ahead log until its files are gone: the steps after the delete see to each.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from damnatio.galleries import STORES
from damnatio.galleries.base import content_ids, need
from damnatio.galleries.files import BACKUPS, ENGINE, need_room
from damnatio.galleries.items import FileClass, Key, Step, Vectors
from damnatio.galleries.postgres_catalog import Catalog
from damnatio.galleries.postgres_connection import DRIVER, connected, sentences
from damnatio.galleries.postgres_files import (
    BLOBS,
    INDEX,
    LOG,
    ORPHANS,
    STATISTICS,
    TABLE,
    WIDEST,
    Files,
    unreached_by,
)
from damnatio.galleries.postgres_log import COMMAND, need_no_old_snapshot, pass_log, tidy
from damnatio.galleries.postgres_types import Type, type_of
from damnatio.galleries.sql_layouts import OPTIONS, described, recognised, unknown
from damnatio.galleries.sql_store import SqlStore
from damnatio.galleries.sql_tables import Layout, Table, column, joined, label_of, quoted
from damnatio.galleries.sql_vectors import Row, written
from damnatio.support.errors import DamnatioError

FETCHED = 1024
"""rows that are fetched at once"""
PLACE = "t.tableoid::text || t.ctid::text"
"""where a row is; the parts of a table count their rows alike"""
PLANTED, DIMS = 8, 512
SAMPLED = 10_000
"""rows by which the lengths of vectors are found"""


@STORES.register("postgres")
class Postgres(SqlStore):
    """A gallery on a Postgres server."""

    scheme = "postgres"
    aliases: ClassVar[tuple[str, ...]] = ("postgresql", "postgresql+psycopg", "postgresql+psycopg2")
    is_server = True
    options: ClassVar[Mapping[str, str]] = {
        **OPTIONS,
        "data": "the data directory of the server, as it is seen from here",
    }
    _connection: Any = None

    @classmethod
    def takes(cls, option: str) -> bool:
        return option in DRIVER

    # --- opened ------------------------------------------------------------------------------------------------------

    def open(self, write: bool) -> None:
        if self.address.path is not None:
            raise DamnatioError(
                f"The gallery {self.address.shown} names no server: write postgresql://USER@HOST/DATABASE."
            )
        self.writes = write
        self._psycopg = need("psycopg", "postgres")
        self._connection = connected(self._psycopg, self.address)
        self._connection.read_only = not write
        self._catalog = Catalog(self.run)
        self.layout = self._layout()
        for table in self._relations:
            self._catalog.need_allowed(self.address.shown, table, write)
        given = self.address.option("data")
        self._files = Files(self.run, Path(given).expanduser() if given else None)
        if write and self._catalog.is_superuser:
            tidy(self.run)

    def close(self) -> None:
        self.writes = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _sentences(self) -> AbstractContextManager[None]:
        return sentences(self._psycopg, self.address.shown)

    def _layout(self) -> Layout:
        columns = self._catalog.columns(self.address.option("table"))
        options = {key for key in self.address.options if key != "data"}
        if options:
            key = self._catalog.key(self.address.option("table"))
            found = described(self.address, columns, self._catalog.link, key)
        else:
            known = recognised(columns)
            if known is None:
                raise unknown(self.address.shown, columns)
            found = known
        self._types = {table.name: self._type(table) for table in found.tables if table.vector}
        tables = tuple(
            replace(table, dtype=self._types[table.name].dtype) if table.vector else table for table in found.tables
        )
        for table in tables:
            if table.id and table.id != self._catalog.key(table.name):
                self._catalog.need_unique(self.address.shown, table.name, table.id)
        return replace(found, tables=tables)

    def _type(self, table: Table) -> Type:
        written_as = self._catalog.types(table.name)[table.vector]
        return type_of(written_as, table, self.address.shown, self.query)

    @cached_property
    def _relations(self) -> list[str]:
        """All tables that a delete writes to."""
        found = [table.name for table in self.layout.tables]
        found += [link.table for table in self.layout.tables for link in table.links[: table.goes_too]]
        return list(dict.fromkeys(found + ([self.layout.blobs.table] if self.layout.blobs else [])))

    # --- queries -----------------------------------------------------------------------------------------------------

    def run(self, text: str) -> list[tuple[Any, ...]]:
        with self._sentences():
            cursor = self._connection.execute(text)
            return list(cursor.fetchall()) if cursor.description else []

    def query(self, text: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        with self._sentences(), self._connection.cursor(binary=True) as cursor:
            found = cursor.execute(*_asked(text, values)).fetchall()
        yield from found

    def change(self, text: str, values: Sequence[Any] = ()) -> int:
        with self._sentences():
            return max(int(self._connection.execute(*_asked(text, values)).rowcount), 0)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._sentences(), self._connection.transaction():
            yield

    def spelt(self, expression: str) -> str:
        return f"({expression})::text"

    def rows(self, table: Table) -> Iterator[Row]:
        """In a connection of its own: the rows of one moment, however long it takes to read them."""
        connection = connected(self._psycopg, self.address)
        try:
            with self._sentences(), connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                for row, _ in self._rows(table, connection):
                    yield row
        finally:
            connection.close()

    def _rows(self, table: Table, connection: Any) -> Iterator[tuple[Row, str]]:
        own = self.id_of(table) if table.id else "''"
        name = "''" if table.referred else f"({label_of(table)})::text"
        kind = self._types.get(table.name)
        vector = kind.read(f"t.{column(table.vector)}") if kind else "NULL"
        others = [f"t.{column(name)}" for name in self.columns_of(table.name) if name not in (table.id, table.vector)]
        for number, link in enumerate(table.links[: table.goes_too], 1):
            others += [f"j{number}.{column(name)}" for name in self.columns_of(link.table)]
        content = f"sha256(textsend(ROW({', '.join(others)})::text))"
        text = f"SELECT {PLACE}, {own}, {name}, {vector}, {content} {joined(table)}"
        with connection.cursor(name="damnatio", binary=True) as cursor:
            cursor.itersize = FETCHED
            cursor.execute(text.replace("%", "%%"))
            for place, id, label, value, digest in cursor:
                called = label or ""
                found = self._read(kind, value, id, table) if kind else None
                named = [id] if table.id else content_ids([called], [bytes(digest) + written(found)])
                yield Row(named[0] or "", called, found, bytes(digest)), place

    def _read(self, kind: Type, value: Any, id: str, table: Table) -> Any:
        try:
            return kind.vector(value)
        except ValueError as error:
            raise DamnatioError(
                f"The gallery {self.address.shown}: `{table.vector}` of row {id or '?'} of `{table.name}` is no vector "
                f"({error}): remove or mend that row."
            ) from error

    # --- changes -----------------------------------------------------------------------------------------------------

    def rehearse(self, keys: Sequence[Key]) -> None:
        """Also that nobody holds the tables which are written anew, or could still see the rows then."""
        need_no_old_snapshot(self.run, self.address.shown)
        with self.transaction():
            for name in self._relations:
                self.change(f"LOCK TABLE {quoted(name)} IN ACCESS EXCLUSIVE MODE")
        super().rehearse(keys)

    def delete_unnamed(self, table: Table, ids: set[str]) -> int:
        self.change(f"LOCK TABLE {quoted(table.name)} IN SHARE ROW EXCLUSIVE MODE")
        gone = [place for row, place in self._rows(table, self._connection) if row.id in ids]
        text = f"DELETE FROM {quoted(table.name)} t WHERE {PLACE} = ?"
        return sum(self.change(text, [place]) for place in gone)

    def columns_of(self, table: str) -> Sequence[str]:
        return list(self._catalog.types(table))

    def needs_id(self, table: str, id: str) -> bool:
        return not self._catalog.has_default(table, id)

    def insert(self, table: str, values: dict[str, Any], id: str) -> str:
        types = self._catalog.types(table)
        names = ", ".join(column(name) for name in values)
        places = ", ".join(f"?::{types[name]}" for name in values)
        adapted = [_adapted(value, types[name]) for name, value in values.items()]
        back = self.spelt(column(id)) if id else PLACE
        ((found,),) = self.query(
            f"INSERT INTO {quoted(table)} AS t ({names}) VALUES ({places}) RETURNING {back}", adapted
        )
        if id:
            return str(found)
        with self._connection.transaction():
            return next(row.id for row, at in self._rows(self.layout.table(table), self._connection) if at == found)

    def value_of(self, table: Table, vector: Vectors) -> Any:
        return self._types[table.name].written(vector)

    def steps(self) -> list[Step]:
        sizes = {
            name: int(self.run(f"SELECT pg_total_relation_size({self._catalog.number(name)})")[0][0])
            for name in self._relations
        }
        folder = None if self._files.unreached else self._files.folder
        steps = [self._vacuum(name, size, folder) for name, size in sizes.items()]
        if self._catalog.is_superuser and self._in_statistics:
            text = "VACUUM (FULL) pg_catalog.pg_statistic"
            steps.append(Step("vacuum statistics", text, lambda: self._alone(text), "planning of new queries"))
        if self._catalog.is_superuser:
            steps.append(Step("pass the log", COMMAND, lambda: self._alone("")))
        return steps

    def _vacuum(self, name: str, size: int, folder: Path | None) -> Step:
        text = f"VACUUM (FULL, ANALYZE) {quoted(name)}"

        def run() -> None:
            if folder is not None:
                need_room(folder, size)
            self._alone(text)

        return Step(f"vacuum {name}", text, run, f"the table {name}, for reading too", size, folder)

    def _alone(self, text: str) -> None:
        """Run a statement after all who may still see deleted rows are gone; the empty one passes the log."""
        self.need_write()
        need_no_old_snapshot(self.run, self.address.shown)
        if text:
            self.run(text)
        else:
            pass_log(self.run)

    # --- what is scanned ---------------------------------------------------------------------------------------------

    def _sizes(self, table: Table) -> list[int]:
        """The lengths of the vectors of a table as Postgres holds them, in bytes."""
        return self._types[table.name].sizes(self._counts(table))

    def _counts(self, table: Table) -> list[int]:
        kind, name = self._types[table.name], column(table.vector)
        some = f"(SELECT {name} FROM {quoted(table.name)} WHERE {name} IS NOT NULL LIMIT {SAMPLED}) t"
        return [int(count) for (count,) in self.run(f"SELECT DISTINCT {kind.count(f't.{name}')} FROM {some}")]

    @property
    def _in_statistics(self) -> bool:
        """Whether vectors are so short that ANALYZE copies some into the statistics."""
        return any(size <= WIDEST for table in self.layout.tables if table.vector for size in self._sizes(table))

    @property
    def _compressed(self) -> list[int]:
        """The lengths of vectors that Postgres may compress, as it writes them before a compressed value."""
        may = [t for t in self.layout.tables if t.vector and self._catalog.may_compress(t.name, t.vector)]
        return sorted({size - 4 for table in may for size in self._sizes(table)})

    def file_classes(self) -> list[FileClass]:
        if not self.writes:
            self._checkpoint()
        files, catalog = self._files, self._catalog
        compressed = self._compressed
        vectors = {table.name: table.vector for table in self.layout.tables}
        blobs = self.layout.blobs.table if self.layout.blobs else ""
        tables = [number for name in self._relations if name != blobs for number in catalog.parts(name)]
        indexes = [number for name in vectors for number in catalog.indexes(name, vectors[name])]
        rest = [number for number in tables if number not in indexes]
        found = [files.classed(TABLE, files.of(rest), compressed)]
        if indexes:
            found.append(files.classed(INDEX, files.of(indexes), []))
        if blobs:
            found.append(files.classed(BLOBS, files.of(catalog.parts(blobs)), []))
        if self._in_statistics:
            found.append(files.classed(STATISTICS, files.of(catalog.parts("pg_catalog.pg_statistic")), []))
        found.append(files.classed(LOG, files.log(), compressed))
        found.append(files.classed(ORPHANS, files.orphans(), compressed))
        return found

    def plants(self) -> Mapping[str, Vectors]:
        """Statistics before a checkpoint, which brings them to their file; the log after it, which may remove files of
        the log."""
        if not self.writes or self._files.unreached:
            return {}
        found = {STATISTICS: self._plant(analyze=True)} if self._in_statistics else {}
        self._checkpoint()
        return {**found, LOG: self._plant(analyze=False)}

    def _checkpoint(self) -> None:
        """What is in memory only is in no file yet."""
        if self._catalog.is_superuser:
            self.run("CHECKPOINT")

    def _plant(self, analyze: bool) -> Vectors:
        """Write rows of nobody to a table that is never committed: they are in the log, and in the statistics."""
        table = next(table for table in self.layout.tables if table.vector)
        kind, written_as = self._types[table.name], self._catalog.types(table.name)[table.vector]
        like = None if kind.like is None else kind.vector(kind.like)
        dims = max(self._counts(table), default=DIMS) if like is None else len(like)
        vectors = np.random.default_rng().standard_normal((PLANTED, dims)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        with self._sentences(), self._connection.transaction(force_rollback=True):
            self.run(f"CREATE TABLE damnatio_control (v {written_as})")
            for vector in vectors:
                self.change(f"INSERT INTO damnatio_control VALUES (?::{written_as})", [kind.written(vector)])
            if analyze:
                self.run("ANALYZE damnatio_control")
        self.run("SELECT pg_logical_emit_message(true, 'damnatio', '')")  # a commit brings the log to the disk
        return vectors.astype(kind.dtype or np.float32)

    def unreached(self) -> list[str]:
        said = [ENGINE, BACKUPS, *unreached_by(self.run), *self.layout.remarks]
        if not self._catalog.is_superuser:
            said.append(
                "The write-ahead log holds the rows until the server has used all its files again: only a superuser "
                "can pass it at once."
            )
        said += [self._catalog.cascades(name) for name in self._relations]
        return [sentence for sentence in said if sentence]

    @property
    def versions(self) -> dict[str, str]:
        extensions = self.run("SELECT extname, extversion FROM pg_extension WHERE extname IN ('vector', 'vchord')")
        return {
            "postgres": self._connection.info.parameter_status("server_version") or "",
            "psycopg": self._psycopg.__version__,
            **{str(name): str(version) for name, version in extensions},
        }


def _asked(text: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """A query with the placeholders of psycopg; no values, no placeholders."""
    return (text.replace("%", "%%").replace("?", "%s"), list(values)) if values else (text,)


def _adapted(value: Any, written_as: str) -> Any:
    """A value for a column of this type, where deepface's tables differ."""
    if written_as == "bytea" and isinstance(value, str):
        return value.encode()
    if written_as in ("json", "jsonb") and isinstance(value, bytes):
        return "[]"
    return [0] if written_as == "integer[]" and isinstance(value, str) else value
