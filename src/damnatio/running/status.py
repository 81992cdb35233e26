"""How far a run is: what is done, running, failed and waiting, and the time left. Nothing but the run's folder is read.

The time of a part that is not finished is estimated by the parts of its stage that are; a training that is running, by
its own log. Unknown times are not guessed: the sum then is a lower bound.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from damnatio.running.failures import Failure, failures
from damnatio.running.graph import read_graph
from damnatio.running.publishing import REPORT
from damnatio.running.slurm import jobs_of
from damnatio.running.walking import Node
from damnatio.support.locks import SILENCE, Holder, has_died, holder_of, machine, silent_for
from damnatio.support.manifests import manifest_of, section_of
from damnatio.training.loop import METRICS
from damnatio.workspace import LOCKS

DONE, RUNNING, FAILED, WAITING = "done", "running", "failed", "waiting"


@dataclass(frozen=True)
class Progress:
    """How far a training is, by its log."""

    share: float
    images_per_second: float
    seconds_left: float


@dataclass(frozen=True)
class State:
    """A node of a run, and how it stands."""

    name: str
    kind: str
    """nodes of one kind take about as long as each other"""
    state: str
    note: str = ""
    seconds: float = 0.0
    """that it took, if it is done"""
    progress: Progress | None = None


@dataclass(frozen=True)
class Status:
    """A run: the state of each node, and the seconds that remain; None if nothing can be said."""

    recipe: str
    states: list[State]
    left: float | None
    unknown: int
    """nodes whose time is not known"""
    workers: int


def status(folder: Path) -> Status:
    """The state of a run by its folder."""
    graph = read_graph(folder)
    done, failed, jobs = graph.done(folder), failures(folder), jobs_of(folder)
    given = {node: jobs[task.name] for node, task in graph.made_by.items() if task.name in jobs}
    states = []
    for key, node in graph.nodes.items():
        name = graph.names[key]
        if key in done:
            made = section_of(manifest_of(done[key].path), "made")
            states.append(State(name, _kind(node), DONE, seconds=float(made.get("seconds", 0.0))))
        else:
            states.append(_unfinished(folder, node, name, failed.get(key), given.get(key, "")))
    left, unknown = _left(states)
    return Status(graph.recipe, states, left, unknown, max(1, sum(state.state == RUNNING for state in states)))


def _unfinished(folder: Path, node: Node, name: str, failure: Failure | None, job: str) -> State:
    pattern = node.stage if node.stage.startswith(REPORT) else f"{node.stage}.{node.name}-????????"
    for lock in sorted((folder / LOCKS).glob(pattern)):
        holder = holder_of(lock)
        if holder is not None:
            partial = folder / node.stage / f".partial-{lock.name.removeprefix(f'{node.stage}.')}"
            progress = _progress(partial, node)
            return _held(lock, holder, node, name, progress)
    if failure is not None:
        return State(name, _kind(node), FAILED, failure.error)
    begun = sorted((folder / node.stage).glob(f".partial-{node.name}-????????"))
    progress = _progress(begun[-1], node) if begun else None
    notes = ["begun"] if begun else []
    notes += [f"Slurm has it as job {job}, or had"] if job else []
    return State(name, _kind(node), WAITING, "; ".join(notes), progress=progress)


def _kind(node: Node) -> str:
    """The stage, and what it works on: a method in closed form needs other things than one that fine-tunes."""
    return node.stage if node.stage.startswith(REPORT) else f"{node.stage}: {' '.join(sorted(node.needs))}"


def _held(lock: Path, holder: Holder, node: Node, name: str, progress: Progress | None) -> State:
    gone = has_died(lock) if holder.machine == machine() and holder.flock else silent_for(lock) > SILENCE
    if gone:
        note = f"begun by {holder}, which is gone: the same command goes on"
        return State(name, _kind(node), WAITING, note, progress=progress)
    return State(name, _kind(node), RUNNING, str(holder), progress=progress)


def _progress(partial: Path, node: Node) -> Progress | None:
    """How far a training is. Its log counts epochs, and the node's settings have their number."""
    line: dict[str, Any] = {}
    with suppress(OSError, ValueError, IndexError, TypeError):
        line = dict(json.loads((partial / METRICS).read_bytes().splitlines()[-1]))
    settings = section_of(node.settings, "train") or section_of(node.settings, "forget")
    try:
        share = float(line["epoch"]) / float(settings["epochs"])
        speed, images = float(line["images_per_second"]), float(line["step"]) * float(settings["batch"])
        return Progress(share, speed, images / share * (1 - share) / speed)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def _left(states: list[State]) -> tuple[float | None, int]:
    """The seconds of work that remain, and the number of nodes that are not in them. Failed ones are tried again."""
    known: dict[str, list[float]] = {}
    for state in states:
        if state.state == DONE:
            known.setdefault(state.kind, []).append(state.seconds)
    seconds, unknown = 0.0, 0
    for state in states:
        if state.state == DONE:
            continue
        alike = known.get(state.kind)
        if state.progress is not None:
            seconds += state.progress.seconds_left
        elif alike:
            seconds += sum(alike) / len(alike)
        elif not state.kind.startswith(REPORT):
            unknown += 1
    return (seconds if seconds or not unknown else None), unknown


def text_of(found: Status) -> str:
    """The status for people: one line per node, then a summary."""
    width = max(28, *(len(state.name) + 2 for state in found.states))
    lines = [_line(state, width) for state in found.states]
    counts = {kind: sum(state.state == kind for state in found.states) for kind in (DONE, RUNNING, FAILED, WAITING)}
    summary = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count or kind == DONE)
    return "\n".join([*lines, "", f"{summary}{_time_left(found, counts)}"])


def _line(state: State, width: int) -> str:
    note = state.note
    if state.state == DONE and state.seconds >= 1:
        note = _duration(state.seconds)
    if state.progress is not None:
        progress = state.progress
        far = (
            f"{progress.share:.0%}, {progress.images_per_second:,.0f} images/s, {_duration(progress.seconds_left)} left"
        )
        note = f"{far}; {note}" if note else far
    return f"{state.state:<9}{state.name:<{width}}{note}".rstrip()


def _time_left(found: Status, counts: dict[str, int]) -> str:
    if counts[DONE] == len(found.states):
        return ""
    if found.left is None:
        return "; the time left is not known yet"
    at_least = "at least " if found.unknown else ""
    beside = f", {found.workers} at a time" if found.workers > 1 else ""
    return f"; {at_least}{_duration(found.left / found.workers)} left{beside}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"
