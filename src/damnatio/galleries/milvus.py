"""Templates in a collection of Milvus.

milvus:gallery.db?collection=faces&name=person                  (Milvus Lite)
milvus://host:19530/default?collection=faces&name=person        (a server)

A delete writes a list of deleted rows, and `compact` leaves the old files where they are. So the collection is built
anew from the rows that stay, the old one is dropped, and the new one takes its name. A server keeps what it was sent in
its message queue, for three days or 8 GB as it comes: the files of the server are scanned where `?dir=` names them, and
count as unreached otherwise.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import numpy as np

from damnatio.galleries import STORES
from damnatio.galleries.base import Store, need
from damnatio.galleries.files import BACKUPS, ENGINE
from damnatio.galleries.folders import files_in, need_own_files
from damnatio.galleries.items import Block, FileClass, Key, Place, Step, Vectors
from damnatio.support.errors import DamnatioError
from damnatio.support.files import write_atomically

NEW = "_damnatio_new"
ROWS = 1000
"""rows that are read or written in one request"""
FLOAT_VECTORS = ("FLOAT_VECTOR", "FLOAT16_VECTOR", "BFLOAT16_VECTOR")
NOT_PARAMETERS = [
    "index_type",
    "metric_type",
    "field_name",
    "index_name",
    "total_rows",
    "indexed_rows",
    "pending_index_rows",
    "state",
]
QUEUE = (
    "The message queue of the server keeps what was sent to it, for three days or 8 GB as it comes "
    "(rocksmq.retentionTimeInMinutes, retentionSizeInMB), and the files of a dropped collection stay until the "
    "garbage collection (dataCoord.gc.dropTolerance)"
)


@STORES.register("milvus")
class Milvus(Store):
    """One collection of Milvus Lite, or of a server."""

    scheme = "milvus"
    is_server = True
    options: ClassVar[Mapping[str, str]] = {
        "collection": "the collection; not needed where there is one only",
        "name": "the field that holds the name (name)",
        "vector": "the field of vectors; not needed where there is one only",
        "dir": "where the folder of a server's files is seen from here",
    }

    _client: Any = None

    @classmethod
    def likeness(cls, path: Path, head: bytes) -> int:
        return 2 if (path / "collections").is_dir() and (path / "LOCK").is_file() else 0

    def open(self, write: bool) -> None:
        self._milvus = need("pymilvus", "milvus")
        self._connect(write)
        self._collection = self._chosen(write)
        self._about: dict[str, Any] = self._asked(self._client.describe_collection, self._collection)
        self._check_fields()
        if write and self._about.get("functions"):
            raise DamnatioError(
                f"{self._shown} has functions that compute fields: it cannot be built anew without them, and so not "
                "purged by this version."
            )
        if write and self._about.get("auto_id") and self.address.path and not self._counts(self._collection):
            raise DamnatioError(f"{self._shown}: it is not known how this version of Milvus Lite counts its ids.")
        self._asked(self._client.load_collection, self._collection)
        self.writes = write

    def _connect(self, write: bool) -> None:
        path = self.address.path
        if path is None:
            parts = urlsplit(self.address.server)
            host, login = parts.netloc.rpartition("@")[2], parts.netloc.rpartition("@")[0]
            given = {"uri": f"http://{host}", "token": login, "db_name": parts.path.strip("/")}
        else:
            need("milvus_lite", "milvus")
            if not path.exists():
                raise DamnatioError(f"There is no gallery {path}.")
            if write and path.is_dir():
                need_own_files(path)
            given = {"uri": str(path)}
        try:
            self._client = self._milvus.MilvusClient(**given)
        except Exception as error:
            why = "it is open in another process, or of another version" if path else "is it running?"
            said = " ".join(str(error).split())[:120]
            raise DamnatioError(f"{self._shown} cannot be opened ({said}): {why}.") from error

    def close(self) -> None:
        self.writes = False
        self._let_go()

    def _let_go(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
            if self.address.path is not None:  # the engine holds its lock until it is told to let go
                release = need("milvus_lite.server_manager", "milvus").server_manager_instance
                release.release_server(str(self.address.path))

    def _chosen(self, write: bool) -> str:
        all_of_them = sorted(self._asked(self._client.list_collections))
        halfway = [one.removesuffix(NEW) for one in all_of_them if one.endswith(NEW)]
        known = sorted({one.removesuffix(NEW) for one in all_of_them})
        wanted = self.address.option("collection")
        chosen = wanted or (known[0] if len(known) == 1 else "")
        if chosen not in known:
            wrong = f"has no collection `{wanted}`" if wanted else "has several collections" if known else "is empty"
            raise DamnatioError(f"{self._shown} {wrong}: choose one with ?collection=... of {', '.join(known)}.")
        if chosen in halfway and not write:
            raise DamnatioError(f"{self._shown} is half purged ({chosen}{NEW}): run the purge again to end it.")
        if chosen not in all_of_them:  # stopped between the drop and the renaming
            self._asked(self._client.rename_collection, chosen + NEW, chosen)
        return chosen

    def _check_fields(self) -> None:
        fields = {field["name"]: field for field in self._about["fields"]}
        self._id = next(name for name, field in fields.items() if field.get("is_primary"))
        vectors = [name for name, field in fields.items() if field["type"].name in FLOAT_VECTORS]
        self._vector = self.address.option("vector") or (vectors[0] if len(vectors) == 1 else "vector")
        self._name = self.address.option("name", "name")
        if self._vector not in vectors:
            raise DamnatioError(
                f"{self._shown} has no vectors `{self._vector}`: choose with ?vector=... of {', '.join(vectors)}."
            )
        if self._name not in fields and not self._about.get("enable_dynamic_field"):
            raise DamnatioError(
                f"{self._shown} has no field `{self._name}`: choose one with ?name=... of {', '.join(fields)}."
            )
        self._width = int(fields[self._vector]["params"]["dim"])

    def _field(self, name: str) -> dict[str, Any]:
        return next(dict(field) for field in self._about["fields"] if field["name"] == name)

    def places(self) -> list[Place]:
        return [Place(self._collection, "template")]

    @property
    def versions(self) -> dict[str, str]:
        if self.address.path is not None:
            return {"milvus-lite": version("milvus-lite"), "pymilvus": version("pymilvus")}
        return {"milvus": str(self._asked(self._client.get_server_version)), "pymilvus": version("pymilvus")}

    # --- rows --------------------------------------------------------------------------------------------------------

    def blocks(self, place: str) -> Iterator[Block]:
        for rows in self._rows():
            yield Block(
                ids=[str(row[self._id]) for row in rows],
                names=[str(row.get(self._name) or "") for row in rows],
                vectors=np.array([row[self._vector] for row in rows], dtype=np.float32).reshape(-1, self._width),
                contents=[self._rest(row) for row in rows],
            )

    def _rows(self, partition: str = "") -> Iterator[list[dict[str, Any]]]:
        found = self._asked(
            lambda: self._client.query_iterator(
                self._collection,
                batch_size=ROWS,
                output_fields=["*"],
                partition_names=[partition] if partition else None,
            )
        )
        try:
            while rows := self._asked(found.next):
                yield [dict(row) for row in rows]
        finally:
            found.close()

    def _rest(self, row: Mapping[str, Any]) -> bytes:
        """The hash of what a row holds besides its vector, name and id."""
        rest = {key: value for key, value in row.items() if key not in (self._vector, self._name, self._id)}
        return sha256(json.dumps(rest, sort_keys=True, default=repr).encode()).digest()

    # --- changes -----------------------------------------------------------------------------------------------------

    def add(self, name: str, vectors: Vectors) -> list[Key]:
        self.need_write()
        ids: list[Any] = [None] * len(vectors)
        if not self._about.get("auto_id"):
            text = self._field(self._id)["type"].name == "VARCHAR"
            made = (int.from_bytes(os.urandom(7), "big") for _ in vectors)
            ids = [str(one) if text else one for one in made]
        rows = [
            {
                self._vector: [float(value) for value in vector],
                self._name: name,
                **({} if id is None else {self._id: id}),
            }
            for id, vector in zip(ids, vectors, strict=True)
        ]
        done = self._asked(self._client.insert, self._collection, rows)
        return [Key(self._collection, str(id)) for id in done["ids"]]

    def delete(self, keys: Sequence[Key]) -> int:
        self.need_write()
        numbers = self._field(self._id)["type"].name != "VARCHAR"
        wanted = [key.id for key in keys if not numbers or key.id.lstrip("-").isdigit()]
        there: list[Any] = []
        for first in range(0, len(wanted), ROWS):
            ids = [int(id) if numbers else id for id in wanted[first : first + ROWS]]
            found = self._asked(self._client.get, self._collection, ids=ids, output_fields=[self._id])
            there += [row[self._id] for row in found]
        if there:
            self._asked(self._client.delete, self._collection, ids=there)
        return len(there)

    def steps(self) -> list[Step]:
        return [
            Step(
                "rebuild",
                f"create_collection({self._collection}{NEW}), insert all rows, drop_collection({self._collection}), "
                f"rename_collection({self._collection}{NEW}, {self._collection})",
                self._rebuild,
                locks="writers of the collection: rows that come meanwhile would be lost",
                needs=2 * sum(file.stat().st_size for file in self._files() or []),
                folder=self.address.path.parent if self.address.path else None,
            )
        ]

    def _rebuild(self) -> None:
        self.need_write()
        old, new = self._collection, self._collection + NEW
        if new in self._asked(self._client.list_collections):  # of a run that was stopped: nobody knows how far it came
            self._hand_over(new, old)
            self._asked(self._client.drop_collection, new)
        self._asked(self._create, new)
        for partition in self._asked(self._client.list_partitions, old):
            if partition not in self._asked(self._client.list_partitions, new):
                self._asked(self._client.create_partition, new, partition)
            for rows in self._rows(partition):
                self._asked(self._client.insert, new, rows, partition_name=partition)
        self._asked(self._client.flush, new)
        self._count_on(new)
        self._hand_over(old, new)
        self._asked(self._client.drop_collection, old)
        self._asked(self._client.rename_collection, new, old)
        self._asked(self._client.load_collection, old)

    def _hand_over(self, one: str, other: str) -> None:
        """Let the aliases of one collection name another: they would go with it."""
        for alias in self._asked(self._client.list_aliases, one).get("aliases", []):
            self._asked(self._client.alter_alias, other, alias)

    def _count_on(self, new: str) -> None:
        """Milvus Lite chooses ids by a counter of each collection. The new one goes on where the old one stands, or
        rows that come later would get the ids of rows that are there."""
        if self.address.path is None or not self._about.get("auto_id"):
            return
        old, path = self._manifest(self._collection), self._manifest(new)
        self._let_go()
        content, counted = json.loads(path.read_text()), json.loads(old.read_text())
        content["current_seq"] = max(content["current_seq"], counted["current_seq"])
        write_atomically(path, json.dumps(content, indent=2, sort_keys=True))
        self._connect(write=True)
        self._asked(self._client.load_collection, self._collection)

    def _counts(self, collection: str) -> bool:
        path = self._manifest(collection)
        return path.is_file() and "current_seq" in json.loads(path.read_text())

    def _manifest(self, collection: str) -> Path:
        assert self.address.path is not None
        return self.address.path / "collections" / collection / "manifest.json"

    def _create(self, name: str) -> None:
        """An empty collection like the old one. Ids that Milvus chose are given again as they were."""
        about = self._about
        schema = self._milvus.MilvusClient.create_schema(
            auto_id=bool(about.get("auto_id")),
            enable_dynamic_field=bool(about.get("enable_dynamic_field")),
            description=about.get("description", ""),
        )
        kept = ("is_primary", "auto_id", "nullable", "default_value", "is_partition_key", "element_type", "description")
        for field in about["fields"]:
            more = {key: field[key] for key in kept if field.get(key)}
            schema.add_field(field["name"], field["type"], **field["params"], **more)
        indexes = self._milvus.MilvusClient.prepare_index_params()
        for index in self._client.list_indexes(self._collection):
            found = self._client.describe_index(self._collection, index)
            parameters = {key: value for key, value in found.items() if key not in NOT_PARAMETERS}
            indexes.add_index(
                found["field_name"],
                index_type=found["index_type"],
                metric_type=found["metric_type"],
                index_name=found.get("index_name", ""),
                params=parameters,
            )
        properties = dict(about.get("properties") or {})
        if about.get("auto_id"):
            properties["allow_insert_auto_id"] = "true"
        self._client.create_collection(name, schema=schema, index_params=indexes, properties=properties)

    # --- files -------------------------------------------------------------------------------------------------------

    def _files(self) -> list[Path] | None:
        """All files; None: they are not seen from here."""
        given = self.address.option("dir")
        path = self.address.path or (Path(given).expanduser() if given else None)
        if path is None:
            return None
        return [path] if path.is_file() else files_in(path)

    def file_classes(self) -> list[FileClass]:
        files = self._files()
        if files is None:
            return [FileClass("files of the server", [], unreached=f"{QUEUE}: name the folder with &dir=...")]
        queue = [file for file in files if any(part.startswith("rdb_data") for part in file.parts)]
        indexes = [file for file in files if file.suffix == ".idx"]
        data = [file for file in files if file not in {*queue, *indexes}]
        classes = [FileClass("data", data), FileClass("indexes", indexes)]
        return [*classes, FileClass("message queue", queue)] if self.address.path is None else classes

    def unreached(self) -> list[str]:
        return [*([f"{QUEUE}."] if self.address.path is None else []), ENGINE, BACKUPS]

    @property
    def _shown(self) -> str:
        return f"The gallery {self.address.shown}"

    def _asked(self, ask: Callable[..., Any], *given: Any, **more: Any) -> Any:
        """Ask the engine; what it refuses is one sentence."""
        try:
            return ask(*given, **more)
        except self._milvus.MilvusException as error:
            said = " ".join(str(error.message or error).split())[:200]
            raise DamnatioError(f"{self._shown} does not do it: {said}") from error
