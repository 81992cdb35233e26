"""The contract of a store of templates or photographs.

A store gives small things: its rows in blocks, the deletion of named rows, the steps after it, the files that it
writes. The rest is the same for all and is done here and in `finding`, `census` and `searching`: whom a row shows, the
hash of everybody else, exact searches.

    with open_store("gallery.npz", write=True) as store:
        found = store.find(Sought(names=["Ann"], templates=units, threshold=0.4))
        before = store.census([item.key for item in found.items])
        store.delete([item.key for item in found.items])
        for step in store.steps():
            step.run()
        store.file_classes()          -> scanned by galleries.scanning

Rules for a store:
- A key names the same row for good. Where rows have no ids of their own, `content_ids` makes them from the content.
- `delete` is one transaction and idempotent: keys that are gone are passed over. So is every step.
- Memory is bounded: a block holds at most `BLOCK` rows, and nothing keeps all vectors.
- An engine is imported inside the functions that need it: `need(...)` says how to install it.
- Nothing is written unless the store was opened with `write`.
- Errors are sentences (DamnatioError): no such column, refused credentials, open elsewhere, read-only, newer version.
"""

import hashlib
import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from damnatio.galleries.address import Address
from damnatio.galleries.census import census
from damnatio.galleries.finding import find
from damnatio.galleries.items import (
    Block,
    Census,
    Effect,
    FileClass,
    Found,
    Hit,
    Item,
    Key,
    Mention,
    Place,
    Remain,
    Sought,
    Step,
    Vectors,
    is_text,
)
from damnatio.galleries.searching import exact_search
from damnatio.support.errors import DamnatioError

BLOCK = 8192
"""rows that are held at once, at most"""


class Store(ABC):
    """One gallery. A subclass is registered under its scheme: `@STORES.register("npz")`."""

    scheme: ClassVar[str]
    """the name that it is registered under"""
    aliases: ClassVar[tuple[str, ...]] = ()
    is_server: ClassVar[bool] = False
    """whether `scheme://...` names a server rather than a path"""
    options: ClassVar[Mapping[str, str]] = {}
    """what an address may say after the question mark, and what it means"""
    required: ClassVar[tuple[str, ...]] = ()

    def __init__(self, address: Address) -> None:
        self.address = address
        self.writes = False

    # --- recognised and opened ---------------------------------------------------------------------------------------

    @classmethod
    def likeness(cls, path: Path, head: bytes) -> int:
        """How much a bare path looks like this store: 0 not at all, 1 it may be, 2 it is. `head` are the first bytes of
        a file, and empty for a folder."""
        return 0

    @classmethod
    def takes(cls, option: str) -> bool:
        """Whether an unknown option of a server's address is one of its driver."""
        return False

    @abstractmethod
    def open(self, write: bool) -> None:
        """Open and check it: that it is there, that this version can be read, that its columns exist. With `write`
        also that it may be written and that nobody else has it open. It sets `self.writes`."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; twice does no harm."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # --- what is in it -----------------------------------------------------------------------------------------------

    @abstractmethod
    def places(self) -> list[Place]:
        """Where rows are: tables, files, folders."""

    @abstractmethod
    def blocks(self, place: str) -> Iterator[Block]:
        """All rows of a place, at most `BLOCK` at a time, in any order."""

    def attached(self, keys: Sequence[Key]) -> Iterable[Item]:
        """What belongs to these rows and must go with them: photographs, thumbnails, rows of a second index. Items with
        the `how` "attached"."""
        return ()

    def orphans(self) -> Iterable[Item]:
        """What nothing refers to any longer and may show anybody: photographs whose person was deleted. Items with the
        `how` "orphan"."""
        return ()

    def photograph(self, key: Key) -> bytes | None:
        """The encoded photograph of a row; None: it has none."""
        return None

    @property
    @abstractmethod
    def versions(self) -> dict[str, str]:
        """The engine and what else the record should name, with versions."""

    # --- what is done to it ------------------------------------------------------------------------------------------

    @abstractmethod
    def add(self, name: str, vectors: Vectors) -> list[Key]:
        """Enrol vectors under a name, as a user of the store would."""

    def rehearse(self, keys: Sequence[Key]) -> Census | None:
        """Refuse now what `delete` or a step would refuse later, beyond what `open` refused: all stores are asked
        before anything is deleted from any. Where the delete itself can be taken back, its census comes back."""
        return None

    def effects(self) -> list[Effect]:
        """What a delete sets off beside itself: triggers, rules, cascades, full-text tables."""
        return []

    def mentions(self, names: Sequence[str]) -> list[Mention]:
        """Where else in the store the names stand as text."""
        return []

    @abstractmethod
    def delete(self, keys: Sequence[Key]) -> int:
        """Delete these rows in one transaction. Returns how many there were; keys that are gone are passed over."""

    @abstractmethod
    def steps(self) -> list[Step]:
        """What must follow the delete until no byte is left, in order. Known before the delete, for the plan; empty if
        the delete itself leaves nothing."""

    def search(self, queries: Vectors, k: int) -> list[list[Hit]]:
        """The k nearest rows by cosine for each query, best first: by the store's own engine where it has one."""
        return exact_search(self, queries, k)

    # --- what is scanned ---------------------------------------------------------------------------------------------

    @abstractmethod
    def file_classes(self) -> list[FileClass]:
        """Every file in which the store may keep bytes of a row: data, logs, journals, orphans. A class without files
        is listed too. None: it is a server, whose files are not read; see `remains`."""

    def plants(self) -> Mapping[str, Vectors]:
        """Put vectors of nobody into the classes of files in which people who stay need not be, such as a log that was
        just rolled. By class; in the others people who stay serve as the control. The files are listed after it."""
        return {}

    def codes(self, vectors: Vectors) -> Sequence[bytes]:
        """How the store spells these vectors where it keeps no floats but codes, and the codebook is at hand: one bytes
        per vector. Empty: it keeps floats."""
        return ()

    def unreached(self) -> list[str]:
        """What may hold the rows and cannot be reached from here, as sentences: backups, replicas, archived logs."""
        return []

    def remains(self) -> list[Remain]:
        """What a server keeps of rows that were deleted: logs, replicas, backups. Known before the delete as well."""
        return []

    # --- the same for all --------------------------------------------------------------------------------------------

    def find(self, sought: Sought) -> Found:
        """Every item of the person, by name, by similarity, attached to these, or orphaned."""
        return find(self, sought)

    def census(self, keys: Iterable[Key] = ()) -> Census:
        """Counts and hashes: of these rows, and of everybody else. If it differs between plan and purge, the store
        drifted; if `others` differs after the purge, a neighbour was touched."""
        return census(self, keys)

    def item(self, **content: Any) -> Item:
        """An item of this store."""
        if not is_text(content["place"] + content["id"]):
            raise DamnatioError(
                f"The gallery {self.address.shown}: the row {content['id']!r} of {content['place']} has an id that "
                "is no text (UTF-8), and no plan can name it: mend it."
            )
        return Item(store=self.address.shown, **content)

    def need_write(self) -> None:
        if not self.writes:
            raise RuntimeError(f"{self.address.shown} was opened for reading")


def content_ids(names: Sequence[str], rows: Iterable[bytes]) -> list[str]:
    """Ids for rows that have none, from their names and bytes. Positions would not do: they move when another row is
    deleted. Equal rows get one id, and are deleted together."""
    found = []
    for name, row in zip(names, rows, strict=True):
        spelt = name.encode("utf-8", "surrogatepass")
        found.append(hashlib.sha256(len(spelt).to_bytes(4, "little") + spelt + row).hexdigest()[:20])
    return found


def need(package: str, extra: str) -> Any:
    """Import an engine, or say how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise DamnatioError(
            f"This gallery needs the package {package.partition('.')[0]}: pip install 'damnatio[{extra}]'."
        ) from None
