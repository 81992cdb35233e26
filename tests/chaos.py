"""Kills a small run at random moments, and compares every output with those of a run that nobody disturbed.

    python -m tests.chaos --kills 200        make chaos

Three commands take turns: one process, two processes that train together, and two slots. A kill is `kill -9` of the
command or of one of the processes that it started. Then the same command is started again, until it ends well; then the
outputs are compared, and a new run begins. Two processes add numbers in another order than one, so they have a run of
their own to compare with.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from damnatio.running.graph import read_graph
from tests.conftest import TINY

SETTINGS = [*TINY, "partitions.scales={S1: 3}", "forget.methods=[HD, GS]", "evaluate.replicates=0", "train.log_every=1"]
SETTINGS += ["train.checkpoint_seconds=0", "forget.checkpoint_seconds=0", "forget.log_every=1"]
WAYS = {"one process": [], "two processes": ["--processes", "2"], "two slots": ["--on", "gpus", "--slots", "2"]}


def command(run: Path, way: str) -> list[str]:
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    return [sys.executable, "-m", "damnatio", "run", "demo", *words, "--run", str(run), *WAYS[way]]


def start(run: Path, way: str) -> "subprocess.Popen[bytes]":
    """The command, in a process group of its own, so that nothing of it is left behind."""
    with (run.parent / "log.txt").open("ab") as log:
        return subprocess.Popen(
            command(run, way),
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )


def family(pid: int) -> list[int]:
    """A process and all that it started, near or far."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    with suppress(OSError):
        return [pid, *(one for child in children.read_text().split() for one in family(int(child)))]
    return [pid]


def contents(run: Path) -> dict[str, str]:
    """The hash of every output of a finished run, by its name."""
    graph = read_graph(run)
    done = graph.done(run)
    return {name: done[key].content if key in done else "missing" for key, name in graph.names.items()}


def leftovers(run: Path) -> list[str]:
    """What a finished run should not hold."""
    found = [*run.glob("*/.partial-*"), *run.glob(".partial-*"), *run.glob(".failed/*"), *run.glob("*/*/.*.tmp")]
    return [str(path.relative_to(run)) for path in found]


def undisturbed(folder: Path, way: str) -> tuple[dict[str, str], float]:
    """The outputs of a run that nobody disturbs, and its seconds."""
    run = folder / f"undisturbed {way}" / "run"
    run.parent.mkdir(parents=True)
    started = time.monotonic()
    assert start(run, way).wait() == 0, (run.parent / "log.txt").read_text()
    return contents(run), time.monotonic() - started


def disturb(run: Path, way: str, seconds: float, rng: random.Random) -> str | None:
    """Start the command and kill a process of it after so many seconds; which one, or None if it ended before."""
    process = start(run, way)
    try:
        process.wait(seconds)
        assert process.returncode == 0, (run.parent / "log.txt").read_text()[-3000:]
        return None
    except subprocess.TimeoutExpired:
        chosen = rng.choice(family(process.pid))
        with suppress(ProcessLookupError):
            os.kill(chosen, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)  # a command that lost one of its processes ends by itself
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return "the command" if chosen == process.pid else "a process of it"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    options = parser.parse_args()
    rng, kills, runs, wrong = random.Random(options.seed), Counter[str](), Counter[str](), 0
    with tempfile.TemporaryDirectory(prefix="damnatio-chaos-") as name:
        folder = Path(name)
        references = {way: undisturbed(folder, way) for way in options.ways if way != "two slots"}
        if "two slots" in options.ways:  # its processes work as one does, each alone
            references["two slots"] = references.get("one process") or undisturbed(folder, "one process")
        print("undisturbed: " + ", ".join(f"{way} {took:.0f} s" for way, (_, took) in references.items()), flush=True)
        number = 0
        while kills.total() < options.kills:
            way = options.ways[number % len(options.ways)]
            number += 1
            wanted, took = references[way]
            run = folder / f"{number}" / "run"
            run.parent.mkdir()
            while kills.total() < options.kills and (hit := disturb(run, way, rng.uniform(0.5, took), rng)):
                kills[f"{way}: {hit}"] += 1
            if not (run / "report").exists() or contents(run) != wanted:
                assert start(run, way).wait() == 0, (run.parent / "log.txt").read_text()[-3000:]
            found = contents(run)
            different = [key for key in wanted if found.get(key) != wanted[key]] + leftovers(run)
            wrong += bool(different)
            runs[way] += 1
            state = f"DIFFERS: {', '.join(different)}" if different else "the same outputs"
            print(f"run {number} ({way}), {kills.total()} kills: {state}", flush=True)
            if not different:
                shutil.rmtree(run.parent)
    print(f"{kills.total()} kills in {runs.total()} runs; {wrong} runs came out different")
    for what, count in sorted(kills.items()):
        print(f"  {count:4} x {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
