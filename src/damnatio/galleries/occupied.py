"""Who else has a file open. A process that holds a gallery in memory would write the deleted rows back."""

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from damnatio.support.errors import DamnatioError

PROCESSES = Path("/proc")


def need_alone(paths: Iterable[Path]) -> None:
    """Refuse files that another process has open or locked, as far as this system shows it."""
    for path in paths:
        if holder := holder_of(path):
            raise DamnatioError(f"The gallery {path} is open in {holder}: stop that first, then try again.")


def holder_of(path: Path) -> str:
    """The process that has the file open, mapped or locked, such as "process 12 (python serve.py)"; "" if none is
    seen. Processes of other users are seen by root only."""
    try:
        status = path.stat()
    except OSError:
        return ""
    node = status.st_dev, status.st_ino
    for process in PROCESSES.iterdir() if PROCESSES.is_dir() else ():
        if process.name.isdigit() and int(process.name) != os.getpid() and _has(process, node):
            return f"process {process.name}{_command(process)}"
    return "another process, which locked it" if _locked(path) else ""


def _has(process: Path, node: tuple[int, int]) -> bool:
    try:
        for entry in os.scandir(process / "fd"):
            try:
                status = os.stat(entry.path)
            except OSError:
                continue
            if (status.st_dev, status.st_ino) == node:
                return True
        wanted = f" {os.major(node[0]):02x}:{os.minor(node[0]):02x} {node[1]} "
        return wanted in (process / "maps").read_text(errors="replace")
    except OSError:
        return False


def _command(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    text = " ".join(" ".join(word.decode(errors="replace") for word in words).split())
    return f" ({text[:60]})" if text else ""


def _locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_UN)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
