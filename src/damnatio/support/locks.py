"""Locks between processes of one machine, or of several that share a file system, NFS included.

    .locks/5-forget.S1-OF-1a2b3c4d/holder.json      the lock, and who holds it: host, process, since when

A lock is a folder with one file in it. These rules make it hold on every file system whose `rename` is atomic (local
disks, NFS, Lustre, GPFS, BeeGFS; not object stores that are mounted as if they were disks):

- Take: write the file into a folder of one's own, and rename that folder to the lock's name. The server does this as
  one act, and refuses it if a folder with something in it has that name.
- Hold: a thread touches the file every `BEAT` seconds.
- Another's death, same machine: the holder keeps a `flock` on its file, and the kernel ends it with the process, after
  `kill -9` too. A process that is only stopped keeps it. Between machines a `flock` is trusted by nobody.
- Another's death, other machine: who waits watches the time of the file. If it did not change for `SILENCE` seconds,
  counted by the watcher's own clock, the holder is gone. So no two clocks are compared.
- Take over: rename the dead holder's folder to a name made of its token, which no other lock ever has. That name can be
  given once, so of several processes that see one dead holder, one takes its lock away, and none a later holder's.
- Give up: the same renaming, by the holder. A holder that slept and lost its lock takes nothing from anyone.

A holder that lost its lock is interrupted, and `held` is false: what it made must not be used.
"""

import _thread
import errno
import fcntl
import json
import os
import platform
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import IO

BEAT, SILENCE = 15.0, 180.0
"""seconds between two signs of life, and without any until a holder on another machine counts as gone. A long call
into a library may keep the thread from beating, hence the long time."""
FORGOTTEN = 86_400.0
"""seconds after which the folder of a dead holder is removed"""
HOLDER = "holder.json"
TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock."""

    token: str
    host: str = "unknown host"
    machine: str = ""
    pid: int = 0
    since: str = ""
    flock: bool = False
    """whether the holder keeps a flock on its file: some file systems have none"""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


class Lock:
    """One lock. A process takes it, works, and releases it."""

    def __init__(self, path: Path, beat: float | None = None, silence: float | None = None) -> None:
        self.path = path
        self._beat, self._silence = (BEAT if beat is None else beat), (SILENCE if silence is None else silence)
        self._me = Holder(
            token=uuid.uuid4().hex[:16],
            host=platform.node() or "unknown host",
            machine=machine(),
            pid=os.getpid(),
            since=time.strftime("%Y-%m-%d %H:%M:%S"),
        )
        self._file: IO[str] | None = None
        self._ended = threading.Event()
        self._lost = False
        self._seen: tuple[str, int] = ("", 0)
        self._seen_at = 0.0

    def take(self, waiting: Callable[[Holder], None] = lambda holder: None) -> None:
        """Wait until the lock is ours. `waiting` is called once for each process that we wait for."""
        known, pause = "", 0.05
        while (holder := self.try_to_take()) is not None:
            if holder.token != known:
                known, pause = holder.token, 0.05
                waiting(holder)
            time.sleep(pause)
            pause = min(2 * pause, 2.0, self._silence / 4)

    def try_to_take(self) -> Holder | None:
        """Take the lock, also from a holder that is gone. None if it is ours now, else who holds it."""
        while True:
            holder = holder_of(self.path)
            if holder is None:
                if self._take():
                    return None
            elif not self._is_gone(holder) or not self._take_away(holder):
                return holder

    @property
    def held(self) -> bool:
        """Whether the lock is still ours. The server is asked."""
        found = holder_of(self.path)
        return self._file is not None and found is not None and found.token == self._me.token

    @property
    def lost(self) -> bool:
        """Whether another process took the lock from us while we held it."""
        return self._lost

    def release(self) -> None:
        """Give the lock up. If it was lost, nothing happens to its new holder."""
        if self._file is None:
            return
        self._ended.set()
        if self.held and self._rename_away(self._me):
            shutil.rmtree(_grave(self.path, self._me), ignore_errors=True)
        self._file.close()  # after the renaming: a lock that can be seen is one whose holder has its flock
        self._file = None

    def _take(self) -> bool:
        own = self.path.with_name(f".new-{self._me.token}")
        try:
            own.mkdir(parents=True, exist_ok=True)
            file = (own / HOLDER).open("w", encoding="utf-8")
        except FileNotFoundError:  # the folder of all locks was removed at this moment
            return False
        try:
            me = Holder(**{**asdict(self._me), "flock": _flocked(file)})
            file.write(json.dumps(asdict(me)))
            file.flush()
            os.fsync(file.fileno())
            os.rename(own, self.path)
        except OSError as error:
            mine = holder_of(self.path)
            if mine is None or mine.token != self._me.token:  # else the answer of the server was lost, and sent again
                file.close()
                shutil.rmtree(own, ignore_errors=True)
                if error.errno in (*TAKEN, errno.ENOENT):
                    return False
                raise
        self._file, self._lost = file, False
        self._ended.clear()
        threading.Thread(target=self._beats, daemon=True).start()
        _sweep(self.path.parent)
        return True

    def _beats(self) -> None:
        while not self._ended.wait(self._beat):
            with suppress(OSError):  # a server that is away for a moment
                found = holder_of(self.path)
                if found is not None and found.token == self._me.token:
                    os.utime(self.path / HOLDER)
                elif found is not None and not self._ended.is_set():
                    self._lost = True
                    _thread.interrupt_main()
                    return

    def _is_gone(self, holder: Holder) -> bool:
        """Whether the holder is dead for all that can be known here."""
        if holder.flock and holder.machine == machine():
            return has_died(self.path)
        mark = holder.token, _time_of(self.path)
        if mark != self._seen:
            self._seen, self._seen_at = mark, time.monotonic()
        return time.monotonic() - self._seen_at >= self._silence

    def _take_away(self, holder: Holder) -> bool:
        """Clear the lock of a dead holder away; false if another did. If something else was there instead, it is put
        back."""
        if not self._rename_away(holder):
            return False
        grave = _grave(self.path, holder)
        moved = _read(grave / HOLDER)
        if moved is not None and moved.token != holder.token:
            with suppress(OSError):
                os.rename(grave, self.path)
        return True

    def _rename_away(self, holder: Holder) -> bool:
        try:
            os.rename(self.path, _grave(self.path, holder))
        except OSError:  # another was faster
            return False
        return True


@cache
def machine() -> str:
    """What tells this machine, since it started, from every other."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # not Linux
        return f"{platform.node()}-{uuid.getnode():x}"


def holder_of(path: Path) -> Holder | None:
    """Who holds the lock; None if nobody does."""
    found = _read(path / HOLDER)
    if found is None and path.is_dir():
        with suppress(OSError):
            if os.listdir(path):  # it was taken a moment ago, or a file that cannot be read is somebody's
                return _read(path / HOLDER) or Holder(token=f"unknown-{path.stat().st_ino}")
    return found


def has_died(path: Path) -> bool:
    """Whether the holder of a lock, which is or was a process of this machine, has ended without releasing it."""
    try:
        with (path / HOLDER).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # with the flock in our hand, nobody can release the lock that the name stands for now
            return os.path.samestat(os.fstat(file.fileno()), os.stat(path / HOLDER))
    except OSError:
        return False


def silent_for(path: Path) -> float:
    """The seconds since the last sign of life of a lock's holder, by this machine's clock."""
    return max(0.0, time.time() - _time_of(path) / 1e9)


def look_anew(folder: Path) -> None:
    """Make the client of an NFS server forget what it knew to be missing in a folder. It asks the server again after a
    change of its own there."""
    probe = folder / f".look-{uuid.uuid4().hex[:16]}"
    with suppress(OSError):
        probe.mkdir()
        probe.rmdir()


def _read(file: Path) -> Holder | None:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))  # opening it asks the server
        known = {name: content[name] for name in Holder.__dataclass_fields__ if name in content}
        return Holder(**{**known, "token": str(content["token"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _time_of(path: Path) -> int:
    try:
        with (path / HOLDER).open() as file:
            return os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return 0


def _flocked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # the file system has none
        return False
    return True


def _grave(path: Path, holder: Holder) -> Path:
    return path.with_name(f".gone-{holder.token}")


def _sweep(folder: Path) -> None:
    """Remove what dead processes left, long after anybody can want to rename something to the same name."""
    for left in (*folder.glob(".gone-*"), *folder.glob(".new-*")):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > FORGOTTEN:
                shutil.rmtree(left)
