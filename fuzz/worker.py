"""The process that reads: its memory is bounded, and an audit hook watches its actions."""

import faulthandler
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from damnatio.faces.base import UnreadableError
from damnatio.support.errors import DamnatioError
from fuzz.readers.base import Reader
from fuzz.structures import CANARY

ALLOWANCE = 1 << 30
"""bytes that the reading of one small file may allocate, above those of the process at its start"""
ACCEPTED, REFUSED = "accepted", "refused"
TRACEBACK, CRASH, HANG, EXECUTION, BLOW_UP = FINDINGS = ("traceback", "crash", "hang", "execution", "blow-up")
NO_MEMORY = ("can't allocate memory", "bad_alloc", "bad allocation", "malloc of size", "failed to allocate memory")
"""the words of libraries for a MemoryError"""


class Outcome(NamedTuple):
    """The outcome of reading one file; findings of one cause have the same `place`, `text` is for people."""

    kind: str
    place: str = ""
    text: str = ""


def input_of(reader: Reader, seeds: list[bytes], seed: int) -> bytes:
    """The content of the file that this seed makes."""
    return reader.mutate(Random(f"{reader.name}:{seed}"), seeds)


def outcome_of(read: Callable[[Path], object], path: Path, deeds: list[str]) -> Outcome:
    """Read the file; the audit hook adds forbidden actions to `deeds`."""
    deeds.clear()
    error: BaseException | None = None
    try:
        read(path)
    except (Exception, SystemExit) as raised:
        error = raised
    if Path(CANARY).exists() or deeds:
        Path(CANARY).unlink(missing_ok=True)
        return Outcome(EXECUTION, " ".join(deeds[:1]), "; ".join(deeds) or "the canary was made")
    if error is None:
        return Outcome(ACCEPTED)
    if any(_is_memory(cause) for cause in _causes(error)):
        return Outcome(BLOW_UP, _place(error), _described(error))
    if isinstance(error, DamnatioError | UnreadableError):
        return Outcome(REFUSED, "", str(error))
    return Outcome(TRACEBACK, _place(error), _described(error))


def _causes(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _is_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError | ValueError):  # pydantic's ValueError would write out its input, however long
        return isinstance(error, MemoryError)
    return any(words in str(error).lower() for words in NO_MEMORY)


def _place(error: BaseException) -> str:
    """The last line of ours on the way to the exception, and its class."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}damnatio{os.sep}" in frame.filename] or list(frames)
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    return f"{type(error).__name__} at {where}"


def _described(error: BaseException) -> str:
    lines = "".join(traceback.format_exception(error, limit=-12))
    return lines if len(lines) < 6000 else f"{lines[:3000]}\n...\n{lines[-3000:]}"


# --- the process -----------------------------------------------------------------------------------------------------


LOG, CURRENT = "log", "current"
"""files in the folder of the campaign: the messages of the libraries, and the current input"""


def work(channel: Connection, readers: dict[str, Reader], seeds: dict[str, list[bytes]], campaign: Path) -> None:
    """Answers (reader, seed or content) with an outcome, until the other side is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the campaign ends its worker itself
    output = (campaign / LOG).open("ab", buffering=0)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)  # decoders write their messages there
    faulthandler.enable(output)
    faulthandler.register(signal.SIGUSR1, output)
    deeds: list[str] = []
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        os.chdir(place)
        tempfile.tempdir = place  # a reader may write only here
        sys.addaudithook(_hook(deeds, place))
        _bound_memory()
        current = (campaign / CURRENT).resolve()
        while True:
            try:
                name, what = channel.recv()
            except EOFError:
                return
            reader = readers[name]
            content = what if isinstance(what, bytes) else input_of(reader, seeds[name], what)
            current.write_bytes(content)
            with tempfile.TemporaryDirectory(dir=place) as folder:
                path = Path(folder, f"input{reader.ending}")
                path.write_bytes(content)
                channel.send(outcome_of(reader.read, path, deeds))


def _bound_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ALLOWANCE, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


FORBIDDEN = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "socket.connect")
FORBIDDEN_TOO = ("pickle.find_class", "pty.spawn", "os.symlink", "os.link", "os.kill")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _hook(deeds: list[str], folder: str) -> Callable[[str, tuple[Any, ...]], None]:
    """Notes programs started, classes unpickled, connections opened, and files written outside the folder."""
    forbidden = {*FORBIDDEN, *FORBIDDEN_TOO}

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in forbidden:
            deeds.append(f"{event} {' '.join(str(argument)[:80] for argument in arguments)}")
        elif event == "open" and isinstance(arguments[0], str | bytes) and isinstance(arguments[2], int):
            path = os.path.abspath(os.fsdecode(arguments[0]))
            if arguments[2] & WRITING and not path.startswith((folder, "/dev/")):
                deeds.append(f"open {path} to write")

    return hook
