"""Several processes on one machine for one command, as `torchrun` starts them: `damnatio run RECIPE --processes N`.

Each process is the same command with RANK, WORLD_SIZE and so on in its environment. If one ends in an error, the others
cannot go on, and are ended. If the one that starts them is killed, they end with it.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from damnatio.running.failures import LAUNCH
from damnatio.support.processes import STORE
from damnatio.support.workers import cores, die_with_parent

AGAIN = 75
"""the exit code of a process that asks for another start: a branch failed, and the rest can go on without it"""
PARENT = "DAMNATIO_PARENT"
GRACE = 10.0
"""seconds in which the others may end by themselves"""
DAMNATIO = (sys.executable, "-m", "damnatio")


def launch(
    processes: int, arguments: Sequence[str], say: Callable[[str], None], program: Sequence[str] = DAMNATIO
) -> int:
    """Run `damnatio` with these arguments in so many processes; the exit code."""
    name = {LAUNCH: uuid.uuid4().hex[:16]}
    with tempfile.TemporaryDirectory() as folder:
        while (code := _launch_once(processes, [*program, *arguments], name, Path(folder) / uuid.uuid4().hex)) == AGAIN:
            say("the processes start anew, for the rest of the recipe")
    return code


def _launch_once(count: int, command: Sequence[str], name: Mapping[str, str], store: Path) -> int:
    """`store` is a new file, where the processes find each other: a port could be taken before they listen on it."""
    common = {**os.environ, **name, **threads_of(count), **own_child(), STORE: str(store)}
    common |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    running = [subprocess.Popen(command, env={**common, **rank}) for rank in ranks]
    try:
        while all(process.poll() is None for process in running):
            time.sleep(0.1)
        codes = _ended(running)
    except BaseException:  # Ctrl-C reaches the processes too
        _ended(running)
        raise
    wrong = [code for code in codes if code]
    if AGAIN in wrong:
        return AGAIN
    return next((code if code > 0 else 128 - code for code in wrong), 0)


def _ended(running: Sequence["subprocess.Popen[bytes]"]) -> list[int]:
    """Wait for processes of which one has ended. If it ended well, so will the others; else they get a moment."""
    first = next((process.returncode for process in running if process.returncode is not None), 1)
    until = time.monotonic() + (float("inf") if first == 0 else GRACE)
    while any(process.poll() is None for process in running) and time.monotonic() < until:
        if any(process.returncode for process in running):
            until = min(until, time.monotonic() + GRACE)
        time.sleep(0.1)
    codes = [process.poll() for process in running]
    for process in running:
        if process.returncode is None:
            process.kill()
            process.wait()
    return [0 if code is None else code for code in codes]  # who had to be ended did nothing wrong


def own_child() -> dict[str, str]:
    """What a process finds in its environment that must end with this one."""
    return {PARENT: str(os.getpid())}


def end_with_parent() -> None:
    """End when the process ends that started this one, if that was torchrun or one of ours. Only Linux can do that."""
    parent = os.environ.pop(PARENT, "")
    if sys.platform != "linux" or not (parent or "TORCHELASTIC_RUN_ID" in os.environ):
        return
    die_with_parent()
    if parent and os.getppid() != int(parent):  # it ended already
        sys.exit(128 + signal.SIGKILL)


def threads_of(count: int) -> dict[str, str]:
    """The share of a process in the cores, if nobody has said how many threads it takes."""
    if "OMP_NUM_THREADS" in os.environ:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, cores() // count))}
