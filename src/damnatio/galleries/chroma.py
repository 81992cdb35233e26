"""Templates in a collection of Chroma.

chroma:folder?collection=faces&name=person

Chroma keeps new rows in a queue in its SQLite file, moves them to an index (hnswlib, in a folder of its own) now and
then, and only marks what is deleted in either. Nothing that it offers clears them, and a dropped collection leaves its
folder behind. A collection that is built anew is normalised anew as well, which changes the bytes of everybody else. So
the vectors that no row has any longer are overwritten where they are, see `chroma_index`.
"""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID, uuid4

import numpy as np

from damnatio.galleries import STORES
from damnatio.galleries.base import Store, need
from damnatio.galleries.chroma_index import clear_unused, elements, overwrite_dead
from damnatio.galleries.files import BACKUPS, ENGINE
from damnatio.galleries.folders import files_in, need_own_files
from damnatio.galleries.items import Block, FileClass, Key, Place, Step, Vectors
from damnatio.galleries.occupied import need_alone
from damnatio.support.errors import DamnatioError

BASE = "chroma.sqlite3"
ROWS = 1000
"""rows that are read in one request"""
KNOWN = {"sysdb": 10, "metadb": 6, "embeddings_queue": 2}
"""the newest layout of the SQLite file that this was tried with, by part"""
CONTROL, PLANTED = "damnatio_control", 20
IN_BASE = "rows and queue"


@STORES.register("chroma")
class Chroma(Store):
    """One collection in a folder of Chroma."""

    scheme = "chroma"
    aliases = ("chromadb",)
    options: ClassVar[Mapping[str, str]] = {
        "collection": "the collection; not needed where there is one only",
        "name": "the key of the metadata that holds the name (name)",
    }

    @classmethod
    def likeness(cls, path: Path, head: bytes) -> int:
        return 2 if (path / BASE).is_file() else 0

    def open(self, write: bool) -> None:
        self._engine = need("chromadb", "chroma")
        self._client: Any = None
        assert self.address.path is not None
        self._path = self.address.path.resolve()
        if not (self._path / BASE).is_file():
            raise DamnatioError(f"The gallery {self._path} is no folder of Chroma: it holds no {BASE}.")
        self._check_layout()
        if write:
            need_own_files(self._path)
            need_alone([self._path / BASE, *self._path.glob("*/data_level0.bin")])
            self._sql(f"DROP TABLE IF EXISTS {CONTROL}")
        self._name = self.address.option("name", "name")
        self._collection = self._chosen()
        self._check_name()
        self.writes = write

    def close(self) -> None:
        if self.writes:
            self._sql(f"DROP TABLE IF EXISTS {CONTROL}")
        self.writes = False
        self._let_go()

    def _check_layout(self) -> None:
        try:
            found = dict(self._sql("SELECT dir, max(version) FROM migrations GROUP BY dir"))
        except sqlite3.Error as error:
            raise DamnatioError(f"The gallery {self._path} cannot be read: {error}.") from error
        newer = next((part for part, number in found.items() if number > KNOWN.get(part, 0)), None)
        if newer is not None:
            raise DamnatioError(
                f"The gallery {self._path} was written by a newer Chroma ({newer} {found[newer]}; the newest that is "
                f"known is {KNOWN.get(newer, 0)}): a newer damnatio is needed."
            )

    def _chosen(self) -> str:
        known = sorted(one.name for one in self._asked(lambda: self._opened().list_collections()))
        wanted = self.address.option("collection")
        chosen = wanted or (known[0] if len(known) == 1 else "")
        if chosen not in known:
            wrong = f"has no collection `{wanted}`" if wanted else "has several collections" if known else "is empty"
            raise DamnatioError(
                f"The gallery {self._path} {wrong}: choose one with ?collection=... of {', '.join(known)}."
            )
        return chosen

    def _check_name(self) -> None:
        first = self._asked(lambda: self._held().get(limit=1, include=["metadatas"]))
        keys = sorted((first["metadatas"][0] or {}) if first["ids"] else [self._name])
        if self._name not in keys:
            raise DamnatioError(
                f"The gallery {self.address.shown}: the row {first['ids'][0]} has no `{self._name}`; its metadata has "
                f"{', '.join(keys) or 'no keys'}: name the key with ?name=..."
            )

    def places(self) -> list[Place]:
        return [Place(self._collection, "template")]

    @property
    def versions(self) -> dict[str, str]:
        return {"chromadb": str(self._engine.__version__), "sqlite": sqlite3.sqlite_version}

    # --- rows --------------------------------------------------------------------------------------------------------

    def blocks(self, place: str) -> Iterator[Block]:
        first, wanted = 0, ["embeddings", "metadatas", "documents", "uris"]
        while True:
            rows = self._asked(self._held().get, limit=ROWS, offset=first, include=wanted)
            if not rows["ids"]:
                return
            about = [dict(one or {}) for one in rows["metadatas"]]
            yield Block(
                ids=list(rows["ids"]),
                names=[str(one.pop(self._name, "")) for one in about],
                vectors=np.asarray(rows["embeddings"], dtype=np.float32),
                contents=[
                    sha256(json.dumps(rest, sort_keys=True, default=repr).encode()).digest()
                    for rest in zip(about, rows["documents"], rows["uris"] or [None] * len(about), strict=True)
                ],
            )
            first += len(rows["ids"])

    # --- changes -----------------------------------------------------------------------------------------------------

    def add(self, name: str, vectors: Vectors) -> list[Key]:
        self.need_write()
        ids = [str(uuid4()) for _ in vectors]
        about = [{self._name: name} for _ in ids]
        rows = vectors.astype(np.float32)
        self._asked(lambda: self._held().add(ids=ids, embeddings=rows, metadatas=about))
        return [Key(self._collection, id) for id in ids]

    def delete(self, keys: Sequence[Key]) -> int:
        self.need_write()
        ids = list(dict.fromkeys(key.id for key in keys))
        there = list(self._asked(lambda: self._held().get(ids=ids, include=[]))["ids"]) if ids else []
        if there:
            self._asked(lambda: self._held().delete(ids=there))
        return len(there)

    def steps(self) -> list[Step]:
        size = (self._path / BASE).stat().st_size
        folder = self._index_folder()
        return [
            Step("overwrite", f"overwrite the deleted vectors in {BASE} and {folder.name}", self._overwrite, "Chroma"),
            Step("vacuum", f"sqlite3 {self._path / BASE} VACUUM", self._vacuum, "Chroma", 2 * size, self._path),
            Step("orphan folders", "rm -r the folders of collections that were dropped", self._remove_orphans),
        ]

    def _overwrite(self) -> None:
        self.need_write()
        alive, living = set[str](), set[bytes]()
        for block in self.blocks(self._collection):
            alive.update(block.ids)
            assert block.vectors is not None
            living.update(sha256(row.tobytes()).digest() for row in block.vectors)
        folder, topic = self._index_folder(), self._topic()
        self._let_go()
        queued = {id for (id,) in self._sql("SELECT id FROM embeddings_queue WHERE topic = ?", (topic,))}
        overwrite_dead(folder, living, len(alive - queued))
        dead = [(id, topic) for id in queued - alive]
        with closing(sqlite3.connect(self._path / BASE)) as base, base:
            # A record that is replayed needs a vector of its length: it is added, then deleted again.
            base.executemany(
                "UPDATE embeddings_queue SET vector = zeroblob(length(vector)), metadata = NULL "
                "WHERE id = ? AND topic = ? AND vector IS NOT NULL",
                dead,
            )

    def _vacuum(self) -> None:
        self.need_write()
        self._let_go()
        self._sql("VACUUM")

    def _remove_orphans(self) -> None:
        self.need_write()
        for folder in self._orphan_folders():
            shutil.rmtree(folder)

    # --- files -------------------------------------------------------------------------------------------------------

    def file_classes(self) -> list[FileClass]:
        self._let_go()
        base = [file for file in sorted(self._path.glob(f"{BASE}*")) if file.is_file()]
        index = sorted(file for file in self._index_folder().glob("*") if file.is_file())
        if not elements(self._index_folder()):  # an index without rows is a header
            base, index = [*base, *index], []
        orphans = [file for one in self._orphan_folders() for file in files_in(one)]
        return [FileClass(IN_BASE, base), FileClass("index", index), FileClass("orphan folders", orphans)]

    def plants(self) -> Mapping[str, Vectors]:
        """Only rows that were not moved to the index yet are in the SQLite file: it may hold nobody."""
        if not self.writes:
            return {}
        self._let_go()
        ((width,),) = self._sql("SELECT dimension FROM collections WHERE name = ?", (self._collection,))
        made = np.random.default_rng().standard_normal((PLANTED, width or 0)).astype(np.float32)
        with closing(sqlite3.connect(self._path / BASE)) as base, base:
            base.execute(f"CREATE TABLE IF NOT EXISTS {CONTROL} (vector BLOB)")
            base.executemany(f"INSERT INTO {CONTROL} VALUES (?)", [(row.tobytes(),) for row in made])
        return {IN_BASE: made}

    def unreached(self) -> list[str]:
        return [ENGINE, BACKUPS]

    def _index_folder(self) -> Path:
        found = self._sql(
            "SELECT segments.id FROM segments JOIN collections ON segments.collection = collections.id "
            "WHERE collections.name = ? AND segments.scope = 'VECTOR'",
            (self._collection,),
        )
        return self._path / str(UUID(found[0][0]))

    def _topic(self) -> str:
        """The topic of the collection in the queue; it ends with the collection's id."""
        (id,) = self._sql("SELECT id FROM collections WHERE name = ?", (self._collection,))[0]
        found = self._sql("SELECT DISTINCT topic FROM embeddings_queue WHERE topic LIKE ?", (f"%/{id}",))
        return str(found[0][0]) if found else ""

    def _orphan_folders(self) -> list[Path]:
        """Folders of indexes that no collection has."""
        known = {id for (id,) in self._sql("SELECT id FROM segments")}
        return [
            folder
            for folder in sorted(self._path.iterdir())
            if folder.is_dir() and not folder.is_symlink() and _is_id(folder.name) and folder.name not in known
        ]

    # --- the engine --------------------------------------------------------------------------------------------------

    def _opened(self) -> Any:
        if self._client is None:
            settings = self._engine.config.Settings(anonymized_telemetry=False)
            self._client = self._engine.PersistentClient(str(self._path), settings)
        return self._client

    def _held(self) -> Any:
        return self._opened().get_collection(self._collection, embedding_function=None)

    def _let_go(self) -> None:
        """Close the engine. It writes an index that holds no rows yet anew whenever it is opened, with whatever is in
        the memory of this process, and that may be rows: they are cleared."""
        if getattr(self, "_client", None) is not None:
            self._client.close()
            self._client = None
            if hasattr(self, "_collection"):
                clear_unused(self._index_folder())

    def _sql(self, command: str, values: Sequence[str] = ()) -> list[Any]:
        with closing(sqlite3.connect(self._path / BASE)) as base, base:
            return base.execute(command, values).fetchall()

    def _asked(self, ask: Callable[..., Any], **given: Any) -> Any:
        """Ask the engine; what it refuses is one sentence."""
        try:
            return ask(**given)
        except (self._engine.errors.ChromaError, ValueError, RuntimeError) as error:
            said = " ".join(str(error).split())[:200]
            raise DamnatioError(
                f"The gallery {self._path}: chromadb {self._engine.__version__} cannot do it: {said}"
            ) from error


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
