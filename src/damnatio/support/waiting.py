"""How the threads of OpenMP wait for each other, which they do after every operation.

By default they spin for a few milliseconds. On a machine with a core for each of them that is the quickest way; where
another process takes one of the cores they wait for a thread that does not even run, and all is several times slower.
Threads that sleep are slower on the first machine and quicker on the second.
"""

import os
import time
from collections.abc import Callable, MutableMapping
from pathlib import Path

POLICY, SLEEP = "OMP_WAIT_POLICY", "PASSIVE"
LOOKS, PAUSE = 5, 0.001
"""how often it is looked who runs, and the seconds between: a process that computes runs each time"""


def choose_waiting(
    environment: MutableMapping[str, str] = os.environ, running: Callable[[], int] | None = None, cores: int = 0
) -> None:
    """Let the threads sleep while they wait, unless there is a core for each of them now. OpenMP reads it when torch is
    loaded. What the user has set stays."""
    if POLICY in environment:
        return
    cores = cores or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    own = environment.get("OMP_NUM_THREADS", "")
    threads = int(own) if own.isdecimal() else cores
    try:
        others = min(_looks(running or _running)) - 1
    except (OSError, ValueError, IndexError):  # only Linux says it
        others = cores
    if others + threads > cores:
        environment[POLICY] = SLEEP


def _looks(running: Callable[[], int]) -> list[int]:
    seen = [running()]
    while len(seen) < LOOKS and seen[-1] > 1:
        time.sleep(PAUSE)
        seen.append(running())
    return seen


def _running() -> int:
    """The threads of this machine that run now or wait for a core, this one among them."""
    return int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])
