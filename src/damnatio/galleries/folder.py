"""A folder of photographs, with its thumbnails, sidecar files and caches of embeddings.

    photos/Ann Lee/1.jpg        by folder: the name is the first folder's
    photos/Ann Lee_1.jpg        by file: the name is the file's, without its number
    photos/ds_model_arcface.pkl a cache of embeddings (deepface): a gallery inside the folder

Removing files is no transaction of the file system. So the list of what goes is written first; a process that is
killed leaves the list, and whoever opens the folder for writing removes the rest.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from damnatio.galleries import STORES
from damnatio.galleries.address import Address
from damnatio.galleries.base import BLOCK, Store
from damnatio.galleries.files import BACKUPS, UNLINKED, cleared, synced
from damnatio.galleries.items import Block, FileClass, Item, Key, Kind, Place, Step, Vectors
from damnatio.galleries.npy import Npy
from damnatio.galleries.npz import Npz
from damnatio.galleries.occupied import need_alone
from damnatio.galleries.path_names import name_of
from damnatio.galleries.pickles import Pickle
from damnatio.galleries.trees import THUMBNAILS, Role, Tree
from damnatio.support.errors import DamnatioError
from damnatio.support.files import write_atomically

PLACES: dict[str, tuple[Role, Kind]] = {
    "photographs": ("photograph", "photograph"),
    "thumbnails": ("thumbnail", "thumbnail"),
    "sidecar files": ("sidecar", "embedding"),
}
CACHE = "cache "
LIST = ".damnatio-removing"
LONGEST = 1 << 28
"""bytes of the longest photograph that is read"""
NAMED = 50
"""files that one sentence names"""
LINKED = "link"
DESKTOP = (
    "Thumbnails that desktop programs keep elsewhere (~/.cache/thumbnails), trash folders and synchronised copies are "
    "not looked at."
)


@STORES.register("folder")
class Folder(Store):
    """Photographs below a folder."""

    scheme = "folder"
    aliases = ("photos",)
    options: ClassVar[Mapping[str, str]] = {}

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._caches: dict[str, Store] = {}

    @classmethod
    def likeness(cls, path: Path, head: bytes) -> int:
        return int(path.is_dir())

    @property
    def root(self) -> Path:
        assert self.address.path is not None
        return self.address.path.resolve()

    # --- opening -----------------------------------------------------------------------------------------------------

    def open(self, write: bool) -> None:
        if not self.root.is_dir():
            raise DamnatioError(f"There is no folder {self.address.path}.")
        pending = self.root / LIST
        if pending.exists() and not write:
            raise DamnatioError(f"The folder {self.root} is half removed ({LIST}): run the purge again to end it.")
        if write and not os.access(self.root, os.W_OK):
            raise DamnatioError(f"The folder {self.root} is read-only: allow writing to it.")
        self.writes = write
        self._look()
        if pending.exists():
            listed = [Key(*pair) for pair in json.loads(pending.read_text())]
            self._remove(listed)
        if not self._tree.roles:
            raise DamnatioError(f"The folder {self.root} is empty: name the folder of the photographs.")

    def _look(self) -> None:
        self._tree = Tree(self.root)
        self.close_caches()
        for path in self._tree.of("cache"):
            if (cache := _opened(self._tree.full(path), self.writes)) is not None:
                self._caches[f"{CACHE}{path}"] = cache

    def close(self) -> None:
        self.close_caches()
        self.writes = False

    def close_caches(self) -> None:
        for cache in self._caches.values():
            cache.close()
        self._caches = {}

    # --- what is in it -----------------------------------------------------------------------------------------------

    def places(self) -> list[Place]:
        found = [Place(name, kind, searched=False) for name, (role, kind) in PLACES.items() if self._tree.of(role)]
        return [*found, *(Place(name, "embedding", searched=False) for name in self._caches)]

    def blocks(self, place: str) -> Iterator[Block]:
        if place in self._caches:
            cache = self._caches[place]
            for inner in cache.places():
                yield from cache.blocks(inner.name)
            return
        paths = self._tree.of(PLACES[place][0])
        for start in range(0, len(paths), BLOCK):
            some = paths[start : start + BLOCK]
            names = [name_of(_without_thumbnails(path)) for path in some]
            flags = [(LINKED,) if self._tree.link(path, set(paths)) else () for path in some]
            yield Block(some, names, None, [_digest(self._tree.full(path)) for path in some], flags)

    def attached(self, keys: Sequence[Key]) -> Iterable[Item]:
        photographs = {key.id for key in keys if key.place == "photographs"}
        place_of = {role: name for name, (role, _) in PLACES.items()}
        for path, role in self._tree.belongings(photographs):
            place = place_of[role]
            name = name_of(_without_thumbnails(path))
            yield self.item(place=place, id=path, kind=PLACES[place][1], how="attached", name=name)

    def photograph(self, key: Key) -> bytes | None:
        if key.place not in PLACES or self._tree.roles.get(key.id) is None:
            return None
        return self._tree.full(key.id).read_bytes() if self._readable(key.id) else None

    def _readable(self, path: str) -> bool:
        full = self._tree.full(path)
        return full.is_file() and full.stat().st_size <= LONGEST

    @property
    def versions(self) -> dict[str, str]:
        return {"file system": file_system(self.root)}

    # --- what is done to it ------------------------------------------------------------------------------------------

    def add(self, name: str, vectors: Vectors) -> list[Key]:
        raise DamnatioError(f"The folder {self.root} takes photographs, not vectors.")

    def rehearse(self, keys: Sequence[Key]) -> None:
        self._allowed(keys)

    def delete(self, keys: Sequence[Key]) -> int:
        self.need_write()
        there = self._allowed(keys)
        if there:
            write_atomically(self.root / LIST, json.dumps(there))
        return self._remove(there)

    def _allowed(self, keys: Sequence[Key]) -> list[Key]:
        """Those of the rows that are there. One that may not be removed, or whose content would stay, is refused."""
        there = [key for key in dict.fromkeys(keys) if self._is_there(key)]
        files = {key.id for key in there if key.place in PLACES}
        for path in sorted(files):
            if link := self._tree.link(path, files):
                raise DamnatioError(
                    f"{self._tree.full(path)} {link.why}: its content would stay there. Decide about it, and plan "
                    "again. Nothing was deleted."
                )
            for written in (self._tree.full(path), self._tree.full(path).parent):
                if not os.access(written, os.W_OK):
                    raise DamnatioError(f"{written} is read-only, or cannot be changed (lsattr): allow writing to it.")
        need_alone(self._tree.full(path) for path in sorted(files))
        return there

    def _is_there(self, key: Key) -> bool:
        if key.place in PLACES:
            return self._tree.roles.get(key.id) == PLACES[key.place][0]
        return key.place in self._caches

    def _remove(self, keys: Sequence[Key]) -> int:
        """Do what the list says, and remove the list."""
        gone, folders = 0, set[Path]()
        for place, cache in self._caches.items():
            wanted = [Key(inner.name, key.id) for key in keys if key.place == place for inner in cache.places()]
            gone += cache.delete(wanted) if wanted else 0
        for key in keys:
            path = self.root / key.id.lstrip("/")
            if key.place in PLACES and ".." not in path.parts and os.path.lexists(path):
                if not path.is_symlink():
                    with path.open("r+b", buffering=0) as file:
                        cleared(file)
                path.unlink()
                gone += 1
                folders.add(path.parent)
        for folder in folders:
            synced(folder)
        (self.root / LIST).unlink(missing_ok=True)
        synced(self.root)
        self._look()
        return gone

    def steps(self) -> list[Step]:
        """Folders that are empty now still say the name."""

        def run() -> None:
            for folder, _, _ in os.walk(self.root, topdown=False):
                if Path(folder) != self.root and not os.listdir(folder):
                    os.rmdir(folder)
            self._look()

        inner = [
            Step(f"{place}: {step.name}", step.command, step.run, step.locks, step.needs, step.folder)
            for place, cache in self._caches.items()
            for step in cache.steps()
        ]
        return [*inner, Step("empty folders", f"find {self.root} -mindepth 1 -type d -empty -delete", run)]

    # --- what is scanned ---------------------------------------------------------------------------------------------

    def file_classes(self) -> list[FileClass]:
        caches = [file for cache in self._caches.values() for one in cache.file_classes() for file in one.files]
        inside = {os.path.relpath(file, self.root) for file in caches}
        rest = [path for role in ("sidecar", "cache", "other") for path in self._tree.of(role) if path not in inside]
        return [
            FileClass("photographs", self._full("photograph"), holds=("pictures",)),
            FileClass("thumbnails", self._full("thumbnail"), holds=("pictures",)),
            FileClass("caches of embeddings", caches),
            FileClass("other files", [self._tree.full(path) for path in rest]),
        ]

    def _full(self, role: Role) -> list[Path]:
        return [path for one in self._tree.of(role) if (path := self._tree.full(one)).is_file()]

    def unreached(self) -> list[str]:
        links = [f"{path} is a link to another folder, and was not followed." for path in self._tree.not_followed]
        names = [f"{path} has no name in UTF-8, and was left out: rename it." for path in self._tree.unnamed]
        others = [*self._tree.of("other"), *(path for path in self._tree.of("photograph") if not self._readable(path))]
        if others:
            more = f" and {len(others) - NAMED:,} more" if len(others) > NAMED else ""
            names.append(f"No photographs that can be looked at, only scanned: {', '.join(others[:NAMED])}{more}.")
        return [*links, *names, UNLINKED, BACKUPS, DESKTOP]


def _opened(path: Path, write: bool) -> Store | None:
    """A cache of embeddings as a gallery; None if it is none."""
    with path.open("rb") as file:
        head = file.read(4096)
    for kind in (Npz, Npy, Pickle):
        if kind.likeness(path, head) == 2:
            cache = kind(Address(kind.scheme, path.absolute()))
            try:
                cache.open(False)
            except DamnatioError:  # an array that is no gallery; it is scanned as a file
                return None
            if write:
                cache.open(True)
            return cache
    return None


def _without_thumbnails(path: str) -> str:
    return "/".join(part for part in path.split("/") if part.lower() not in THUMBNAILS)


def _digest(path: Path) -> bytes:
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def file_system(path: Path) -> str:
    """The kind of file system that holds a path, such as ext4."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    holding = [(len(where), kind) for where, kind in mounts if path.is_relative_to(where.replace("\\040", " "))]
    return max(holding, default=(0, "unknown"))[1]
