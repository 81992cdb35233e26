"""What a store holds and what is said about it: places, rows, items of a person, and counts of everybody else."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

Kind = Literal["template", "embedding", "photograph", "thumbnail", "index", "checkpoint"]
"""template: a row that is searched; embedding: a cached one that is not; index: a copy of rows that serves searches"""
How = Literal["name", "similarity", "equal", "together", "attached", "orphan"]
"""equal: its vector is that of a row that was found; together: it is stored under the name of a candidate; attached: it
belongs to an item that was found otherwise, as its photograph does; orphan: nothing refers to it"""
Vectors = NDArray[np.floating[Any]]
"""[n, d], as they are stored"""
Units = NDArray[np.float32]
"""[n, d], each row of length 1"""

BYTE = re.compile(r"[\udc80-\udcff]")
"""a byte that is no UTF-8, as Python reads it"""
SHARED, GROUP, UNLIKE, SPELLING = "shared", "group", "unlike", "spelling"
"""flags: others use the row too; a photograph with several faces; the name fits but the face does not; the name differs
in capitals, accents' encoding or separators"""


PICTURES = ("photograph", "thumbnail")


class Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Key(NamedTuple):
    """What names one row for good: it stays the same when other rows come and go, and after a restart."""

    place: str
    id: str


class Item(Frozen):
    """One thing that holds the person."""

    store: str
    """the address of the store, without its password"""
    place: str
    id: str
    kind: Kind
    how: How
    name: str = ""
    """the name that it is stored under"""
    score: float | None = None
    """the cosine to the template that it resembles; None: it holds no vector that can be compared"""
    like: str = ""
    """that template, or the row that it equals"""
    flags: tuple[str, ...] = ()
    copies: int = 1
    """equal rows that the store cannot tell apart; they are deleted together"""

    @property
    def key(self) -> Key:
        return Key(self.place, self.id)

    @property
    def candidate(self) -> bool:
        """Whether a person has to confirm that it is to be deleted."""
        return self.how in ("similarity", "equal", "orphan") or bool(self.flags)


@dataclass(frozen=True)
class Place:
    """A part of a store whose rows are alike: a table, a file, a folder of photographs."""

    name: str
    kind: Kind
    searched: bool = True
    """whether `Store.search` looks here"""


@dataclass(frozen=True)
class Block:
    """Some rows of one place. Either all rows of a block have a vector, of one length, or none has."""

    ids: Sequence[str]
    names: Sequence[str]
    """"" where a row has none"""
    vectors: Vectors | None = None
    contents: Sequence[bytes] = ()
    """what else of each row must stay as it is: other columns, or the code of a vector that is stored as one"""
    flags: Sequence[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if not all(map(is_text, self.names)):
            object.__setattr__(self, "names", [as_text(name) for name in self.names])


def is_text(text: str) -> bool:
    """Whether it can be written as UTF-8. What a file held as Latin-1, or half a character, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_text(name: str) -> str:
    """A name as text: bytes that are no UTF-8 are read as Latin-1, and halves of characters are written as numbers."""
    latin = BYTE.sub(lambda byte: chr(ord(byte[0]) - 0xDC00), name)
    return latin.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True)
class Step:
    """One step after the delete, until no byte is left. It may run twice: the second time it finds nothing to do."""

    name: str
    """the same in every process, so that a journal can say which steps are done"""
    command: str
    """what a person would type"""
    run: Callable[[], None] = field(compare=False, repr=False)
    locks: str = ""
    """what waits while it runs; empty: nothing does"""
    needs: int = 0
    """bytes of free disk"""
    folder: Path | None = None
    """where they are needed"""


class Remain(Frozen):
    """What keeps bytes of deleted rows where no purge reaches, until when, and what an administrator runs to end it."""

    what: str
    until: str
    command: str

    @property
    def words(self) -> str:
        return f"{self.what} Until {self.until}. An administrator runs: {self.command}."


@dataclass(frozen=True)
class FileClass:
    """Files that are written alike, and so are scanned and controlled together: the table, the log, the index."""

    name: str
    files: Sequence[Path]
    opened: Callable[[Path], Any] | None = field(default=None, compare=False, repr=False)
    """contents of a file (an iterable of bytes) that only this store can unpack. The raw bytes are scanned as well"""
    unreached: str = ""
    """why nobody can read these files from here; empty: they can be read"""
    holds: tuple[Literal["vectors", "pictures"], ...] = ("vectors",)
    """what of people who stay is written here, and so must be seen"""


class Hit(NamedTuple):
    """One result of a search."""

    key: Key
    score: float


@dataclass(frozen=True)
class Sought:
    """The person as a store is searched for them."""

    names: Sequence[str] = ()
    templates: Units | None = None
    """unit vectors under f*"""
    threshold: float | NDArray[np.float64] = 1.0
    """the lowest cosine at which a row is a candidate: one for all templates, or one for each"""
    labels: Sequence[str] = ()
    """what each template is"""
    besides: Sequence[str] = ()
    """names of other people: their rows are no candidates"""
    faces: Callable[[bytes], Units | str] | None = None
    """unit vectors under f* of the faces in an encoded photograph, or why it cannot be read; None: photographs are
    found by name only"""


@dataclass(frozen=True)
class Found:
    """The items, and what the search could not do, as sentences."""

    items: list[Item]
    notes: list[str]
    vectors: "dict[Key, Vectors]" = field(default_factory=dict)
    """of the items that have one"""
    rows: int = 0
    compared: int = 0
    """rows that were compared with the templates"""


class Effect(Frozen):
    """What a delete sets off beside itself: refused unless the operator allows it by its name."""

    name: str
    what: str


class Mention(Frozen):
    """A column outside of the tables of people in which a name stands as text. Nothing is deleted there."""

    place: str
    rows: int


class Census(Frozen):
    """One pass over all rows. The hashes depend on no order."""

    rows: dict[str, int]
    """by place"""
    matched: str
    """the hash of the rows that were asked for"""
    matched_rows: int
    others: str
    """the hash of (place, id, name, bytes) of everybody else"""
