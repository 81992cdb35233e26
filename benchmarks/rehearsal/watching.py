"""Runs a command in a process of its own, and watches its time on the clock and on cores, and its peak memory."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

EVERY = 0.2
"""seconds between two looks; a peak never falls, so a look at any time before the end sees it"""
GRACE = 120
"""seconds that a command has to end after it was asked to"""


@dataclass(frozen=True)
class Watched:
    seconds: float
    core_seconds: float
    """of all its processes; on a machine that others use as well this says more than the clock"""
    peak: int
    """bytes of the largest process"""
    processes: int
    code: int
    ended: bool
    """whether it was ended by us"""


def watch(command: Sequence[str], log: Path, enough: Callable[[], bool] | None = None) -> Watched:
    """Run the command to its end, or until `enough` says so. What it prints goes to the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    started, peaks, used, ended = time.monotonic(), dict[int, int](), dict[int, float](), False
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        while process.poll() is None:
            for number in family(process.pid):
                peaks[number] = max(peaks.get(number, 0), peak_of(number))
                used[number] = max(used.get(number, 0.0), core_seconds(number))
            if enough is not None and not ended and enough():
                ended, seconds = True, time.monotonic() - started
                end(process)
            time.sleep(EVERY)
    if not ended:
        seconds = time.monotonic() - started
    workers = [peak for peak in peaks.values() if peak > max(peaks.values()) / 4]  # a launcher is not one
    return Watched(seconds, sum(used.values()), max(peaks.values(), default=0), len(workers), process.returncode, ended)


def core_seconds(number: int) -> float:
    """The time on cores that a process has had; 0 if it is gone. Looked at until it ends, so that one which is killed
    counts too."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ask the command to end, then end it and the processes that it started."""
    numbers = family(process.pid)
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
    for number in numbers[1:]:
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            continue


def family(first: int) -> list[int]:
    """A process and all that descend from it."""
    if sys.platform != "linux":
        return [first]
    found = [first]
    for number in found:
        try:
            tasks = list(Path(f"/proc/{number}/task").iterdir())
            children = [(task / "children").read_text().split() for task in tasks]
        except OSError:
            continue
        found += [int(child) for some in children for child in some]
    return found


def peak_of(number: int) -> int:
    """The largest resident size that a process has had; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{number}/status").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
