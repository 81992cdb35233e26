"""Tables of SQL databases that hold people, as data: which column is the id, the vector and the name.

A name may stand in another table, at the end of links:

    face_search -- faceId = id --> asset_face -- personId = id --> person.name           (Immich)

The words of SQL that SQLite and Postgres share are made here. A store adds its own types and its own quoting of values.
"""

import re
from dataclasses import dataclass

from damnatio.galleries.items import Kind

SEPARATOR = re.compile(r"[\s_.-]")


@dataclass(frozen=True)
class Link:
    """A step from a row to the row of another table."""

    table: str
    here: str
    """the column of the table before"""
    there: str
    """the column of `table` that has the same value"""


@dataclass(frozen=True)
class Table:
    """A table whose rows hold people. Its name is the name of the place."""

    name: str
    id: str
    """the column that names a row; empty: rows have no id, and are named by their content"""
    kind: Kind = "template"
    vector: str = ""
    """the column of vectors; empty: it has none"""
    label: str = ""
    """the column of names, in the last linked table, or here if there are no links; empty: rows have no names"""
    links: tuple[Link, ...] = ()
    referred: bool = False
    """whether the first link is from rows that refer to this one. There may be several, so a row has no name of its own
    and is found with those that refer to it; one without any is an orphan"""
    picture: str = ""
    """the column of encoded photographs"""
    searched: bool = True
    goes_too: int = 0
    """of how many links the rows are deleted with this one"""
    pictures: tuple[Link, ...] = ()
    """photographs and thumbnails in other tables of the layout that belong to a row"""
    dtype: str = ""
    """how numbers are written in bytes, as numpy says it; empty: to be found out"""
    copied: tuple[str, ...] = ()
    """columns that a new row takes from a row that is there, such as the name of the model"""
    copied_person: tuple[str, ...] = ()
    """the same for the table of names"""


@dataclass(frozen=True)
class Blobs:
    """A table of faiss indexes, each a copy of the rows of `source` that agree in some columns (deepface's)."""

    table: str
    id: str
    data: str
    source: str
    agree: tuple[tuple[str, str], ...]
    """columns here and in `source` that must be equal"""


@dataclass(frozen=True)
class Layout:
    """All tables of a database that hold people. Rows are deleted in the order of the tables: those that refer to
    others come first."""

    name: str
    tables: tuple[Table, ...]
    blobs: Blobs | None = None
    remarks: tuple[str, ...] = ()
    """what deleting rows does not reach, as sentences"""

    def table(self, name: str) -> Table:
        return next(table for table in self.tables if table.name == name)


def quoted(name: str) -> str:
    """A name of a table or column; `schema.table` is two names."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def column(name: str) -> str:
    """A name of a column, which may hold a dot."""
    return '"' + name.replace('"', '""') + '"'


def pattern_of(name: str) -> str:
    """A pattern of LIKE for a name inside a text, whatever separates its parts."""
    return "%" + SEPARATOR.sub("_", re.sub(r"([\\%])", r"\\\1", name)) + "%"


def joined(table: Table) -> str:
    """FROM with the linked tables as j1, j2, ... A table that others refer to is not joined: see `label_of`."""
    text = f"FROM {quoted(table.name)} t"
    return text if table.referred else text + " " + _joins(table.links, "t", 1)


def label_of(table: Table) -> str:
    """The name of a row; of one that others refer to, the first of theirs."""
    if not table.label:
        return "''"
    if table.referred:
        return f"(SELECT min({_last(table)}.{column(table.label)}) {_referring(table)})"
    return f"{_last(table)}.{column(table.label)}"


def referrers_of(table: Table) -> str:
    """How many rows refer to this one."""
    return f"(SELECT count(*) {_referring(table)})"


def _referring(table: Table) -> str:
    first = table.links[0]
    inner = _joins(table.links[1:], "j1", 2)
    return f"FROM {quoted(first.table)} j1 {inner} WHERE j1.{column(first.there)} = t.{column(first.here)}"


def _joins(links: tuple[Link, ...], before: str, first: int) -> str:
    parts = []
    for number, link in enumerate(links, first):
        parts.append(
            f"LEFT JOIN {quoted(link.table)} j{number} ON j{number}.{column(link.there)} = {before}.{column(link.here)}"
        )
        before = f"j{number}"
    return " ".join(parts)


def _last(table: Table) -> str:
    return f"j{len(table.links)}" if table.links else "t"
