"""A run's folder: one numbered folder per stage; the key of each output depends on the content of its inputs.

    runs/demo/
      1-faces/synthetic-5f2c9a10/       faces.parquet, pixels.npy, stage.json
      2-captures/all-0b7e44d1/          ...
      report/                           the results of the last call, for people

An output's key is a hash of the stage's settings, of the code that makes the output, and of the content of its inputs.
So nothing is computed twice, nothing stale is read, and a changed setting makes a new output beside the old one. If an
output is made again and comes out equal, the stages after it see the same content and are not made again.

An output is built in a `.partial-` folder and renamed when it is whole. So every output under a stage's folder is
complete, and an interrupted build goes on where it stopped.

The manifest of a finished output holds the hash of each file. Every reader gets a file's path from `checked`, which
refuses a file that was damaged, edited or swapped since.
"""

import fcntl
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from damnatio import __version__
from damnatio.support.errors import DamnatioError
from damnatio.support.files import content_key, digest_of, write_atomically
from damnatio.support.manifests import CACHES, CHECKPOINTS, LOG, MANIFEST, manifest_of, section_of

LOCK = ".lock"
FORMAT = 3
"""The format of the manifest. Every key depends on it, so outputs of an older format stay, and are never read."""


@dataclass(frozen=True)
class Output:
    """A complete output of a stage."""

    path: Path
    key: str

    @property
    def manifest(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.path / MANIFEST).read_bytes())  # as `checked` reads it
        return content

    @cached_property
    def content(self) -> str:
        """A hash of the output's files, from its manifest. Equal results have equal hashes, however they were made."""
        files = self.manifest["files"].items()
        return content_key({name: file["sha256"] for name, file in files if not name.endswith((LOG, *CACHES))})


class Workspace:
    """The folder of one run, held by one process at a time."""

    def __init__(self, folder: Path, say: Callable[[str], None] = print) -> None:
        self.folder = folder
        self.say = say
        self._made = [path for path in (folder / LOCK, folder, *folder.parents) if not os.path.exists(path)]
        self._lock = self._locked()

    def _locked(self) -> IO[str]:
        """Take the lock and return it. A process that leaves nothing behind deletes its lock. If this process had just
        opened that file, it holds no lock and tries again."""
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
                    f"Another process is working in {self.folder}: wait for it, or name another folder."
                ) from None
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(lock.fileno())):
                    return lock
            lock.close()

    def __enter__(self) -> "Workspace":
        return self

    def __exit__(self, *_: object) -> None:
        """Release the folder. A folder that this call made is deleted if it is empty."""
        with suppress(OSError):
            if os.listdir(self.folder) == [LOCK]:
                for path in self._made:
                    path.rmdir() if path.is_dir() else path.unlink()
        self._lock.close()

    def stage(
        self,
        stage: str,
        name: str,
        settings: Mapping[str, Any],
        inputs: Mapping[str, Output],
        build: Callable[[Path], None],
        code: Mapping[str, str] | None = None,
    ) -> Output:
        """The output of `build` for these settings, inputs and code: the output on disk, or else a new one.

        `build` writes into a folder that may hold files of an interrupted call. `code` holds the digest of each module
        that `build` reaches.
        """
        wanted, key, final = self._place(stage, name, settings, inputs, code)
        if _key_of(final) == key:
            self.say(f"{stage:<13} {name:<12} reused   {final}")
            return Output(final, key)
        if reason := self._reason(stage, name, wanted):
            self.say(f"{stage:<13} {name:<12} made again: {reason}")
        partial = final.with_name(f".partial-{final.name}")
        partial.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        if _key_of(partial) != key:  # otherwise only the renaming is left to do
            (partial / MANIFEST).unlink(missing_ok=True)
            try:
                build(partial)
            except BaseException:
                with suppress(OSError):  # a folder that holds something stays
                    partial.rmdir()
                    partial.parent.rmdir()
                raise
            _finish(partial, wanted, key, time.monotonic() - started)
        for name in CHECKPOINTS:
            (partial / name).unlink(missing_ok=True)
        if final.exists():  # it has no manifest of this key, so it is no finished output
            shutil.rmtree(final)
        partial.rename(final)
        self.say(f"{stage:<13} {name:<12} {time.monotonic() - started:6.1f} s {final}")
        return Output(final, key)

    def find(
        self,
        stage: str,
        name: str,
        settings: Mapping[str, Any],
        inputs: Mapping[str, Output],
        code: Mapping[str, str] | None = None,
    ) -> Output | None:
        """The output for these settings, inputs and code, if it is on disk."""
        _, key, final = self._place(stage, name, settings, inputs, code)
        return Output(final, key) if _key_of(final) == key else None

    def finished(self, stage: str) -> list[tuple[str, dict[str, Any]]]:
        """The name and the manifest of each output of a stage that is on disk."""
        found = [(path.name, manifest_of(path)) for path in sorted((self.folder / stage).glob("[!.]*"))]
        return [(name.removesuffix(f"-{manifest['key'][:8]}"), manifest) for name, manifest in found if manifest]

    def _reason(self, stage: str, name: str, wanted: Mapping[str, Any]) -> str:
        """Why the last output of this name cannot be reused; empty if there is none."""
        others = [manifest for known, manifest in self.finished(stage) if known == name]
        if not others:
            return ""
        last = max(others, key=lambda manifest: str(section_of(manifest, "made").get("finished")))
        changed = []
        for section in ("settings", "inputs", "code"):
            old, new = section_of(last, section), json.loads(json.dumps(wanted[section], default=str))
            changes = [entry for entry in {**old, **new} if old.get(entry) != new.get(entry)]
            if changes:
                listed = ", ".join(changes[:3]) + (f" and {len(changes) - 3} more" if len(changes) > 3 else "")
                changed.append(f"{section} {listed}")
        return f"{'; '.join(changed)} changed" if changed else ""

    def _place(
        self,
        stage: str,
        name: str,
        settings: Mapping[str, Any],
        inputs: Mapping[str, Output],
        code: Mapping[str, str] | None,
    ) -> tuple[dict[str, Any], str, Path]:
        """The content of an output's key, the key itself, and the output's folder."""
        wanted = _wanted(stage, settings, inputs, code)
        key = content_key(wanted)
        return wanted, key, self.folder / stage / f"{name}-{key[:8]}"

    def publish(
        self,
        name: str,
        settings: Mapping[str, Any],
        inputs: Mapping[str, Output],
        build: Callable[[Path], None],
        code: Mapping[str, str] | None = None,
    ) -> Path:
        """A folder of a fixed name, for people. It is rebuilt whole when its inputs changed, and swapped in at once."""
        wanted = _wanted(name, settings, inputs, code)
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


def _wanted(
    stage: str, settings: Mapping[str, Any], inputs: Mapping[str, Output], code: Mapping[str, str] | None
) -> dict[str, Any]:
    """The content of an output's key."""
    return {
        "format": FORMAT,
        "stage": stage,
        "settings": dict(settings),
        "inputs": {name: output.content for name, output in inputs.items()},
        "code": dict(code or {}),
    }


def _key_of(folder: Path) -> str | None:
    key: str | None = manifest_of(folder).get("key")
    return key


def _finish(folder: Path, wanted: Mapping[str, Any], key: str, seconds: float) -> None:
    """Write the manifest of a whole output, with the hash of each file."""
    for leftover in folder.glob(".*.tmp"):  # from a write that was killed
        leftover.unlink()
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": digest_of(path)}
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name not in CHECKPOINTS
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
