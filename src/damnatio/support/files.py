"""Files: which ones are opened, how they are written, and how they are known by their hashes.

Opening: only regular files are read, because a pipe waits for its writer and a device may have no end.
Writing: every file is written under another name and renamed when it is whole, so that a file is never half written.
Hashing: a process hashes a file once, as long as the file keeps its size and time.
"""

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

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
LONG = 1 << 28
"""bytes of a file from which on hashing shows its progress"""
PIECE = 1 << 20
"""bytes of a long file that are hashed at once"""
YOUNG = 50_000_000
"""nanoseconds in which a file may change twice and keep its time: the hash of a file this young is not remembered"""

_UMASK = os.umask(0)
os.umask(_UMASK)
_MODES = [0o666 & ~_UMASK]
"""of files that are written; the last one counts"""
_DIGESTS: dict[tuple[int, int, int, int], str] = {}
"""hashes of this process, by device, node, size and time of the file"""


# --- opening ---------------------------------------------------------------------------------------------------------


def irregular(path: str | Path) -> str:
    """The kind of what lies at the path, such as "a named pipe"; "" if it is a regular file or nothing is there."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # the caller gets the same error when it opens the file, and reports it
        return ""
    return "" if stat.S_ISREG(mode) else KINDS.get(stat.S_IFMT(mode), "no regular file")


def need_regular(path: str | Path, what: str = "") -> None:
    """Refuse a path that is no regular file. `what` stands before the path in the sentence."""
    if kind := irregular(path):
        raise DamnatioError(f"{what + ' ' if what else ''}{path} is {kind}, and only regular files are read.")


# --- writing ---------------------------------------------------------------------------------------------------------


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a file. Whenever the machine stops, the file has either its old content or its new one."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A temporary path to write to. At the end of the block it replaces `path`, after its content is on the disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.chmod(_MODES[-1])  # some writers make files that only their owner can read
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def private() -> Iterator[None]:
    """Files that are made meanwhile can be read by their owner alone, and folders entered, whatever the umask."""
    before = os.umask(0o077)
    _MODES.append(0o600)
    try:
        yield
    finally:
        _MODES.pop()
        os.umask(before)


# --- hashing ---------------------------------------------------------------------------------------------------------


def content_key(content: Any) -> str:
    """A hash of anything that JSON can hold, independent of the order of its keys."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        mark = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        if mark in _DIGESTS:
            return _DIGESTS[mark]
        digest = _hashed(file, status.st_size, path.name)
    if time.time_ns() - status.st_mtime_ns > YOUNG:
        _DIGESTS[mark] = digest
    return digest


def _hashed(file: BufferedReader, size: int, name: str) -> str:
    if size < LONG:
        return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    with progress(f"hash {name}", size >> 20, "MB") as advance:
        while piece := file.read(PIECE):
            digest.update(piece)
            advance(1)
    return digest.hexdigest()
