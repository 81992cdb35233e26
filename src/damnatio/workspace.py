"""A run's folder: one numbered folder a stage, each output keyed by the content of what went in.

    runs/demo/
      1-faces/synthetic-5f2c9a10/       faces.parquet, pixels.npy, stage.json
      2-captures/all-0b7e44d1/          ...
      report/                           what the last call computed, for people

An output's key is a hash of the stage's version, its settings and the keys of its inputs. So nothing is computed
twice, nothing stale is read, and a changed setting makes a new output beside the old one. An output is built in a
`.partial-` folder and renamed when it is whole: what lies under a stage's folder is complete, and what was
interrupted goes on where it stopped.
"""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from damnatio import __version__
from damnatio.errors import DamnatioError

MANIFEST = "stage.json"


@dataclass(frozen=True)
class Output:
    """A complete output of a stage."""

    path: Path
    key: str

    @property
    def manifest(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.path / MANIFEST).read_text())
        return content


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


class Workspace:
    """The folder of one run, held by one process at a time."""

    def __init__(self, folder: Path, say: Callable[[str], None] = print) -> None:
        self.folder = folder
        self.say = say
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / ".lock").open("a+")
        except OSError as error:
            raise DamnatioError(f"The run's folder {folder} cannot be used: {error.strerror}. Name another.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DamnatioError(
                f"Another process is working in {folder}: wait for it, or name another folder with --run."
            ) from None

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def stage(
        self,
        stage: str,
        label: str,
        settings: Mapping[str, Any],
        inputs: Mapping[str, Output],
        build: Callable[[Path], None],
        version: int = 1,
    ) -> Output:
        """The output of `build` for these settings and inputs: the one on disk if there is one, else made now.

        `build` writes into a folder that may hold what an interrupted call left. `version` rises whenever the same
        settings and inputs come to mean another output.
        """
        wanted = {
            "stage": stage,
            "version": version,
            "settings": dict(settings),
            "inputs": {name: output.key for name, output in inputs.items()},
        }
        key = content_key(wanted)
        final = self.folder / stage / f"{label}-{key[:8]}"
        if _key_of(final) == key:
            self.say(f"{stage:<13} {label:<12} reused   {final}")
            return Output(final, key)
        partial = final.with_name(f".partial-{final.name}")
        partial.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        build(partial)
        seconds = time.monotonic() - started
        write_atomically(partial / MANIFEST, _manifest(wanted, key, seconds))
        if final.exists():  # without a manifest it is nobody's output
            shutil.rmtree(final)
        partial.rename(final)
        self.say(f"{stage:<13} {label:<12} {seconds:6.1f} s {final}")
        return Output(final, key)

    def publish(
        self, name: str, settings: Mapping[str, Any], inputs: Mapping[str, Output], build: Callable[[Path], None]
    ) -> Path:
        """A folder of a fixed name for people: rebuilt whole when its inputs changed, swapped in at once."""
        wanted = {
            "stage": name,
            "settings": dict(settings),
            "inputs": {label: output.key for label, output in inputs.items()},
        }
        key, final = content_key(wanted), self.folder / name
        if _key_of(final) == key:
            self.say(f"{name:<13} {'':<12} reused   {final}")
            return final
        started = time.monotonic()
        fresh, old = self.folder / f".partial-{name}", self.folder / f".old-{name}"
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh.mkdir()
        build(fresh)
        seconds = time.monotonic() - started
        write_atomically(fresh / MANIFEST, _manifest(wanted, key, seconds))
        if final.exists():
            final.rename(old)
        fresh.rename(final)
        shutil.rmtree(old, ignore_errors=True)
        self.say(f"{name:<13} {'':<12} {seconds:6.1f} s {final}")
        return final


def _key_of(folder: Path) -> str | None:
    """The key of the output in a folder; None where there is no whole one."""
    try:
        key: str = json.loads((folder / MANIFEST).read_text())["key"]
    except (OSError, ValueError, KeyError):
        return None
    return key


def _manifest(wanted: Mapping[str, Any], key: str, seconds: float) -> str:
    made = {
        "damnatio": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()} x {os.cpu_count()}",
        "command": " ".join(["damnatio", *sys.argv[1:]]),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 3),
    }
    return json.dumps({"key": key, **wanted, "made": made}, indent=1, default=str) + "\n"
