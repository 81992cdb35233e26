"""What failed, in the run's folder, until it is made after all: `.failed/<node>.json`."""

import json
import os
import platform
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from damnatio.support.errors import DamnatioError
from damnatio.support.files import write_atomically

FOLDER = ".failed"
LAUNCH = "DAMNATIO_LAUNCH"
"""the environment's name for one call with several processes, which may start them more than once"""


@dataclass(frozen=True)
class Failure:
    """Why a node could not be made."""

    node: str
    title: str
    error: str
    """the last line of the error"""
    when: str = ""
    host: str = ""
    pid: int = 0
    launch: str = ""
    trace: str = ""


def record(folder: Path, node: str, title: str, error: BaseException) -> Failure:
    """Write down that a node failed. A disk that is full keeps no record, and the run goes on."""
    failure = Failure(
        node=node,
        title=title,
        error=last_line(error),
        when=time.strftime("%Y-%m-%d %H:%M:%S"),
        host=platform.node(),
        pid=os.getpid(),
        launch=os.environ.get(LAUNCH, ""),
        trace="".join(traceback.format_exception(error)),
    )
    with suppress(OSError):
        (folder / FOLDER).mkdir(exist_ok=True)
        write_atomically(folder / FOLDER / f"{node}.json", json.dumps(asdict(failure), indent=1) + "\n")
    return failure


def clear(folder: Path, node: str) -> None:
    """The node is made, or tried again."""
    with suppress(OSError):
        (folder / FOLDER / f"{node}.json").unlink()
        (folder / FOLDER).rmdir()


def failures(folder: Path) -> dict[str, Failure]:
    """What failed and was not made since, by node. A file that cannot be read is passed over."""
    found = {}
    for path in sorted((folder / FOLDER).glob("[!.]*.json")):
        with suppress(OSError, ValueError, TypeError):
            failure = Failure(**json.loads(path.read_bytes()))
            found[failure.node] = failure
    return found


def all_of(errors: Mapping[str, str]) -> DamnatioError:
    """One error that lists those of several parts."""
    listed = "; ".join(f"{part}: {error}" for part, error in errors.items())
    parts = "1 part" if len(errors) == 1 else f"{len(errors)} parts"
    return DamnatioError(f"{parts} failed, and the rest is done. The same command tries again. {listed}")


def last_line(error: BaseException) -> str:
    """The last line of an error, as a person looks for it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
