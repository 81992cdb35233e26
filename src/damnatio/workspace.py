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

Several processes may work in one folder, on one machine or on several that share a file system. Whoever builds an
output holds its lock (`support/locks.py` says how it holds); who needs the same output waits, and reuses it. Processes
that torchrun started together are one: the main process holds the lock, writes and prints.

The manifest of a finished output holds the hash of each file. Every reader gets a file's path from `checked`, which
refuses a file that was damaged, edited or swapped since.
"""

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from damnatio import __version__
from damnatio.support import processes
from damnatio.support.errors import DamnatioError
from damnatio.support.files import content_key, digest_of, write_atomically
from damnatio.support.locks import Holder, Lock, look_anew
from damnatio.support.manifests import CACHES, CHECKPOINTS, COSTS, LOG, MANIFEST, PIECES, manifest_of, section_of

LOCKS = ".locks"
ALONE = "run"
"""the lock of who wants the whole folder"""
VISIBLE = 120.0
"""seconds in which a file that the main process wrote is seen by every machine of the group"""
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
        return content_key({name: file["sha256"] for name, file in files if not name.endswith((LOG, *CACHES, *COSTS))})


class Absent(Output):
    """An output that could not be made, or is not there yet. What needs it is not made either."""

    @property
    def manifest(self) -> dict[str, Any]:
        raise DamnatioError(f"{self.path} is not finished.")


@dataclass(frozen=True)
class Wanted:
    """An output that is asked for: what it is made from, and so where it lies."""

    stage: str
    name: str
    settings: Mapping[str, Any]
    inputs: Mapping[str, Output]
    code: Mapping[str, str]
    """the digest of each module that makes it"""

    @cached_property
    def content(self) -> dict[str, Any]:
        """What the key is the hash of."""
        return {
            "format": FORMAT,
            "stage": self.stage,
            "settings": dict(self.settings),
            "inputs": {name: output.content for name, output in self.inputs.items()},
            "code": dict(self.code),
        }

    @cached_property
    def key(self) -> str:
        return content_key(self.content)

    def place(self, folder: Path) -> Path:
        """Its folder in a run's folder."""
        return folder / self.stage / f"{self.name}-{self.key[:8]}"

    def find(self, folder: Path) -> Output | None:
        """The output, if it is in a run's folder."""
        place = self.place(folder)
        return Output(place, self.key) if _key_of(place) == self.key else None


class Left(Enum):
    """What is left to do for an output."""

    NOTHING = "nothing"
    RENAME = "rename"
    BUILD = "build"


class Workspace:
    """The folder of one run. With `alone`, no second process may ask for the same folder alone."""

    def __init__(self, folder: Path, say: Callable[[str], None] = print, *, alone: bool = False) -> None:
        self.folder = folder
        self.say = say if processes.is_main() else _nothing
        self._made = [path for path in (folder, *folder.parents) if not os.path.exists(path)]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DamnatioError(f"The run's folder {folder} cannot be used: {error.strerror}. Name another.") from error
        self._alone = Lock(folder / LOCKS / ALONE) if alone else None
        other = processes.from_main(self._alone.try_to_take) if self._alone else None
        if other is not None:
            raise DamnatioError(
                f"Another process is working in {folder}: {other}. Wait for it, or name another folder."
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the folder. A folder that this call made is deleted if it is empty."""
        if self._alone:
            self._alone.release()
        with suppress(OSError):  # others may be at work
            if (self.folder / LOCKS).exists():
                (self.folder / LOCKS).rmdir()
            for path in self._made:
                path.rmdir()

    @contextmanager
    def holding(self, what: str, title: str = "") -> Iterator[Lock]:
        """Hold the lock of an output. Whoever has to wait says for whom. Of a group, the main process holds it."""
        lock = Lock(self.folder / LOCKS / what)

        def waiting(holder: Holder) -> None:
            self.say(f"{title or what} is being made by {holder}: waiting for it")

        processes.from_main(lambda: lock.take(waiting))
        try:
            yield lock
        except KeyboardInterrupt:
            if lock.lost:
                raise _taken_over(what) from None
            raise
        finally:
            lock.release()

    def stage(
        self,
        stage: str,
        name: str,
        settings: Mapping[str, Any],
        inputs: Mapping[str, Output],
        build: Callable[[Path], None],
        code: Mapping[str, str] | None = None,
        *,
        shared: bool = False,
    ) -> Output:
        """The output of `build` for these settings, inputs and code: the output on disk, or else a new one.

        `build` writes into a folder that may hold files of an interrupted call. `code` holds the digest of each module
        that `build` reaches. Of several processes, all run a `shared` build, each its share, and the main process runs
        any other while the rest wait.
        """
        wanted = Wanted(stage, name, settings, inputs, code or {})
        key, final = processes.from_main(lambda: (wanted.key, wanted.place(self.folder)))
        title = f"{stage:<13} {name:<12}"
        if processes.from_main(lambda: _key_of(final) == key):  # without a lock: a whole output stays as it is
            self.say(f"{title} reused   {final}")
            return self._seen(Output(final, key))
        with self.holding(f"{stage}.{final.name}", title) as lock:
            partial = final.with_name(f".partial-{final.name}")
            left = processes.from_main(lambda: self._left(final, partial, key))
            if left is Left.NOTHING:  # another process made it while this one waited
                self.say(f"{title} reused   {final}")
                return self._seen(Output(final, key))
            if processes.is_main() and (difference := self._difference(wanted)):
                self.say(f"{title} new      unlike the last one: {difference}")
            started = time.monotonic()
            if left is Left.BUILD:
                try:
                    build(partial) if shared else processes.from_main(lambda: build(partial))
                except BaseException:
                    if processes.is_main():
                        with suppress(OSError):  # a folder that holds something stays
                            partial.rmdir()
                            partial.parent.rmdir()
                    raise
                processes.wait()
                processes.from_main(lambda: _finish(partial, wanted.content, key, time.monotonic() - started))
            processes.from_main(lambda: _move(partial, final, lock))
        self.say(f"{title} {time.monotonic() - started:6.1f} s {final}")
        return self._seen(Output(final, key))

    def _left(self, final: Path, partial: Path, key: str) -> Left:
        """What is left to do for an output whose lock is held."""
        final.parent.mkdir(parents=True, exist_ok=True)
        look_anew(final.parent)  # another machine may have finished it a moment ago
        if _key_of(final) == key:
            return Left.NOTHING
        partial.mkdir(parents=True, exist_ok=True)
        if _key_of(partial) == key:
            return Left.RENAME
        (partial / MANIFEST).unlink(missing_ok=True)
        return Left.BUILD

    def _seen(self, output: Output) -> Output:
        """An output of the main process, once this process sees it: other machines learn of it after a moment."""
        until = time.monotonic() + VISIBLE
        while not processes.is_main() and _key_of(output.path) != output.key and time.monotonic() < until:
            look_anew(output.path.parent)
            time.sleep(0.1)
        return output

    def finished(self, stage: str) -> list[tuple[str, dict[str, Any]]]:
        """The name and the manifest of each output of a stage that is on disk."""
        found = [(path.name, manifest_of(path)) for path in sorted((self.folder / stage).glob("[!.]*"))]
        return [(name.removesuffix(f"-{manifest['key'][:8]}"), manifest) for name, manifest in found if manifest]

    def _difference(self, wanted: Wanted) -> str:
        """What is not as it was for the last output of this name; empty if there is none."""
        others = [manifest for known, manifest in self.finished(wanted.stage) if known == wanted.name]
        if not others:
            return ""
        last = max(others, key=lambda manifest: str(section_of(manifest, "made").get("finished")))
        changed = []
        for section in ("settings", "inputs", "code"):
            old, new = section_of(last, section), json.loads(json.dumps(wanted.content[section], default=str))
            changes = [entry for entry in {**old, **new} if old.get(entry) != new.get(entry)]
            if changes:
                listed = ", ".join(changes[:3]) + (f" and {len(changes) - 3} more" if len(changes) > 3 else "")
                changed.append(f"{section} {listed}")
        return "; ".join(changed)

    def publish(
        self,
        name: str,
        settings: Mapping[str, Any],
        inputs: Mapping[str, Output],
        build: Callable[[Path], None],
        code: Mapping[str, str] | None = None,
    ) -> Path:
        """A folder of a fixed name, for people. It is rebuilt whole when its inputs changed, and swapped in at once.
        The caller holds the lock of that name from when it gathered the inputs: so the last one publishes the most."""
        wanted = Wanted(name, "", settings, inputs, code or {})
        key, final = wanted.key, self.folder / name
        if processes.from_main(lambda: _key_of(final) == key):
            self.say(f"{name:<13} {'':<12} reused   {final}")
            return final
        started = time.monotonic()
        processes.from_main(lambda: self._publish(name, wanted.content, key, build))
        self.say(f"{name:<13} {'':<12} {time.monotonic() - started:6.1f} s {final}")
        return final

    def _publish(self, name: str, wanted: Mapping[str, Any], key: str, build: Callable[[Path], None]) -> None:
        final, fresh, old = (self.folder / f"{prefix}{name}" for prefix in ("", ".partial-", ".old-"))
        started = time.monotonic()
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh.mkdir()
        try:
            build(fresh)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        _finish(fresh, wanted, key, time.monotonic() - started)
        if final.exists():
            final.rename(old)
        fresh.rename(final)
        shutil.rmtree(old, ignore_errors=True)


def made_here() -> dict[str, str]:
    """What a manifest says of the machine."""
    return {"machine": f"{platform.machine()} x {os.cpu_count()}", "device": _gpu()}


def _gpu() -> str:
    """The GPU that torch computes on; empty without one, or where torch was not needed."""
    torch = sys.modules.get("torch")
    return str(torch.cuda.get_device_name()) if torch is not None and torch.cuda.is_available() else ""


def _nothing(line: str) -> None:
    pass


def _taken_over(what: str) -> DamnatioError:
    return DamnatioError(
        f"Another process took {what} over, because this one gave no sign of life for minutes. Run the same command "
        "again: it waits for the other."
    )


def _move(partial: Path, final: Path, lock: Lock) -> None:
    """Make a whole output one that is used. Who was taken for dead meanwhile, and lost its lock, has no say."""
    if not lock.held:
        raise _taken_over(final.name)
    for name in CHECKPOINTS:
        (partial / name).unlink(missing_ok=True)
    shutil.rmtree(partial / PIECES, ignore_errors=True)
    if final.exists():  # it has no manifest of this key, so it is no finished output
        shutil.rmtree(final)
    partial.rename(final)


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
        **{package: version(package) for package in ("torch", "numpy")},
        **made_here(),
        "processes": processes.size(),
        "command": " ".join(["damnatio", *sys.argv[1:]]),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 3),
    }
    content = {"key": key, **wanted, "files": files, "made": made}
    write_atomically(folder / MANIFEST, json.dumps(content, indent=1, default=str) + "\n")
