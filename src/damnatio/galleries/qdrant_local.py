"""The local mode of qdrant-client: a SQLite file of pickled points, which the client holds in memory as a whole."""

import pickle
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

from damnatio.galleries.base import need
from damnatio.galleries.qdrant_base import (
    READ,
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

HARMLESS = {("uuid", "UUID"), ("uuid", "SafeUUID")}
"""what a point may be made of, besides the models of qdrant-client"""


class Local(Engine):
    """One collection of a folder."""

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
                yield point_of(record)
            if offset is None:
                return

    def add(self, points: Sequence[Point]) -> None:
        models = need("qdrant_client.models", "qdrant")
        made = [models.PointStruct(id=one.id, vector=spelt(one.vectors), payload=one.payload) for one in points]
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
        return {"points": inside, SNAPSHOTS: snapshots([self.path])}

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
