"""Templates in a folder of Qdrant.

qdrant:storage?collection=faces&name=person        (a server's storage; the server must be stopped)
qdrant:shard?name=person                           (a shard of Qdrant Edge, or an unpacked snapshot)
qdrant:folder?collection=faces&name=person         (the local mode of qdrant-client)

A delete only marks the points. The segments are then rebuilt without them, and the write-ahead log, which holds every
vector as it was sent, is passed by operations that change nothing. Snapshots (`*.snapshot`) are backups: they are
scanned, and not changed. See `qdrant_base` for the two engines.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID, uuid4

import numpy as np

from damnatio.galleries import STORES
from damnatio.galleries.base import BLOCK, Store
from damnatio.galleries.files import BACKUPS, ENGINE
from damnatio.galleries.folders import need_own_files
from damnatio.galleries.items import Block, FileClass, Key, Place, Step, Vectors
from damnatio.galleries.qdrant_base import LOG, Engine, Point
from damnatio.galleries.qdrant_local import Local
from damnatio.galleries.qdrant_shards import Edge
from damnatio.support.errors import DamnatioError

PLANTED = 20
"""vectors of nobody that are written to the log as a control"""


@STORES.register("qdrant")
class Qdrant(Store):
    """One collection in a folder."""

    scheme = "qdrant"
    options: ClassVar[Mapping[str, str]] = {
        "collection": "the collection; not needed where there is one only",
        "name": "the key of the payload that holds the name (name)",
        "vector": "the vector, where a point has several",
    }

    @classmethod
    def likeness(cls, path: Path, head: bytes) -> int:
        return 2 if path.is_dir() and is_qdrant(path) else 0

    def open(self, write: bool) -> None:
        assert self.address.path is not None
        if not self.address.path.is_dir():
            raise DamnatioError(f"There is no folder {self.address.path}: name the storage folder of Qdrant.")
        self._engine: Engine = engine_of(self.address.path.resolve(), self.address.option("collection"))
        if write:
            need_own_files(self._engine.path)
        self._engine.open(write)
        self._place = self._engine.collection
        self._name = self.address.option("name", "name")
        self._check(next(self._engine.points(), None))
        self.writes = write

    def close(self) -> None:
        self.writes = False
        if engine := getattr(self, "_engine", None):
            engine.close()

    def _check(self, first: Point | None) -> None:
        """Look at one point, so that a wrong vector or name is known before anything is done."""
        self._vector = self.address.option("vector")
        if first is None:
            return
        known = sorted(first.vectors)
        if not self.address.option("vector") and len(known) == 1:
            self._vector = known[0]
        if self._vector not in first.vectors:
            shown = ", ".join(known) or "none"
            raise DamnatioError(f"The gallery {self.address.shown}: choose a vector with ?vector=...; it has {shown}.")
        if self._name not in first.payload:
            shown = ", ".join(sorted(first.payload)) or "no keys"
            raise DamnatioError(
                f"The gallery {self.address.shown}: point {first.id} has no `{self._name}`; its payload has {shown}: "
                "name the key with ?name=..."
            )

    def places(self) -> list[Place]:
        return [Place(self._place, "template")]

    def blocks(self, place: str) -> Iterator[Block]:
        points = self._engine.points()
        while batch := list(islice(points, BLOCK)):
            for held in (True, False):
                rows = [point for point in batch if (self._vector in point.vectors) == held]
                if rows:
                    yield self._block(rows, held)

    def _block(self, rows: Sequence[Point], held: bool) -> Block:
        return Block(
            ids=[str(point.id) for point in rows],
            names=[str(point.payload.get(self._name, "")) for point in rows],
            vectors=np.array([point.vectors[self._vector] for point in rows], dtype=np.float32) if held else None,
            contents=[self._rest(point) for point in rows],
        )

    def _rest(self, point: Point) -> bytes:
        """The hash of what a point holds besides its vector and name."""
        payload = {key: value for key, value in point.payload.items() if key != self._name}
        vectors = {key: value for key, value in point.vectors.items() if key != self._vector}
        return sha256(json.dumps([payload, vectors], sort_keys=True, default=str).encode()).digest()

    @property
    def versions(self) -> dict[str, str]:
        return self._engine.versions

    # --- changes -----------------------------------------------------------------------------------------------------

    def add(self, name: str, vectors: Vectors) -> list[Key]:
        self.need_write()
        ids = [str(uuid4()) for _ in vectors]
        self._engine.add(
            [
                Point(id, {self._name: name}, {self._vector: [float(value) for value in vector]})
                for id, vector in zip(ids, vectors, strict=True)
            ]
        )
        return [Key(self._place, id) for id in ids]

    def delete(self, keys: Sequence[Key]) -> int:
        self.need_write()
        return self._engine.delete([_point_id(key.id) for key in keys])

    def steps(self) -> list[Step]:
        return [
            Step(
                name, command, run, locks="the collection: the server is stopped", needs=needs, folder=self._engine.path
            )
            for name, command, run, needs in self._engine.steps(self.need_write)
        ]

    # --- files -------------------------------------------------------------------------------------------------------

    def file_classes(self) -> list[FileClass]:
        return [FileClass(name, files) for name, files in self._engine.files().items()]

    def plants(self) -> Mapping[str, Vectors]:
        """After its passing the log holds operations that name nobody."""
        first: Any = next(self._engine.points(), None) if self.writes else None
        if first is None:
            return {}
        made = np.random.default_rng().standard_normal((PLANTED, len(first.vectors[self._vector])))
        units = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
        return {LOG: units} if self._engine.plant(self._vector, units) else {}

    def unreached(self) -> list[str]:
        replicas = "Other nodes of a cluster hold replicas of the shards: each has a folder of its own."
        return [*([replicas] if self._engine.clustered else []), ENGINE, BACKUPS]


def _point_id(text: str) -> int | str:
    return int(text) if text.isdigit() else str(UUID(text))


# --- which one -------------------------------------------------------------------------------------------------------


def is_qdrant(path: Path) -> bool:
    return bool(_shards(path) or _in_server(path) or _in_local(path))


def engine_of(path: Path, collection: str) -> Engine:
    """The engine of a collection in a folder: a shard, a collection, a server's storage, or the local mode."""
    if shards := _shards(path):
        return Edge(path, collection or path.name, shards, clustered=shards != [path])
    server, local = _in_server(path), _in_local(path)
    known = sorted(server or local)
    if not known:
        raise DamnatioError(
            f"The gallery {path} is no folder of Qdrant: it holds no `collections`, no shard with `segments`, and no "
            "`meta.json`."
        )
    chosen = collection or (known[0] if len(known) == 1 else "")
    if chosen not in known:
        wrong = f"has no collection `{collection}`" if collection else "has several collections"
        raise DamnatioError(f"The gallery {path} {wrong}: choose one with ?collection=... of {', '.join(known)}.")
    if server:
        return Edge(path / "collections" / chosen, chosen, server[chosen], clustered=True)
    return Local(path, chosen)


def _shards(path: Path) -> list[Path]:
    """The folder itself where it is a shard, else the numbered folders in it that are."""
    if (path / "segments").is_dir():
        return [path]
    found = (one for one in path.iterdir() if one.name.isdigit() and (one / "segments").is_dir())
    return sorted(found, key=lambda one: int(one.name))


def _in_server(path: Path) -> dict[str, list[Path]]:
    inside = path / "collections"
    folders = [one for one in inside.iterdir() if one.is_dir()] if inside.is_dir() else []
    return {one.name: shards for one in folders if (shards := _shards(one))}


def _in_local(path: Path) -> list[str]:
    if not (path / "meta.json").is_file():
        return []
    try:
        return sorted(json.loads((path / "meta.json").read_text())["collections"])
    except (ValueError, KeyError, TypeError) as error:
        raise DamnatioError(f"The gallery {path}: its meta.json cannot be read.") from error
