"""What stores in SQL databases share: places, rows, photographs of rows, indexes in blobs, and the order of a delete.

A store gives the words that differ: how a query runs, how an id is spelt, how vectors are read and written.
"""

import contextlib
import uuid
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from damnatio.galleries import faiss_blobs
from damnatio.galleries.base import Store
from damnatio.galleries.items import SHARED, Block, Census, Item, Key, Place, Vectors
from damnatio.galleries.sql_enrolment import filled
from damnatio.galleries.sql_tables import Blobs, Layout, Table, column, label_of, quoted, referrers_of
from damnatio.galleries.sql_vectors import Row, gathered
from damnatio.support.errors import DamnatioError

AT_ONCE = 500
"""ids in one query"""


class _TakenBackError(Exception):
    """Ends a rehearsal."""


class SqlStore(Store):
    """A gallery in a SQL database."""

    layout: Layout

    # --- what a store gives ------------------------------------------------------------------------------------------

    @abstractmethod
    def query(self, text: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, one after the other. Values stand where the text has a `?`."""

    @abstractmethod
    def change(self, text: str, values: Sequence[Any] = ()) -> int:
        """Run a statement inside the transaction. Returns how many rows it changed."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Any]:
        """All or nothing."""

    @abstractmethod
    def spelt(self, expression: str) -> str:
        """An id as text."""

    @abstractmethod
    def rows(self, table: Table) -> Iterator[Row]:
        """All rows of a table."""

    @abstractmethod
    def delete_unnamed(self, table: Table, ids: set[str]) -> int:
        """Delete rows that have no ids of their own, by the ids that their contents give."""

    @abstractmethod
    def insert(self, table: str, values: dict[str, Any], id: str) -> str:
        """Insert a row. Returns its id."""

    @abstractmethod
    def value_of(self, table: Table, vector: Vectors) -> Any:
        """A vector as the column of a table takes it."""

    @abstractmethod
    def columns_of(self, table: str) -> Sequence[str]:
        """The columns of a table."""

    @abstractmethod
    def needs_id(self, table: str, id: str) -> bool:
        """Whether a new row must bring its id along."""

    # --- what is in it -----------------------------------------------------------------------------------------------

    def places(self) -> list[Place]:
        return [Place(table.name, table.kind, table.searched) for table in self.layout.tables]

    def blocks(self, place: str) -> Iterator[Block]:
        yield from gathered(self.rows(self.layout.table(place)))

    def id_of(self, table: Table) -> str:
        return self.spelt(f"t.{column(table.id)}")

    def among(self, expression: str, ids: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
        """Conditions that an id is one of these, with their values, a few at a time."""
        wanted = list(ids)
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            yield f"{self.spelt(expression)} IN ({', '.join('?' * len(some))})", some

    def photograph(self, key: Key) -> bytes | None:
        table = next((table for table in self.layout.tables if table.name == key.place and table.picture), None)
        if table is None or not table.id:
            return None
        for condition, values in self.among(f"t.{column(table.id)}", [key.id]):
            for (content,) in self.query(
                f"SELECT t.{column(table.picture)} FROM {quoted(table.name)} t WHERE {condition}", values
            ):
                return None if content is None else bytes(content)
        return None

    def attached(self, keys: Sequence[Key]) -> Iterable[Item]:
        for table in self.layout.tables:
            ids = {key.id for key in keys if key.place == table.name}
            for link in table.pictures:
                yield from self._pictures(table, self.layout.table(link.table), link.here, link.there, ids)
            if self.layout.blobs is not None and self.layout.blobs.source == table.name and ids:
                for id, held in self._held(self.layout.blobs):
                    if held & ids:
                        yield self._blob(self.layout.blobs, id, "attached")

    def _pictures(self, table: Table, pictures: Table, here: str, there: str, ids: set[str]) -> Iterable[Item]:
        """The photographs of these rows. One that others refer to as well is flagged."""
        names, users = dict[str, str](), dict[str, set[str]]()
        for condition, values in self.among(f"x.{column(table.id)}", sorted(ids)):
            text = (
                f"SELECT {self.id_of(pictures)}, {label_of(pictures)}, {self.spelt(f'r.{column(table.id)}')} "
                f"FROM {quoted(pictures.name)} t JOIN {quoted(table.name)} r ON r.{column(here)} = t.{column(there)} "
                f"WHERE t.{column(there)} IN (SELECT x.{column(here)} FROM {quoted(table.name)} x WHERE {condition})"
            )
            for id, name, user in self.query(text, values):
                names[id] = name or ""
                users.setdefault(id, set()).add(user)
        for id, name in names.items():
            yield self.item(
                place=pictures.name,
                id=id,
                kind=pictures.kind,
                how="attached",
                name=name,
                flags=(SHARED,) if users[id] - ids else (),
            )

    def orphans(self) -> Iterable[Item]:
        """Photographs that no row refers to, and indexes that hold rows which are no longer there."""
        for table in self.layout.tables:
            if table.referred and table.kind == "photograph":
                text = f"SELECT {self.id_of(table)} FROM {quoted(table.name)} t WHERE {referrers_of(table)} = 0"
                for (id,) in self.query(text):
                    yield self.item(place=table.name, id=id, kind=table.kind, how="orphan")
        if self.layout.blobs is not None:
            for id, held in self._held(self.layout.blobs):
                if held - self._sources(self.layout.blobs, id):
                    yield self._blob(self.layout.blobs, id, "orphan")

    # --- indexes in blobs --------------------------------------------------------------------------------------------

    def _blob(self, blobs: Blobs, id: str, how: str) -> Item:
        return self.item(place=blobs.table, id=id, kind="index", how=how)

    def _held(self, blobs: Blobs) -> Iterator[tuple[str, set[str]]]:
        """Each index and the ids of the rows in it."""
        for id, content in self._contents(blobs):
            yield id, {str(held) for held in faiss_blobs.ids_in(content, f"{id} of {blobs.table}")}

    def _contents(self, blobs: Blobs) -> Iterator[tuple[str, bytes]]:
        name = f"t.{column(blobs.id)}"
        ids = [id for (id,) in self.query(f"SELECT {self.spelt(name)} FROM {quoted(blobs.table)} t ORDER BY {name}")]
        for id in ids:
            for condition, values in self.among(name, [id]):
                text = f"SELECT t.{column(blobs.data)} FROM {quoted(blobs.table)} t WHERE {condition}"
                for (content,) in self.query(text, values):
                    if content is not None:
                        yield id, bytes(content)

    def _sources(self, blobs: Blobs, id: str) -> set[str]:
        """The ids of the rows that an index is of."""
        agree = " AND ".join(f"s.{column(there)} = t.{column(here)}" for here, there in blobs.agree)
        found = set[str]()
        for condition, values in self.among(f"t.{column(blobs.id)}", [id]):
            text = (
                f"SELECT {self.spelt(f's.{column(blobs.id)}')} FROM {quoted(blobs.source)} s "
                f"JOIN {quoted(blobs.table)} t ON {agree} WHERE {condition}"
            )
            found.update(source for (source,) in self.query(text, values))
        return found

    def _build_anew(self, blobs: Blobs) -> int:
        """Leave in each index the rows that are there. Returns how many indexes held others."""
        changed = 0
        for id, content in list(self._contents(blobs)):
            where = f"{id} of {blobs.table}"
            held, there = {str(one) for one in faiss_blobs.ids_in(content, where)}, self._sources(blobs, id)
            if held - there:
                new = faiss_blobs.only(content, {int(one) for one in held & there}, where)
                for condition, values in self.among(column(blobs.id), [id]):
                    text = f"UPDATE {quoted(blobs.table)} SET {column(blobs.data)} = ? WHERE {condition}"
                    changed += self.change(text, [new, *values])
        return changed

    # --- what is done to it ------------------------------------------------------------------------------------------

    def rehearse(self, keys: Sequence[Key]) -> Census:
        """The delete itself, counted inside its transaction and taken back."""
        with contextlib.suppress(_TakenBackError), self.transaction():
            self._delete(keys)
            found = self.census(keys)
            raise _TakenBackError
        return found

    @property
    def written(self) -> list[str]:
        """All tables that a delete takes rows out of."""
        found = [table.name for table in self.layout.tables]
        return list(dict.fromkeys(found + [link.table for t in self.layout.tables for link in t.links[: t.goes_too]]))

    def delete(self, keys: Sequence[Key]) -> int:
        with self.transaction():
            return self._delete(keys)

    def _delete(self, keys: Sequence[Key]) -> int:
        self.need_write()
        known = {table.name for table in self.layout.tables} | {self.layout.blobs.table if self.layout.blobs else ""}
        other = next((key for key in keys if key.place not in known), None)
        if other is not None:
            raise DamnatioError(f"The gallery {self.address.shown} has no table `{other.place}`: nothing was deleted.")
        deleted = 0
        for table in self.layout.tables:
            deleted += self._delete_from(table, {key.id for key in keys if key.place == table.name})
        if self.layout.blobs is not None and keys:
            deleted += self._build_anew(self.layout.blobs)
        return deleted

    def _delete_from(self, table: Table, ids: set[str]) -> int:
        if not table.id:
            return self.delete_unnamed(table, ids) if ids else 0
        deleted = 0
        for condition, values in self.among(column(table.id), sorted(ids)):
            owners = [
                (link, [owner for (owner,) in self.query(self._owners(table, link.here, condition), values)])
                for link in table.links[: table.goes_too]
            ]
            deleted += self.change(f"DELETE FROM {quoted(table.name)} WHERE {condition}", values)
            for link, found in owners:
                for also, more in self.among(column(link.there), found):
                    self.change(f"DELETE FROM {quoted(link.table)} WHERE {also}", more)
        return deleted

    def _owners(self, table: Table, here: str, condition: str) -> str:
        return f"SELECT {self.spelt(column(here))} FROM {quoted(table.name)} WHERE {condition}"

    def add(self, name: str, vectors: Vectors) -> list[Key]:
        self.need_write()
        table = next(table for table in self.layout.tables if table.vector)
        if len(table.links) > 1 or (table.links and table.goes_too):
            raise DamnatioError(
                f"The gallery {self.address.shown} enrols people from photographs only: use {self.layout.name} itself."
            )
        with self.transaction():
            person = self._person(table, name) if table.links else None
            return [self._enrol(table, name, person, np.asarray(vector)) for vector in vectors]

    def _enrol(self, table: Table, name: str, person: str | None, vector: Vectors) -> Key:
        values = self._copied(table.name, table.copied) | {table.vector: self.value_of(table, vector)}
        if table.links:
            values[table.links[0].here] = person
        elif table.label:
            values[table.label] = name
        values |= filled(self.columns_of(table.name), vector)
        if table.id and self.needs_id(table.name, table.id):
            values[table.id] = str(uuid.uuid4())
        return Key(table.name, self.insert(table.name, values, table.id))

    def _person(self, table: Table, name: str) -> str:
        """The id of the person in the table of names, who is made if there is none."""
        link = table.links[0]
        there = f"SELECT {self.spelt(column(link.there))} FROM {quoted(link.table)} WHERE {column(table.label)} = ?"
        for (id,) in self.query(there, [name]):
            return str(id)
        values = self._copied(link.table, table.copied_person) | {table.label: name}
        if self.needs_id(link.table, link.there):
            values[link.there] = str(uuid.uuid4())
        return self.insert(link.table, values, link.there)

    def _copied(self, table: str, names: Sequence[str]) -> dict[str, Any]:
        known = [name for name in names if name in self.columns_of(table)]
        if not known:
            return {}
        text = f"SELECT {', '.join(column(name) for name in known)} FROM {quoted(table)} LIMIT 1"
        return next((dict(zip(known, row, strict=True)) for row in self.query(text)), {})
