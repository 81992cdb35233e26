"""How far a run is: which stages are done, running, failed and waiting. Nothing but the run's folder is read.

A training says by its log how far it is, and how its losses and similarities are.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from damnatio.running.failures import Failure, failures
from damnatio.running.graph import read_graph, wanted_of
from damnatio.running.publishing import REPORT
from damnatio.running.slurm import jobs_of
from damnatio.running.walking import Node
from damnatio.support.locks import SILENCE, Holder, has_died, holder_of, machine, silent_for
from damnatio.support.manifests import section_of
from damnatio.support.progress import EVERY, duration
from damnatio.training.loop import METRICS
from damnatio.training.similarity import FILE as SIMILARITY
from damnatio.workspace import LOCKS, Output

DONE, RUNNING, FAILED, WAITING = "done", "running", "failed", "waiting"
POLL = 2.0
"""seconds between two looks at a run that is watched on a terminal"""
TAIL = 4096
"""bytes of a log that are read: its last lines"""
NO_LOSS = ("step", "epoch", "lr", "images_per_second")
"""what a line of the log has beside the losses"""


@dataclass(frozen=True)
class Progress:
    """How far a training is, by its logs."""

    share: float
    images_per_second: float
    seconds: float
    """that it took so far"""
    losses: Mapping[str, float] = field(default_factory=dict)
    similarity: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """of pairs of images, by the name of the pairs: before the first step and now"""

    def __str__(self) -> str:
        left = duration(self.seconds * (1 - self.share) / self.share)
        return f"{self.share:.0%}, {self.images_per_second:,.0f} images/s, {left} left"


@dataclass(frozen=True)
class State:
    """A stage of a run, and how it stands."""

    name: str
    state: str
    note: str = ""
    progress: Progress | None = None


@dataclass(frozen=True)
class Status:
    """A run: the state of each stage."""

    recipe: str
    states: list[State]

    def count(self, state: str) -> int:
        return sum(one.state == state for one in self.states)

    @property
    def finished(self) -> bool:
        return self.count(DONE) == len(self.states)


def status(folder: Path) -> Status:
    """The state of a run by its folder."""
    graph = read_graph(folder)
    done, failed, jobs = graph.done(folder), failures(folder), jobs_of(folder)
    given = {node: jobs[task.name] for node, task in graph.made_by.items() if task.name in jobs}
    states = [
        _finished(graph.names[key], done[key])
        if key in done
        else _unfinished(
            folder, node, graph.names[key], _place(folder, node, done), failed.get(key), given.get(key, "")
        )
        for key, node in graph.nodes.items()
    ]
    return Status(graph.recipe, states)


def trains(node: Node) -> bool:
    """Whether a stage is a model that the training loop makes."""
    return bool(section_of(node.settings, "train") or section_of(node.settings, "forget"))


def _finished(name: str, output: Output) -> State:
    seconds = 0.0
    with suppress(OSError, ValueError, TypeError):
        seconds = float(section_of(output.manifest, "made").get("seconds") or 0.0)
    return State(name, DONE, duration(seconds) if seconds >= 1 else "")


def _place(folder: Path, node: Node, done: Mapping[str, Output]) -> str:
    """The name of a node's folder; before its key is known a pattern, which may fit another experiment's too."""
    wanted = wanted_of(node, done)
    return wanted.place(folder).name if wanted else f"{node.name}-????????"


def _unfinished(folder: Path, node: Node, name: str, place: str, failure: Failure | None, job: str) -> State:
    pattern = node.stage if node.stage.startswith(REPORT) else f"{node.stage}.{place}"
    for lock in sorted((folder / LOCKS).glob(pattern)):
        holder = holder_of(lock)
        if holder is not None:
            partial = folder / node.stage / f".partial-{lock.name.removeprefix(f'{node.stage}.')}"
            return _held(lock, holder, name, _progress(partial, node))
    if failure is not None:
        return State(name, FAILED, failure.error)
    begun = sorted((folder / node.stage).glob(f".partial-{place}"))
    notes = ["begun"] if begun else []
    notes += [f"Slurm has it as job {job}, or had"] if job else []
    return State(name, WAITING, "; ".join(notes), _progress(begun[-1], node) if begun else None)


def _held(lock: Path, holder: Holder, name: str, progress: Progress | None) -> State:
    gone = has_died(lock) if holder.machine == machine() and holder.flock else silent_for(lock) > SILENCE
    if gone:
        return State(name, WAITING, f"begun by {holder}, which is gone: the same command goes on", progress)
    return State(name, RUNNING, str(holder), progress)


def _progress(partial: Path, node: Node) -> Progress | None:
    """How far a training is. Its log counts epochs, and the node's settings have their number."""
    lines = last_lines(partial / METRICS)
    settings = section_of(node.settings, "train") or section_of(node.settings, "forget")
    try:
        line = lines[-1]
        share = float(line["epoch"]) / float(settings["epochs"])
        images = float(line["step"]) * float(settings["batch"])
        speed = len(lines) / sum(1 / float(each["images_per_second"]) for each in lines)
        losses = {name: float(value) for name, value in line.items() if name not in NO_LOSS}
        return Progress(share, speed, images / speed, losses, _similarity(partial / SIMILARITY)) if share else None
    except (KeyError, TypeError, ValueError, ZeroDivisionError, IndexError):
        return None


def _similarity(log: Path) -> dict[str, tuple[float, float]]:
    """The first and the last look."""
    with suppress(OSError, ValueError, TypeError, AttributeError, IndexError):
        first = line_of(log.read_bytes()[:TAIL].splitlines()[0])
        last = last_lines(log)[-1]
        return {name: (float(first[name]), float(last[name])) for name in last if name in first and name != "step"}
    return {}


def last_lines(log: Path) -> list[dict[str, Any]]:
    """The last lines of a log that are whole."""
    with suppress(OSError):
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL))
            lines = file.read().split(b"\n")[:-1]
        found = [line_of(line) for line in (lines if size <= TAIL else lines[1:])]
        return [line for line in found if line]
    return []


def line_of(line: bytes) -> dict[str, Any]:
    """The entries of a line of a log; none if it cannot be read."""
    with suppress(ValueError, TypeError, RecursionError):
        return dict(json.loads(line))
    return {}


# --- for people -----------------------------------------------------------------------------------------------------


def text_of(found: Status) -> str:
    """One line per stage, those of a training below it, then a summary."""
    return "\n".join([*_lines(found, found.states), "", summary(found)])


def summary(found: Status) -> str:
    others = [f"{count} {state}" for state in (RUNNING, FAILED, WAITING) if (count := found.count(state))]
    return ", ".join([f"{found.count(DONE)} of {len(found.states)} stages done", *others])


def _lines(found: Status, states: list[State]) -> list[str]:
    width = max(28, *(len(state.name) + 2 for state in found.states))
    lines = []
    for state in states:
        note = "; ".join(filter(None, [str(state.progress or ""), state.note]))
        lines.append(f"{state.state:<9}{state.name:<{width}}{note}".rstrip())
        if state.progress and state.state == RUNNING:
            lines += [f"{'':<9}  {line}" for line in _details(state.progress)]
    return lines


def _details(progress: Progress) -> list[str]:
    losses = "  ".join(f"{name} {value:.3f}" for name, value in progress.losses.items())
    pairs = ", ".join(f"{name} {first:.3f} -> {now:.3f}" for name, (first, now) in progress.similarity.items())
    return [*filter(None, [losses, pairs and f"similarity: {pairs}"])]


def watch(folder: Path, say: Callable[[str], None]) -> None:
    """Show a run that other processes make until all of it is done: on a terminal the stages that run and those that
    failed, elsewhere a summary per minute."""
    if not sys.stderr.isatty():
        while not (found := status(folder)).finished:
            say(summary(found))
            time.sleep(EVERY)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(stderr=True), transient=True) as live:
        while not (found := status(folder)).finished:
            shown = [state for state in found.states if state.state in (RUNNING, FAILED)]
            lines = [f"{found.recipe}: {summary(found)}", *_lines(found, shown)]
            live.update(Text("\n".join(lines)), refresh=True)
            time.sleep(POLL)
