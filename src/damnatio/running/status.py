"""How far a run is: what is done, running, failed and waiting, and the time left. Nothing but the run's folder is read.

A training says by its log how far it is and how its losses and similarities are. `timing.py` says what is left.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from damnatio.running.expecting import Expected, place_of, read, seconds_of, trains
from damnatio.running.failures import Failure, failures
from damnatio.running.graph import Graph, read_graph, wanted_of
from damnatio.running.publishing import REPORT
from damnatio.running.slurm import jobs_of
from damnatio.running.timing import Part, left_of
from damnatio.running.walking import Node
from damnatio.support.locks import SILENCE, Holder, has_died, holder_of, machine, silent_for
from damnatio.support.manifests import manifest_of, section_of
from damnatio.training.loop import METRICS
from damnatio.training.similarity import FILE as SIMILARITY
from damnatio.workspace import LOCKS, Output

DONE, RUNNING, FAILED, WAITING = "done", "running", "failed", "waiting"
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

    @property
    def seconds_left(self) -> float:
        return self.seconds * (1 - self.share) / self.share


@dataclass(frozen=True)
class State:
    """A node of a run, and how it stands."""

    name: str
    kind: str
    """nodes of one kind take about as long as each other"""
    state: str
    note: str = ""
    seconds: float = 0.0
    """that it took, or took so far"""
    progress: Progress | None = None
    counts: bool = True
    """whether it was made as the run is made now, so that its time says something of the others"""


@dataclass(frozen=True)
class Status:
    """A run: the state of each node, and the seconds that remain; None if nothing can be said."""

    recipe: str
    states: list[State]
    left: float | None
    unknown: int
    """nodes whose time is not known"""
    slots: int
    """parts that are made at one time"""
    each: Mapping[str, float | None] = field(default_factory=dict)
    """the seconds that remain of each node that is not finished, by its name"""

    def count(self, state: str) -> int:
        return sum(one.state == state for one in self.states)


def status(folder: Path) -> Status:
    """The state of a run by its folder."""
    return Look(folder, read_graph(folder), read(folder))()


class Look:
    """The state of a run, as often as it is asked for. What is done stays done, and is read once. What failed after
    `since` is not tried again, nor is what needs it."""

    def __init__(self, folder: Path, graph: Graph, expected: Expected, since: str = "9999") -> None:
        self.folder, self.graph, self.expected, self.since = folder, graph, expected, since
        self._done: dict[str, Output] = {}
        self._finished: dict[str, State] = {}

    def __call__(self) -> Status:
        graph, folder = self.graph, self.folder
        self._done = graph.done(folder, self._done)
        failed, jobs = failures(folder), jobs_of(folder)
        given = {node: jobs[task.name] for node, task in graph.made_by.items() if task.name in jobs}
        states = {
            key: self._finish(key, node)
            if key in self._done
            else _unfinished(folder, node, graph.names[key], self._place(node), failed.get(key), given.get(key, ""))
            for key, node in graph.nodes.items()
        }
        given_up = self._given_up(failed)
        left = left_of([self._part(graph.nodes[key], state) for key, state in states.items() if key not in given_up])
        slots = max(self.expected.slots, sum(state.state == RUNNING for state in states.values()))
        seconds = left.seconds(slots)
        unknown = sum(left.parts[key] is None and not graph.nodes[key].stage.startswith(REPORT) for key in left.parts)
        return Status(
            graph.recipe,
            list(states.values()),
            seconds if seconds or not unknown else None,
            unknown,
            slots,
            {graph.names[key]: value for key, value in left.parts.items()},
        )

    def _given_up(self, failed: Mapping[str, Failure]) -> set[str]:
        lost = {key for key, failure in failed.items() if failure.when >= self.since and key not in self._done}
        for key, node in self.graph.nodes.items():  # each after those that it needs
            if not node.stage.startswith(REPORT) and not lost.isdisjoint(node.needs.values()):
                lost.add(key)
        return lost

    def _finish(self, key: str, node: Node) -> State:
        if key not in self._finished:
            path = self._done[key].path
            counts = not self.expected.sure or place_of(section_of(manifest_of(path), "made")) == self.expected.place
            self._finished[key] = State(
                self.graph.names[key], _kind(node), DONE, seconds=seconds_of(path, node), counts=counts
            )
        return self._finished[key]

    def _place(self, node: Node) -> str:
        """The name of a node's folder; before its key is known a pattern, which may fit another experiment's too."""
        wanted = wanted_of(node, self._done)
        return wanted.place(self.folder).name if wanted else f"{node.name}-????????"

    def _part(self, node: Node, state: State) -> Part:
        progress = state.progress
        share = 1.0 if state.state == DONE else progress.share if progress else None
        return Part(
            key=node.id,
            needs=list(node.needs.values()),
            kind=state.kind,
            family=_family(node, state.kind),
            expected=self.expected.seconds.get(node.id),
            spent=progress.seconds if progress else state.seconds,
            share=share,
            sure=self.expected.sure,
            counts=state.counts,
        )


def _unfinished(folder: Path, node: Node, name: str, place: str, failure: Failure | None, job: str) -> State:
    pattern = node.stage if node.stage.startswith(REPORT) else f"{node.stage}.{place}"
    for lock in sorted((folder / LOCKS).glob(pattern)):
        holder = holder_of(lock)
        if holder is not None:
            partial = folder / node.stage / f".partial-{lock.name.removeprefix(f'{node.stage}.')}"
            return _held(lock, holder, node, name, _progress(partial, node))
    if failure is not None:
        return State(name, _kind(node), FAILED, failure.error)
    begun = sorted((folder / node.stage).glob(f".partial-{place}"))
    progress = _progress(begun[-1], node) if begun else None
    notes = ["begun"] if begun else []
    notes += [f"Slurm has it as job {job}, or had"] if job else []
    return State(name, _kind(node), WAITING, "; ".join(notes), progress=progress)


def _kind(node: Node) -> str:
    """The stage, and what it works on: a method in closed form needs other things than one that fine-tunes."""
    return node.stage if node.stage.startswith(REPORT) else f"{node.stage}: {' '.join(sorted(node.needs))}"


def _family(node: Node, kind: str) -> str:
    """Trainings are alike, and so is what embeds images: one probe of the machine says how long they take."""
    if trains(node):
        return "training"
    return "embedding" if "faces" in node.needs and node.stage[0] in "46" else kind


def _held(lock: Path, holder: Holder, node: Node, name: str, progress: Progress | None) -> State:
    gone = has_died(lock) if holder.machine == machine() and holder.flock else silent_for(lock) > SILENCE
    if gone:
        note = f"begun by {holder}, which is gone: the same command goes on"
        return State(name, _kind(node), WAITING, note, progress=progress)
    return State(name, _kind(node), RUNNING, str(holder), _since(holder), progress)


def _since(holder: Holder) -> float:
    """The seconds that a lock is held, by the clocks of the machines."""
    with suppress(ValueError, OverflowError):
        return max(0.0, time.time() - time.mktime(time.strptime(holder.since, "%Y-%m-%d %H:%M:%S")))
    return 0.0


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


def text_of(found: Status) -> str:
    """The status for people: one line per node, then a summary."""
    width = max(28, *(len(state.name) + 2 for state in found.states))
    lines = [_line(state, width) for state in found.states]
    counts = {kind: found.count(kind) for kind in (DONE, RUNNING, FAILED, WAITING)}
    summary = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count or kind == DONE)
    return "\n".join([*lines, "", f"{summary}{time_left(found)}"])


def _line(state: State, width: int) -> str:
    note = state.note
    if state.state == DONE and state.seconds >= 1:
        note = duration(state.seconds)
    if state.progress is not None:
        progress = state.progress
        far = (
            f"{progress.share:.0%}, {progress.images_per_second:,.0f} images/s, {duration(progress.seconds_left)} left"
        )
        note = f"{far}; {note}" if note else far
    return f"{state.state:<9}{state.name:<{width}}{note}".rstrip()


def time_left(found: Status) -> str:
    if found.count(DONE) == len(found.states):
        return ""
    if found.left is None:
        return "; estimating the time left"
    at_least = "at least " if found.unknown else "about "
    beside = f", {found.slots} at a time" if found.slots > 1 else ""
    return f"; {at_least}{duration(found.left)} left{beside}"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"
