"""A run's folder: one numbered folder a stage, each output keyed by the content of what went in.

    runs/demo/
      1-faces/synthetic-5f2c9a10/       faces.parquet, pixels.npy, stage.json
      2-captures/all-0b7e44d1/          ...
      report/                           what the last call computed, for people

An output's key is a hash of the stage's version, its settings and the keys of its inputs. So nothing is computed
twice, nothing stale is read, and a changed setting makes a new output beside the old one. An output is built in a
`.partial-` folder and renamed when it is whole: what lies under a stage's folder is complete, and what was
interrupted goes on where it stopped.

A finished output names the hash of each of its files. Whoever reads one asks for its path by `checked`, so that a file
that was damaged, edited or swapped since is refused and never measured.
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from damnatio import __version__
from damnatio.errors import DamnatioError
from damnatio.progress import progress

MANIFEST, CHECKPOINT, LOCK = "stage.json", "checkpoint.safetensors", ".lock"
FORMAT = 2
"""of the manifest; part of every key, so that outputs of an older format stay where they are and are never read"""
LOG = ".jsonl"
"""the ending of files that say how a result was reached: hashed, and no part of an output's content"""
LONG, PIECE = 1 << 28, 1 << 20
"""bytes from which on hashing shows its progress, and bytes hashed at once"""
YOUNG = 50_000_000
"""nanoseconds in which a file may change twice and bear one time: the hash of so young a file is not remembered"""


@dataclass(frozen=True)
class Output:
    """A complete output of a stage."""

    path: Path
    key: str

    @property
    def manifest(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.path / MANIFEST).read_bytes())  # as `checked` reads it
        return content

    @property
    def content(self) -> str:
        """A hash of what the output holds, from its manifest: equal for equal results, however they were reached."""
        return content_key({name: f["sha256"] for name, f in self.manifest["files"].items() if not name.endswith(LOG)})


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


def checked(path: Path) -> Path:
    """The path, of a file to be read: one that belongs to the output of a stage must be as the stage wrote it. Files
    that no manifest lies beside, and files beside those of a stage, are nobody's and pass."""
    manifest_file = path.parent / MANIFEST
    try:
        manifest = json.loads(manifest_file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (ValueError, RecursionError):
        raise _refused(f"{manifest_file} is damaged, and it has to vouch for {path.name}", path) from None
    if not (isinstance(manifest, dict) and {"key", "stage"} <= manifest.keys()):
        return path  # of another program
    files = _files_of(manifest)
    if files is None:
        raise _refused(f"Nothing vouches for {path}: {manifest_file} has no hashes, as in older versions", path)
    if path.name not in files:
        return path
    if not path.is_file():
        raise _refused(f"{path} is gone", path)
    wanted = files[path.name]
    if path.stat().st_size != wanted["bytes"] or digest_of(path) != wanted["sha256"]:
        raise _refused(f"{path} is not what its stage wrote: it was damaged, edited or swapped", path)
    return path


def _refused(fault: str, path: Path) -> DamnatioError:
    return DamnatioError(
        f"{fault}. Delete the folder {path.parent} and run the recipe again: it will be made anew. (A copy of the "
        f"folder can be used as it is once its {MANIFEST} is deleted.)"
    )


def _files_of(manifest: Any) -> dict[str, dict[str, Any]] | None:
    """The size and hash of each file of an output; None where a manifest does not have them."""
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        return None
    sound = all(isinstance(file, dict) and {"sha256", "bytes"} <= file.keys() for file in files.values())
    return files if sound else None


class Workspace:
    """The folder of one run, held by one process at a time."""

    def __init__(self, folder: Path, say: Callable[[str], None] = print) -> None:
        self.folder = folder
        self.say = say
        self._made = [path for path in (folder / LOCK, folder, *folder.parents) if not os.path.exists(path)]
        self._lock = self._locked()

    def _locked(self) -> IO[str]:
        """The lock, held. A process that leaves nothing behind deletes its lock, which another may just have opened:
        that one is no lock any more."""
        path = self.folder / LOCK
        while True:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                lock = path.open("a+")
            except OSError as error:
                raise DamnatioError(
                    f"The run's folder {self.folder} cannot be used: {error.strerror}. Name another."
                ) from error
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                raise DamnatioError(
                    f"Another process is working in {self.folder}: wait for it, or name another folder with --run."
                ) from None
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(lock.fileno())):
                    return lock
            lock.close()

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the folder; one that this call made and that holds nothing goes away again."""
        with suppress(OSError):
            if os.listdir(self.folder) == [LOCK]:
                for path in self._made:
                    path.rmdir() if path.is_dir() else path.unlink()
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
        wanted, key, final = self._place(stage, label, settings, inputs, version)
        if _key_of(final) == key:
            self.say(f"{stage:<13} {label:<12} reused   {final}")
            return Output(final, key)
        partial = final.with_name(f".partial-{final.name}")
        partial.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        if _key_of(partial) != key:  # else nothing but the renaming is left to do
            (partial / MANIFEST).unlink(missing_ok=True)
            try:
                build(partial)
            except BaseException:
                with suppress(OSError):  # of a folder that holds something
                    partial.rmdir()
                    partial.parent.rmdir()
                raise
            _finish(partial, wanted, key, time.monotonic() - started)
        (partial / CHECKPOINT).unlink(missing_ok=True)
        if final.exists():  # without a manifest it is nobody's output
            shutil.rmtree(final)
        partial.rename(final)
        self.say(f"{stage:<13} {label:<12} {time.monotonic() - started:6.1f} s {final}")
        return Output(final, key)

    def find(
        self, stage: str, label: str, settings: Mapping[str, Any], inputs: Mapping[str, Output], version: int = 1
    ) -> Output | None:
        """The output for these settings and inputs if it is on disk."""
        _, key, final = self._place(stage, label, settings, inputs, version)
        return Output(final, key) if _key_of(final) == key else None

    def finished(self, stage: str) -> list[tuple[str, dict[str, Any]]]:
        """The label and the manifest of each output of a stage that is on disk."""
        found = [(path.name, manifest_of(path)) for path in sorted((self.folder / stage).glob("[!.]*"))]
        return [(name.removesuffix(f"-{manifest['key'][:8]}"), manifest) for name, manifest in found if manifest]

    def _place(
        self, stage: str, label: str, settings: Mapping[str, Any], inputs: Mapping[str, Output], version: int
    ) -> tuple[dict[str, Any], str, Path]:
        """What an output is the result of, the key of that, and where the output lies."""
        wanted = {"version": version, **_wanted(stage, settings, inputs)}
        key = content_key(wanted)
        return wanted, key, self.folder / stage / f"{label}-{key[:8]}"

    def publish(
        self, name: str, settings: Mapping[str, Any], inputs: Mapping[str, Output], build: Callable[[Path], None]
    ) -> Path:
        """A folder of a fixed name for people: rebuilt whole when its inputs changed, swapped in at once."""
        wanted = _wanted(name, settings, inputs)
        key, final = content_key(wanted), self.folder / name
        if _key_of(final) == key:
            self.say(f"{name:<13} {'':<12} reused   {final}")
            return final
        started = time.monotonic()
        fresh, old = self.folder / f".partial-{name}", self.folder / f".old-{name}"
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh.mkdir()
        try:
            build(fresh)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        seconds = time.monotonic() - started
        _finish(fresh, wanted, key, seconds)
        if final.exists():
            final.rename(old)
        fresh.rename(final)
        shutil.rmtree(old, ignore_errors=True)
        self.say(f"{name:<13} {'':<12} {seconds:6.1f} s {final}")
        return final


def _wanted(stage: str, settings: Mapping[str, Any], inputs: Mapping[str, Output]) -> dict[str, Any]:
    """What the key of an output is the hash of."""
    return {
        "format": FORMAT,
        "stage": stage,
        "settings": dict(settings),
        "inputs": {name: output.key for name, output in inputs.items()},
    }


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of the output in a folder; empty where there is no whole output."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return {} if _files_of(manifest) is None else manifest


def _key_of(folder: Path) -> str | None:
    key: str | None = manifest_of(folder).get("key")
    return key


def _finish(folder: Path, wanted: Mapping[str, Any], key: str, seconds: float) -> None:
    """Write the manifest of an output that is whole: from then on its files are known by their hashes."""
    for leftover in folder.glob(".*.tmp"):  # of a write that was killed
        leftover.unlink()
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": digest_of(path)}
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name != CHECKPOINT
    }
    made = {
        "damnatio": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()} x {os.cpu_count()}",
        "command": " ".join(["damnatio", *sys.argv[1:]]),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 3),
    }
    content = {"key": key, **wanted, "files": files, "made": made}
    write_atomically(folder / MANIFEST, json.dumps(content, indent=1, default=str) + "\n")
