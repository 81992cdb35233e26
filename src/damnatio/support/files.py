"""Files that a person names. Only regular ones are opened: a pipe waits for its writer, a device may have no end."""

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from damnatio.support.errors import DamnatioError
from damnatio.support.progress import progress

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def irregular(path: str | Path) -> str:
    """What lies at the path if it is no regular file, such as "a named pipe"; "" if it is one, or nothing is there."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # opening it will tell
        return ""
    return "" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no regular file")


def need_regular(path: str | Path, what: str = "") -> None:
    """Refuse what is no regular file; `what` is put before its name."""
    if kind := irregular(path):
        raise DamnatioError(f"{what + ' ' if what else ''}{path} is {kind}, and only regular files are read.")


LONG, PIECE = 1 << 28, 1 << 20
"""bytes from which on hashing shows its progress, and bytes hashed at once"""


YOUNG = 50_000_000
"""nanoseconds in which a file may change twice and bear one time: the hash of so young a file is not remembered"""


def content_key(content: Any) -> str:
    """A hash of anything that JSON can hold, independent of the order of its keys."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def write_atomically(path: Path, content: bytes | str) -> None:
    """The file is either what it was or what it shall be, whenever the machine stops."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A path to write to, that takes the place of `path` when it is whole and on the disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.chmod(0o666 & ~_UMASK)  # some writers keep their files to themselves
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


_UMASK = os.umask(0)
os.umask(_UMASK)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file. A process reads a file for it once, as long as the file keeps its size and time."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        mark = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        if mark in _DIGESTS:
            return _DIGESTS[mark]
        digest = _hashed(file, status.st_size, path.name)
    if time.time_ns() - status.st_mtime_ns > YOUNG:
        _DIGESTS[mark] = digest
    return digest


_DIGESTS: dict[tuple[int, int, int, int], str] = {}


def _hashed(file: BufferedReader, size: int, name: str) -> str:
    if size < LONG:
        return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    with progress(f"hash {name}", size >> 20, "MB") as advance:
        while piece := file.read(PIECE):
            digest.update(piece)
            advance(1)
    return digest.hexdigest()
