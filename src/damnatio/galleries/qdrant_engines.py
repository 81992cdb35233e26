"""The two engines that keep collections of Qdrant in a folder.

Edge: Qdrant's own storage engine, which a server also uses: shards with segments and a write-ahead log (qdrant-edge-py).
Local: the local mode of qdrant-client: a SQLite file of pickled points.
"""

import json
import os
import pickle
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

from damnatio.galleries.base import need
from damnatio.galleries.items import Vectors
from damnatio.support.errors import DamnatioError
from damnatio.support.files import write_atomically

READ = 1000
"""points that are read in one request"""
PLANTED = 20
SETTINGS, KEPT = "edge_config.json", ".edge_config.json.damnatio-kept"
PASSING = 8 << 20
"""bytes of an operation that passes the log"""
ROUNDS = 400
ACKNOWLEDGED = "first-index"
"""a file of the log that holds one number"""
NOBODY = (1 << 64) - 2
"""the id of no point"""
SNAPSHOT = ".snapshot"
VACUUM = {"deleted_threshold": 1e-12, "vacuum_min_vector_number": 1}
HARMLESS = {("uuid", "UUID"), ("uuid", "SafeUUID")}
"""what a point may be made of, besides the models of qdrant-client"""
Run = Callable[[], None]
RunStep = tuple[str, str, Run, int]
"""name, command, what is done, bytes of disk that it needs"""


@dataclass(frozen=True)
class Point:
    id: int | str
    payload: dict[str, Any]
    vectors: dict[str, Any] = field(repr=False)
    """by name; "" is the name of an unnamed one"""


class Engine(ABC):
    """One collection."""

    clustered = False
    """whether it may have replicas elsewhere"""

    def __init__(self, path: Path, collection: str) -> None:
        self.path, self.collection = path, collection

    @abstractmethod
    def open(self, write: bool) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def points(self) -> Iterator[Point]: ...

    @abstractmethod
    def add(self, points: Sequence[Point]) -> None: ...

    @abstractmethod
    def delete(self, ids: Sequence[int | str]) -> int: ...

    @abstractmethod
    def steps(self, allowed: Run) -> list[RunStep]: ...

    @abstractmethod
    def files(self) -> dict[str, list[Path]]: ...

    @property
    @abstractmethod
    def versions(self) -> dict[str, str]: ...

    def plant(self, name: str, vectors: Vectors) -> bool:
        """Write vectors of nobody to the log."""
        return False


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


def _snapshots(folders: Sequence[Path]) -> list[Path]:
    return sorted({file for folder in folders if folder.is_dir() for file in folder.rglob(f"*{SNAPSHOT}")})


# --- Qdrant's own storage --------------------------------------------------------------------------------------------


class Edge(Engine):
    """Shards of one collection, each opened by Qdrant Edge. It locks them: a running server must be stopped."""

    def __init__(self, path: Path, collection: str, shards: Sequence[Path], clustered: bool) -> None:
        super().__init__(path, collection)
        self._folders, self.clustered = list(shards), clustered
        self._shards: list[Any] = []
        self._ours: list[Path] = []
        """settings files that Edge wrote where there was none"""

    def open(self, write: bool) -> None:
        self._edge = need("qdrant_edge", "qdrant")
        for folder in self._folders:
            if write:
                _settings_back(folder)
            elif (folder / KEPT).exists():
                raise DamnatioError(f"The gallery {folder} is half purged ({KEPT}): run the purge again to end it.")
            if not (folder / SETTINGS).exists():
                self._ours.append(folder / SETTINGS)
            self._shards.append(self._load(folder))

    def _load(self, folder: Path) -> Any:
        try:
            return self._edge.EdgeShard.load(str(folder))
        except Exception as error:
            said = " ".join(str(error).split())
            if "WouldBlock" in said:
                raise DamnatioError(
                    f"The gallery {folder} is open in another process: stop the server or program that uses it."
                ) from error
            raise DamnatioError(
                f"The gallery {folder} cannot be read by qdrant-edge-py {version('qdrant-edge-py')}: {said[:200]}"
            ) from error

    def close(self) -> None:
        for shard in self._shards:
            shard.close()
        self._shards = []
        for file in self._ours:
            file.unlink(missing_ok=True)
        self._ours = []

    def points(self) -> Iterator[Point]:
        for shard in self._shards:
            offset: Any = None
            while True:
                request = self._edge.ScrollRequest(offset=offset, limit=READ, with_payload=True, with_vector=True)
                records, offset = shard.scroll(request)
                for record in records:
                    yield _point(record)
                if offset is None:
                    break

    def add(self, points: Sequence[Point]) -> None:
        made = [self._edge.Point(one.id, _spelt(one.vectors), one.payload) for one in points]
        self._shards[0].update(self._edge.UpdateOperation.upsert_points(made))
        self._shards[0].flush()

    def delete(self, ids: Sequence[int | str]) -> int:
        deleted = 0
        for shard in self._shards:
            there = [record.id for record in shard.retrieve(list(ids), with_payload=False, with_vector=False)]
            if there:
                shard.update(self._edge.UpdateOperation.delete_points(there))
                shard.flush()
            deleted += len(there)
        return deleted

    def steps(self, allowed: Run) -> list[RunStep]:
        def vacuum() -> None:
            allowed()
            for number in range(len(self._folders)):
                self._vacuum(number)

        def passed() -> None:
            allowed()
            for number in range(len(self._folders)):
                self._pass_log(number)

        size = sum(file.stat().st_blocks * 512 for file in self.files()["segments"])
        log = sum(file.stat().st_size for file in self.files()["write-ahead log"])
        return [
            ("vacuum", f"optimize with {json.dumps(VACUUM)}", vacuum, size),
            ("log", "write operations that change nothing until every old file of the log is gone", passed, 2 * log),
        ]

    def _vacuum(self, number: int) -> None:
        """Rebuild every segment that holds a deleted point. The usual thresholds would keep most of them, so the
        settings of the shard are changed for as long as it takes."""
        folder = self._folders[number]
        self._shards[number].close()
        settings = folder / SETTINGS
        given = settings.read_bytes()
        write_atomically(folder / KEPT, given)
        content = json.loads(given)
        write_atomically(
            settings, json.dumps({**content, "optimizers": {**(content.get("optimizers") or {}), **VACUUM}})
        )
        shard = self._load(folder)
        shard.optimize()
        shard.flush()
        shard.close()
        _settings_back(folder)
        self._shards[number] = self._load(folder)

    def _pass_log(self, number: int) -> None:
        shard, folder = self._shards[number], self._folders[number] / "wal"
        nobody = self._edge.Filter(must=[self._edge.HasIdCondition({NOBODY})])
        operation = self._edge.UpdateOperation.set_payload_by_filter
        with ExitStack() as held:
            files = (file for file in folder.iterdir() if file.is_file() and file.name != ACKNOWLEDGED)
            old = [held.enter_context(file.open("rb")) for file in files]  # an open file has no name once it is removed
            for _ in range(ROUNDS):
                shard.update(operation(nobody, {"damnatio": "0" * PASSING}))
                shard.flush()
                if not any(os.fstat(file.fileno()).st_nlink for file in old):
                    return
        raise DamnatioError(f"The write-ahead log {folder} keeps its old files, whatever is written to it.")

    def plant(self, name: str, vectors: Vectors) -> bool:
        """An update of a point that is not there is logged, then refused: no point is made."""
        for shard in self._shards:
            for vector in vectors:
                given = _spelt({name: [float(value) for value in vector]})
                try:
                    shard.update(self._edge.UpdateOperation.update_vectors([self._edge.PointVectors(NOBODY, given)]))
                except Exception as error:
                    if "No point" not in str(error):
                        raise
            shard.flush()
        return True

    def files(self) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {"segments": [], "write-ahead log": []}
        for folder in self._folders:
            for file in sorted(folder.rglob("*")):
                if file.is_file() and not file.name.endswith(SNAPSHOT):
                    in_log = file.relative_to(folder).parts[0] == "wal"
                    found["write-ahead log" if in_log else "segments"].append(file)  # settings go with the segments
        beside = [self.path, *([self.path.parent.parent / "snapshots" / self.collection] if self.clustered else [])]
        return {**found, "snapshots": _snapshots(beside)}

    @property
    def versions(self) -> dict[str, str]:
        return {"qdrant-edge-py": version("qdrant-edge-py")}


def _settings_back(folder: Path) -> None:
    """Put back the settings that a vacuum changed; nothing where none is under way."""
    if (folder / KEPT).exists():
        (folder / KEPT).replace(folder / SETTINGS)


def _point(record: Any) -> Point:
    vectors = record.vector if record.vector is not None else {}
    return Point(record.id, dict(record.payload or {}), dict(vectors) if isinstance(vectors, dict) else {"": vectors})


def _spelt(vectors: dict[str, Any]) -> Any:
    return vectors[""] if set(vectors) == {""} else vectors


# --- the local mode of qdrant-client ---------------------------------------------------------------------------------


class Local(Engine):
    """A SQLite file of pickled points, which the client holds in memory as a whole."""

    def __init__(self, path: Path, collection: str) -> None:
        super().__init__(path, collection)
        self._file = path / "collection" / collection / "storage.sqlite"
        self._client: Any = None

    def open(self, write: bool) -> None:
        qdrant = need("qdrant_client", "qdrant")
        _need_harmless(self._file)
        try:
            self._client = qdrant.QdrantClient(path=str(self.path))
        except RuntimeError as error:
            raise DamnatioError(f"The gallery {self.path} is open in another process: stop that first.") from error
        except Exception as error:
            said = " ".join(str(error).split())[:200]
            raise DamnatioError(
                f"The gallery {self.path} cannot be read by qdrant-client {version('qdrant-client')}: {said}"
            ) from error

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def points(self) -> Iterator[Point]:
        offset: Any = None
        while True:
            records, offset = self._client.scroll(
                self.collection, limit=READ, offset=offset, with_payload=True, with_vectors=True
            )
            for record in records:
                yield _point(record)
            if offset is None:
                return

    def add(self, points: Sequence[Point]) -> None:
        models = need("qdrant_client.models", "qdrant")
        made = [models.PointStruct(id=one.id, vector=_spelt(one.vectors), payload=one.payload) for one in points]
        self._client.upsert(self.collection, made)

    def delete(self, ids: Sequence[int | str]) -> int:
        there = [record.id for record in self._client.retrieve(self.collection, list(ids), with_payload=False)]
        if there:
            self._client.delete(self.collection, there)
        return len(there)

    def steps(self, allowed: Run) -> list[RunStep]:
        def vacuum() -> None:
            allowed()
            self.close()
            with closing(sqlite3.connect(self._file)) as base:
                base.execute("VACUUM")
            self.open(write=True)

        return [("vacuum", f"sqlite3 {self._file} VACUUM", vacuum, 2 * self._file.stat().st_size)]

    def files(self) -> dict[str, list[Path]]:
        folder = self._file.parent
        inside = sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.endswith(SNAPSHOT))
        return {"points": inside, "snapshots": _snapshots([self.path])}

    @property
    def versions(self) -> dict[str, str]:
        return {"qdrant-client": version("qdrant-client"), "sqlite": sqlite3.sqlite_version}


class _Restricted(pickle.Unpickler):
    """Makes the models of qdrant-client and nothing else: a pickle may name any function to be called."""

    def find_class(self, module: str, name: str) -> Any:
        if (module.startswith("qdrant_client.http.models") and "." not in name) or (module, name) in HARMLESS:
            return super().find_class(module, name)
        raise DamnatioError(f"it asks for {module}.{name}")


def _need_harmless(file: Path) -> None:
    """Read every pickle with the restricted reader before the client, which restricts nothing, reads them."""
    if not file.is_file():
        raise DamnatioError(f"The gallery {file} is missing.")
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as base:
            for (content,) in base.execute("SELECT point FROM points"):
                _Restricted(BytesIO(content)).load()
    except sqlite3.Error as error:
        raise DamnatioError(f"The gallery {file} cannot be read: {error}.") from error
    except DamnatioError as error:
        raise DamnatioError(f"The gallery {file} holds a pickle that no client of Qdrant wrote: {error}.") from error
    except Exception as error:
        raise DamnatioError(
            f"The gallery {file} holds a point that cannot be read ({type(error).__name__})."
        ) from error
