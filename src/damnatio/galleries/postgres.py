"""Templates in Postgres: Immich's, CompreFace's, deepface's tables, and any table by its columns.

    postgresql://immich@localhost/immich
    postgresql://user@host/db?table=face&vector=embedding&name=subject

The purge is a guest in other people's databases: it deletes rows and vacuums their tables. What the server keeps of
them elsewhere is said (`remains`), and its files are never read.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from damnatio.galleries import STORES
from damnatio.galleries.base import content_ids, need
from damnatio.galleries.items import Effect, FileClass, Mention, Remain, Step, Vectors
from damnatio.galleries.postgres_catalog import Catalog
from damnatio.galleries.postgres_connection import DRIVER, connected, sentences
from damnatio.galleries.postgres_remains import remains_of
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


@STORES.register("postgres")
class Postgres(SqlStore):
    """A gallery on a Postgres server."""

    scheme = "postgres"
    aliases: ClassVar[tuple[str, ...]] = ("postgresql", "postgresql+psycopg", "postgresql+psycopg2")
    is_server = True
    options: ClassVar[Mapping[str, str]] = OPTIONS
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

    def close(self) -> None:
        self.writes = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _sentences(self) -> AbstractContextManager[None]:
        return sentences(self._psycopg, self.address.shown)

    def _layout(self) -> Layout:
        columns = self._catalog.columns(self.address.option("table"))
        if self.address.options:
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

    def effects(self) -> list[Effect]:
        return self._catalog.effects(self.written, [self.layout.blobs.table] if self.layout.blobs else [])

    def mentions(self, names: Sequence[str]) -> list[Mention]:
        return self._catalog.mentions(self.query, names, self._relations)

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
        """In a connection of its own: the rows of one moment, however long it takes to read them. Inside a transaction
        they are those that it sees."""
        if self._connection.info.transaction_status != self._psycopg.pq.TransactionStatus.IDLE:
            yield from (row for row, _ in self._rows(table, self._connection))
            return
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
        return [self._vacuum(name) for name in self._relations if self._catalog.may_vacuum(name)]

    def _vacuum(self, name: str) -> Step:
        text = f"VACUUM (ANALYZE) {quoted(name)}"

        def run() -> None:
            self.need_write()
            self.run(text)

        return Step(f"vacuum {name}", text, run)

    # --- what is left ------------------------------------------------------------------------------------------------

    def file_classes(self) -> list[FileClass]:
        """None: the files of a server are never read."""
        return []

    def remains(self) -> list[Remain]:
        return remains_of(self.run, self._catalog, self._relations)

    def unreached(self) -> list[str]:
        return [*self.layout.remarks, *(f"{one.what[0].upper()}{one.what[1:]}." for one in self.effects())]

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
