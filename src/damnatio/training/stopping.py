"""A signal asks a training to stop: it saves a checkpoint after the present step and ends, on all processes together.

Slurm sends such a signal before it takes the machines of a job away. The next call goes on from the checkpoint.
"""

import signal
from collections.abc import Iterable
from types import FrameType

from damnatio.support.errors import DamnatioError

_asked: list[int] = []


class Stopped(DamnatioError):  # noqa: N818 - no error: the work goes on at the next call
    """The training was asked to stop, and saved a checkpoint."""

    code = 143  # as of a process that SIGTERM ended


def install(signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGUSR2)) -> None:
    """From now on these signals ask to stop, instead of ending the process at once."""
    for each in signals:
        signal.signal(each, _ask)


def _ask(number: int, frame: FrameType | None) -> None:
    _asked.append(number)


def request_stop() -> None:
    """Ask to stop, as a signal does."""
    _asked.append(0)


def stop_requested() -> bool:
    """Whether this process was asked to stop."""
    return bool(_asked)


def forget_request() -> None:
    """Take the request back: the next training in this process is not stopped by it."""
    _asked.clear()
