"""Templates in Redis: one key per row.

redis://localhost:6379/0?pattern=face:*&vector=embedding&name=person      (hashes: a field with the vector's bytes)
redis://localhost:6379/0?pattern=face:{name}:*                            (strings: the value is the vector)

A delete takes the row from memory. The snapshot (RDB) and the log (AOF) keep it until they are written anew, which the
steps ask the server for. Both are scanned where they can be seen from here: on this machine, or in `?dir=`.
"""

import json
import re
import time
import uuid
from codecs import escape_decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import numpy as np

from damnatio.galleries import STORES
from damnatio.galleries.base import Store, need
from damnatio.galleries.files import BACKUPS, ENGINE
from damnatio.galleries.items import Block, FileClass, Key, Place, Step, Vectors
from damnatio.support.errors import DamnatioError

PLACE = "keys"
TYPES = {"float16": "<f2", "float32": "<f4", "float64": "<f8", "json": "<f8"}
SCANNED = 1000
"""keys that are read in one request"""
NAME = "{name}"
PATIENCE = 3600.0
"""seconds for the server to write a file anew"""
ANSWER, CONNECTED = 600, 10
"""seconds for an answer and for a connection, unless the address says otherwise (socket_timeout)"""
DRIVER = ("ssl_", "socket_", "protocol", "db", "username", "password", "client_name", "health_check_interval")


@STORES.register("redis")
class Redis(Store):
    """Keys of one database of a Redis server."""

    scheme = "redis"
    aliases = ("rediss",)
    is_server = True
    options: ClassVar[Mapping[str, str]] = {
        "pattern": "the keys of the rows, such as face:*, or face:{name}:* where the key holds the name",
        "vector": "the field of a hash that holds the vector; without it the values are strings, and are the vectors",
        "name": "the field of a hash that holds the name",
        "type": f"how a vector is written: {', '.join(TYPES)} (float32)",
        "dir": "where the folder of the server's files is seen from here, such as the volume of its container",
    }
    required = ("pattern",)

    @classmethod
    def takes(cls, option: str) -> bool:
        return option.startswith(DRIVER)

    def open(self, write: bool) -> None:
        redis = need("redis", "redis")
        self._errors: Any = redis.RedisError
        self._type = self.address.option("type", "float32")
        if self._type not in TYPES:
            raise DamnatioError(f"{self._shown}: there is no type '{self._type}': write one of {', '.join(TYPES)}.")
        self._pattern = _Pattern(self.address.option("pattern"))
        try:
            once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)  # a delete is not tried twice behind our back
            self._server: Any = redis.Redis.from_url(
                self.address.server, retry=once, socket_timeout=ANSWER, socket_connect_timeout=CONNECTED
            )
        except (ValueError, TypeError) as error:
            raise DamnatioError(f"{self._shown} is no address of a Redis server ({error}).") from error
        self._info = self._asked(self._server.info)
        if write and self._info.get("role") == "slave":
            raise DamnatioError(
                f"{self._shown} is a replica, which takes no deletes: name its primary, "
                f"{self._info.get('master_host')}:{self._info.get('master_port')}."
            )
        if write and self._info.get("loading"):
            raise DamnatioError(f"{self._shown} is still loading its files: try again when it is done.")
        self._check_fields()
        self.writes = write

    def close(self) -> None:
        self.writes = False
        if server := getattr(self, "_server", None):
            server.close()

    def places(self) -> list[Place]:
        return [Place(PLACE, "template")]

    @property
    def versions(self) -> dict[str, str]:
        return {"redis": str(self._info["redis_version"]), "redis-py": str(need("redis", "redis").__version__)}

    # --- rows --------------------------------------------------------------------------------------------------------

    def blocks(self, place: str) -> Iterator[Block]:
        seen: set[bytes] = set()  # a scan of a changing database may give a key twice
        batch: list[bytes] = []
        for key in self._keys():
            if key not in seen:
                seen.add(key)
                batch.append(key)
            if len(batch) == SCANNED:
                yield from self._read(batch)
                batch = []
        yield from self._read(batch)

    def _keys(self) -> Iterator[bytes]:
        found = iter(self._server.scan_iter(match=self._pattern.glob, count=SCANNED))
        while True:
            key = self._asked(lambda: next(found, None))
            if key is None:
                return
            yield key

    def _read(self, keys: Sequence[bytes]) -> Iterator[Block]:
        """One block for each length of vector, since a block holds vectors of one length."""
        groups: dict[int, list[tuple[str, str, Vectors | None, bytes]]] = {}
        for key, (vector, name, other) in zip(keys, self._values(keys), strict=True):
            groups.setdefault(-1 if vector is None else len(vector), []).append((shown(key), name, vector, other))
        for length, rows in groups.items():
            yield Block(
                ids=[row[0] for row in rows],
                names=[row[1] for row in rows],
                vectors=np.stack([row[2] for row in rows if row[2] is not None]) if length >= 0 else None,
                contents=[row[3] for row in rows],
            )

    def _values(self, keys: Sequence[bytes]) -> Iterator[tuple[Vectors | None, str, bytes]]:
        field, name = self.address.option("vector").encode(), self.address.option("name").encode()
        batch = self._server.pipeline(transaction=False)
        for key in keys:
            _ = batch.hgetall(key) if field else batch.get(key)
        for key, value in zip(keys, self._asked(batch.execute), strict=True):
            if not field:
                yield self._vector(key, value), self._pattern.name(key), b""
                continue
            held = value.get(field)
            called = value[name].decode(errors="backslashreplace") if name in value else self._pattern.name(key)
            rest = sorted((one, value[one]) for one in value if one not in (field, name))
            yield self._vector(key, held), called, sha256(repr(rest).encode()).digest() if rest else b""

    def _vector(self, key: bytes, value: bytes | None) -> Vectors | None:
        if value is None:  # no such field, or the key has gone since the scan saw it
            return None
        try:
            if self._type == "json":
                vector = np.array(json.loads(value), dtype=TYPES["json"])
                if vector.ndim != 1:
                    raise ValueError
                return vector
            return np.frombuffer(value, dtype=TYPES[self._type])
        except (ValueError, TypeError) as error:
            raise DamnatioError(
                f"{self._shown}: the key {shown(key)} holds {len(value)} bytes, which are no {self._type} vector: name "
                "the field with &vector=... and the type with &type=..."
            ) from error

    def _check_fields(self) -> None:
        """Look at one row, so that a wrong field is known before anything is done."""
        key = next(self._keys(), None)
        if key is None:
            return
        wanted, kind = self.address.option("vector"), self._asked(lambda: self._server.type(key)).decode()
        if kind != ("hash" if wanted else "string"):
            raise DamnatioError(
                f"{self._shown}: the key {shown(key)} is a {kind}: "
                + ("leave out &vector=..." if wanted else "name the field with &vector=... of a hash")
                + ", or choose another pattern."
            )
        if not wanted:
            return
        fields = [one.decode(errors="backslashreplace") for one in self._asked(lambda: self._server.hkeys(key))]
        for field in (wanted, self.address.option("name")):
            if field and field not in fields:
                raise DamnatioError(
                    f"{self._shown}: the key {shown(key)} has no field '{field}'; it has {', '.join(sorted(fields))}."
                )

    # --- changes -----------------------------------------------------------------------------------------------------

    def delete(self, keys: Sequence[Key]) -> int:
        self.need_write()
        raw = [hidden(key.id) for key in keys]
        if not raw:
            return 0
        batch = self._server.pipeline(transaction=True)
        for first in range(0, len(raw), SCANNED):
            batch.delete(*raw[first : first + SCANNED])
        return int(sum(self._asked(batch.execute)))

    def add(self, name: str, vectors: Vectors) -> list[Key]:
        self.need_write()
        field, called = self.address.option("vector"), self.address.option("name")
        keys = [self._pattern.key(name) for _ in vectors]
        batch = self._server.pipeline(transaction=True)
        for key, vector in zip(keys, vectors, strict=True):
            values = [float(value) for value in vector]
            text = json.dumps(values) if self._type == "json" else vector.astype(TYPES[self._type]).tobytes()
            if field:
                batch.hset(key, mapping={field: text, **({called: name} if called else {})})
            else:
                batch.set(key, text)
        self._asked(batch.execute)
        return [Key(PLACE, shown(key)) for key in keys]

    def steps(self) -> list[Step]:
        found = []
        if self._config("appendonly") == "yes":
            found.append(
                Step("append-only file", "redis-cli BGREWRITEAOF", self._rewrite, needs=self._size(), folder=self._dir)
            )
        if self._config("save") or self._dir is None or self._snapshot_file().exists():
            found.append(Step("snapshot", "redis-cli BGSAVE", self._save, needs=self._size(), folder=self._dir))
        return found

    def _rewrite(self) -> None:
        self.need_write()
        self._idle()
        self._asked(self._server.bgrewriteaof)
        self._idle()
        if self._persistence().get("aof_last_bgrewrite_status") != "ok":
            raise DamnatioError(f"{self._shown} could not write its append-only file anew: see the log of the server.")
        _until(lambda: not self._history(), 60.0)  # the server removes the old files a moment later

    def _save(self) -> None:
        self.need_write()
        self._idle()
        self._asked(self._server.bgsave)
        self._idle()
        if self._persistence().get("rdb_last_bgsave_status") != "ok":
            raise DamnatioError(f"{self._shown} could not write its snapshot anew: see the log of the server.")

    def _idle(self) -> None:
        """Wait until the server writes no file: a write that began before the delete would still hold the rows."""
        busy = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")
        if not _until(lambda: not any(self._persistence().get(one) for one in busy), PATIENCE):
            raise DamnatioError(f"{self._shown} has been writing its files for an hour: see the log of the server.")

    # --- files -------------------------------------------------------------------------------------------------------

    def file_classes(self) -> list[FileClass]:
        if self._dir is None:
            why = (
                f"the server keeps them in {self._config('dir') or 'a folder that it does not tell'}, which is not "
                "seen from here: name the folder with &dir=..."
            )
            return [FileClass("snapshot", [], unreached=why), FileClass("append-only file", [], unreached=why)]
        files = {path for path in self._dir.rglob("*") if path.is_file()}
        log = {*self._log_files(), *(path for path in files if ".aof" in path.name)}
        snapshots = {path for path in files if ".rdb" in path.name or path == self._snapshot_file()} - log
        return [FileClass("snapshot", sorted(snapshots)), FileClass("append-only file", sorted(log))]

    def unreached(self) -> list[str]:
        replicas = int(self._info.get("connected_slaves", 0))
        said = [f"{replicas} replicas have snapshots and logs of their own."] if replicas else []
        return [*said, ENGINE, BACKUPS]

    @property
    def _dir(self) -> Path | None:
        """The folder of the server's files; None: it is not seen from here."""
        if given := self.address.option("dir"):
            path = Path(given).expanduser()
            if not path.is_dir():
                raise DamnatioError(f"{self._shown}: there is no folder {path}.")
            return path
        path = Path(self._config("dir") or "/nowhere")
        try:  # a server is always in its folder; one in a container has another number here, or another folder
            there = Path(f"/proc/{self._info['process_id']}/cwd").samefile(path)
        except OSError:
            there = False
        host = urlsplit(self.address.server).hostname or "localhost"
        return path if there and host in ("localhost", "127.0.0.1", "::1") else None

    def _snapshot_file(self) -> Path:
        return (self._dir or Path("/nowhere")) / (self._config("dbfilename") or "dump.rdb")

    def _log_files(self) -> list[Path]:
        """One file up to Redis 6; a manifest and the files that it names from Redis 7 on."""
        folder, name = self._dir or Path("/nowhere"), self._config("appendfilename") or "appendonly.aof"
        inside = folder / self._config("appenddirname") if self._config("appenddirname") else folder
        return sorted({path for path in (*inside.glob(f"{name}*"), folder / name) if path.is_file()})

    def _history(self) -> list[Path]:
        """Files of the log that its manifest does not name as its own any longer."""
        files = self._log_files() if self._dir is not None else []
        manifest = next((file for file in files if file.name.endswith(".manifest")), None)
        if manifest is None:
            return []
        kept = [line.split()[1] for line in manifest.read_text().splitlines() if not line.endswith("type h")]
        return [file for file in files if file.parent == manifest.parent and file.name not in (*kept, manifest.name)]

    def _size(self) -> int:
        return int(self._info.get("used_memory_dataset", self._info.get("used_memory", 0)))

    # --- the server --------------------------------------------------------------------------------------------------

    @property
    def _shown(self) -> str:
        return f"The gallery {self.address.shown}"

    def _config(self, name: str) -> str:
        """A setting of the server; "" where it has none or does not tell (hosted servers refuse CONFIG)."""
        if not hasattr(self, "_settings"):
            try:
                self._settings: dict[str, str] = self._server.config_get("*")
            except self._errors:
                self._settings = {}
        return str(self._settings.get(name, ""))

    def _persistence(self) -> dict[str, Any]:
        return dict(self._asked(lambda: self._server.info("persistence")))

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """Ask the server; what it refuses is one sentence."""
        try:
            return ask()
        except self._errors as error:
            said = " ".join(str(error).split())[:160]
            raise DamnatioError(f"{self._shown} does not do it: {said}") from error


class _Pattern:
    """The keys of the rows, and the names in them."""

    def __init__(self, text: str) -> None:
        self.text, self.named = text, NAME in text
        self.glob = text.replace(NAME, "*").encode()
        parts = (re.escape(part).replace(r"\*", ".*").replace(r"\?", ".") for part in text.split(NAME, 1))
        self._regex = re.compile("(?P<name>.*?)".join(parts), re.DOTALL) if self.named else None

    def name(self, key: bytes) -> str:
        if self._regex is None:
            return ""
        found = self._regex.fullmatch(key.decode(errors="backslashreplace"))
        return found["name"] if found else ""

    def key(self, name: str) -> bytes:
        """A new key that the pattern fits."""
        if re.search(r"[\[\]?\\]", self.text) or self.text.count("*") != 1:
            raise DamnatioError(f"No key can be made for the pattern {self.text}: write it with one *.")
        return self.text.replace("*", uuid.uuid4().hex).replace(NAME, name).encode()


def shown(key: bytes) -> str:
    """A key as text; a key that is no text has escapes, and each text is of one key."""
    return key.replace(b"\\", b"\\\\").decode(errors="backslashreplace")


def hidden(text: str) -> bytes:
    """The key that is shown as this text."""
    return bytes(escape_decode(text.encode())[0])


def _until(done: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
