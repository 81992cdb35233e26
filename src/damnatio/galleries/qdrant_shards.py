"""Shards of Qdrant's own storage engine, opened by Qdrant Edge (qdrant-edge-py): segments and a write-ahead log.

Edge does not replay the log. A server that was killed may have logged what its segments do not hold yet: start and stop
it once more before a purge.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

from damnatio.galleries.base import need
from damnatio.galleries.items import Vectors
from damnatio.galleries.qdrant_base import (
    LOG,
    READ,
    SEGMENTS,
    SNAPSHOT,
    SNAPSHOTS,
    Engine,
    Point,
    Run,
    RunStep,
    point_of,
    snapshots,
    spelt,
)
from damnatio.support.errors import DamnatioError
from damnatio.support.files import write_atomically

SETTINGS, KEPT = "edge_config.json", ".edge_config.json.damnatio-kept"
PASSING = 8 << 20
"""bytes of an operation that passes the log"""
ROUNDS = 400
ACKNOWLEDGED = "first-index"
"""a file of the log that holds one number"""
NOBODY = (1 << 64) - 2
"""the id of no point"""
VACUUM = {"deleted_threshold": 1e-12, "vacuum_min_vector_number": 1}


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
                    yield point_of(record)
                if offset is None:
                    break

    def add(self, points: Sequence[Point]) -> None:
        made = [self._edge.Point(one.id, spelt(one.vectors), one.payload) for one in points]
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

        size = sum(file.stat().st_blocks * 512 for file in self.files()[SEGMENTS])
        log = sum(file.stat().st_size for file in self.files()[LOG])
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
                given = spelt({name: [float(value) for value in vector]})
                try:
                    shard.update(self._edge.UpdateOperation.update_vectors([self._edge.PointVectors(NOBODY, given)]))
                except Exception as error:
                    if "No point" not in str(error):
                        raise
            shard.flush()
        return True

    def files(self) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {SEGMENTS: [], LOG: []}
        for folder in self._folders:
            for file in sorted(folder.rglob("*")):
                if file.is_file() and not file.name.endswith(SNAPSHOT):
                    in_log = file.relative_to(folder).parts[0] == "wal"
                    found[LOG if in_log else SEGMENTS].append(file)  # settings go with the segments
        beside = [self.path, *([self.path.parent.parent / "snapshots" / self.collection] if self.clustered else [])]
        return {**found, SNAPSHOTS: snapshots(beside)}

    @property
    def versions(self) -> dict[str, str]:
        return {"qdrant-edge-py": version("qdrant-edge-py")}


def _settings_back(folder: Path) -> None:
    """Put back the settings that a vacuum changed; nothing where none is under way."""
    if (folder / KEPT).exists():
        (folder / KEPT).replace(folder / SETTINGS)
