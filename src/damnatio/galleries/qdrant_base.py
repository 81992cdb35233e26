"""What Qdrant's two engines share: a collection as the store sees it. `qdrant_shards` is Qdrant's own storage engine,
which a server also uses; `qdrant_local` is the local mode of qdrant-client."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from damnatio.galleries.items import Vectors

READ = 1000
"""points that are read in one request"""
SNAPSHOT = ".snapshot"
SEGMENTS, LOG, SNAPSHOTS = "segments", "write-ahead log", "snapshots"
"""classes of files"""
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


def snapshots(folders: Sequence[Path]) -> list[Path]:
    return sorted({file for folder in folders if folder.is_dir() for file in folder.rglob(f"*{SNAPSHOT}")})


def point_of(record: Any) -> Point:
    vectors = record.vector if record.vector is not None else {}
    return Point(record.id, dict(record.payload or {}), dict(vectors) if isinstance(vectors, dict) else {"": vectors})


def spelt(vectors: dict[str, Any]) -> Any:
    return vectors[""] if set(vectors) == {""} else vectors
