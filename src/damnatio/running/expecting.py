"""What each part of a run is expected to take, before it begins: as long as an earlier output of the same settings
took on this machine, or what the plan says.

A small run is not worth a measurement of the machine: a rough speed is taken for it. What is expected is kept in the
run's folder, for `damnatio status` and for the next call.
"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from damnatio.partitions import FILE as PARTITIONS
from damnatio.partitions import Partitions
from damnatio.pipeline import Pipeline
from damnatio.reporting.cost import of_training
from damnatio.running.graph import Graph
from damnatio.running.planning import probing
from damnatio.running.planning.counts import AtHand, Counts, at_hand, counts_of, drawn_counts
from damnatio.running.planning.hardware import HERE, Speed
from damnatio.running.planning.plan import FIXED, Once, faster, merged, speed_of
from damnatio.running.planning.work import Work
from damnatio.running.publishing import REPORT
from damnatio.running.walking import ESTIMATE, Node
from damnatio.support.devices import device
from damnatio.support.files import write_atomically
from damnatio.support.manifests import manifest_of, section_of
from damnatio.support.workers import cores
from damnatio.workspace import Output, made_here

STAGES = {
    "faces": "1-faces",
    "captures": "2-captures",
    "partitions": "3-partitions",
    "train": "4-train",
    "trunk": "4-trunk",
    "forget": "5-forget",
    "embed": "6-embed",
    "evaluate": "7-evaluate",
    "report": REPORT,
}
"""the plan's names of the stages, and the pipeline's"""
SMALL = 1e12
"""floating-point operations of a run for which the machine is not measured: half a minute of one core"""
CORE, GPU = 4e10, 4e12
"""operations per second in training, roughly: of a core, measured with iresnet-tiny, and of a GPU, on the low side"""
DECODED, COMPARED = 900.0, 1.8e8
"""images of the renderer and comparisons of one core in a second, measured"""
OTHER = 1.0
"""seconds of a part that the plan does not name"""
MOMENT = 0.2
"""seconds of computing by which is measured how busy the machine is"""


@dataclass(frozen=True)
class Expected:
    """The seconds of each part, by node."""

    seconds: dict[str, float] = field(default_factory=dict)
    place: str = ""
    """the machine that they hold for, and the processes of one part"""
    slots: int = 1
    """parts that are made at one time"""
    sure: bool = False
    """false for a guess, which means something only when finished work has corrected it"""


def place_of(made: Mapping[str, Any]) -> str:
    """Where an output was made, by its manifest."""
    return f"{made.get('machine')}, {made.get('device') or 'no GPU'}, {made.get('processes')} at a time"


def read(folder: Path) -> Expected:
    """What the last call expected of the run in a folder; nothing if it left no word."""
    with suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
        found = Expected(**json.loads((folder / ESTIMATE).read_bytes()))
        seconds = {str(key): float(value) for key, value in found.seconds.items()}
        return Expected(seconds, str(found.place), int(found.slots), found.sure is True)
    return Expected()


def save(expected: Expected, folder: Path) -> None:
    with suppress(OSError):  # it is worth no failure
        write_atomically(folder / ESTIMATE, json.dumps(asdict(expected)) + "\n")


def expect(
    pipelines: Mapping[str, Pipeline],
    graph: Graph,
    folder: Path,
    say: Callable[[str], None],
    *,
    slots: int = 1,
    together: int = 1,
    processes: int = 1,
    elsewhere: bool = False,
) -> Expected:
    """What each part of a run will take on this machine, with so many slots; `together` devices make one part. If the
    run is made `elsewhere`, nothing is measured, and the numbers are a guess. Nothing is expected of a finished run."""
    place = place_of({**made_here(), "processes": processes})
    done = graph.done(folder)
    if len(done) == len(graph.nodes):
        return Expected()
    before = read(folder)
    same = (before.place, before.slots, before.sure) == (place, slots, not elsewhere)
    known = {key: value for key, value in before.seconds.items() if same and key in graph.nodes}
    open_ = {key: node for key, node in graph.nodes.items() if key not in done and key not in known}
    earlier = _earlier(open_, folder, place)
    known |= earlier
    stages = {graph.nodes[key].stage for key in earlier}
    for key, output in done.items():  # beside times that were measured, a planned one would correct what is right
        if graph.nodes[key].stage in stages and key not in known:
            known[key] = seconds_of(output.path, graph.nodes[key])
    if open_.keys() - known.keys():
        try:
            crowd = 1.0 if elsewhere else _crowd(slots, processes)
            planned = _planned(pipelines, graph, done, together, say, elsewhere)
            known = {key: seconds * crowd for key, seconds in planned.items()} | known
        except Exception as error:  # a recipe that cannot be planned may still run, or says itself what is wrong
            say(f"{'time':<13} {'':<12} cannot be estimated: {error}")
    found = Expected(known, place, slots, not elsewhere)
    save(found, folder)
    return found


def _earlier(nodes: Mapping[str, Node], folder: Path, place: str) -> dict[str, float]:
    """The seconds of the last outputs that were made here with the same settings, of other faces or by other code."""
    found: dict[str, float] = {}
    manifests: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
    for key, node in nodes.items():
        if node.stage.startswith(REPORT):
            continue
        if node.stage not in manifests:
            paths = sorted((folder / node.stage).glob("[!.]*"))
            manifests[node.stage] = [(path, manifest) for path in paths if (manifest := manifest_of(path))]
        alike = [
            (str(section_of(manifest, "made").get("finished")), path)
            for path, manifest in manifests[node.stage]
            if path.name == f"{node.name}-{manifest['key'][:8]}"
            and _settings(section_of(manifest, "settings")) == _settings(node.settings)
            and place_of(section_of(manifest, "made")) == place
        ]
        if alike:
            found[key] = seconds_of(max(alike)[1], node)
    return found


def _settings(settings: Mapping[str, Any]) -> Any:
    """Settings as a manifest has them, without what does not change how long a part takes."""
    kept = {key: value for key, value in settings.items() if key not in ("seed", "content")}
    return json.loads(json.dumps(kept, default=str))


def seconds_of(output: Path, node: Node) -> float:
    """The seconds that an output took; those of a training by its log too, since it may have been interrupted."""
    made = section_of(manifest_of(output), "made")
    seconds = float(made.get("seconds") or 0.0)
    if trains(node):
        with suppress(Exception):  # a damaged log is the business of who reads it for a result
            seconds = max(seconds, of_training(output).hours * 3600 / int(made.get("processes") or 1))
    return seconds


def trains(node: Node) -> bool:
    """Whether a node is a model that the training loop makes."""
    return bool(section_of(node.settings, "train") or section_of(node.settings, "forget"))


# --- by the plan --------------------------------------------------------------------------------------------------


def _planned(
    pipelines: Mapping[str, Pipeline],
    graph: Graph,
    done: Mapping[str, Output],
    together: int,
    say: Callable[[str], None],
    elsewhere: bool,
) -> dict[str, float]:
    """The seconds of each node if so many devices make it together."""
    once = Once()
    works, sources = {}, {}
    for title, pipeline in pipelines.items():
        counts, sources[title] = _counts(title, pipeline, graph, done, once)
        works[title] = Work(pipeline.recipe, counts)
    open_ = {
        (title, graph.nodes[key].stage) for key in graph.nodes if key not in done for title in graph.experiments[key]
    }
    effort = sum(_operations(work, {stage for name, stage in open_ if name == title}) for title, work in works.items())
    measured = effort >= SMALL and not elsewhere
    busy = 1.0 if elsewhere else _busy()
    speeds = {}
    for title, work in works.items():
        if measured:
            speeds[title] = speed_of(work, sources[title], HERE, once, say, probing.BUDGET / len(works))
        else:
            speeds[title] = _rough(work)
    pieces = merged({title: (work, speeds[title]) for title, work in works.items()})
    table = {
        (title, STAGES[planned.piece.stage], _label(planned.piece.scale, planned.piece.variant)): planned
        for planned in pieces
        for title in planned.experiments
    }

    seconds = {}
    for key, node in graph.nodes.items():
        title, stage = graph.experiments[key][0], REPORT if node.stage.startswith(REPORT) else node.stage
        planned = table.get((title, stage, node.name)) or table.get((title, stage, ""))
        if planned is None:
            seconds[key] = OTHER * busy
            continue
        idle = FIXED.get(planned.piece.stage, 0.0) if measured else planned.seconds  # what a busy machine did not tell
        seconds[key] = (planned.seconds + (busy - 1) * idle) / faster(planned.piece, together)
    return seconds


def _label(scale: str, variant: str) -> str:
    """The name of a node in the pipeline; empty where a stage has one output."""
    return f"{scale}-{variant}" if scale else variant


def _counts(
    title: str, pipeline: Pipeline, graph: Graph, done: Mapping[str, Output], once: Once
) -> tuple[Counts, AtHand | str]:
    """By the partitions of the run if they are drawn, else by the index of the source."""
    recipe = pipeline.recipe
    for key, output in done.items():
        if graph.nodes[key].stage == "3-partitions" and title in graph.experiments[key]:
            table = Partitions.read(output.path / PARTITIONS)
            return drawn_counts(table, recipe.partitions, "the run's partitions"), "the faces are indexed"
    found = once(["source", recipe.faces], lambda: at_hand(recipe))
    return counts_of(recipe, found), found


def _operations(work: Work, stages: set[str]) -> float:
    """Floating-point operations of the stages that are not finished."""
    network = work.network
    return sum(
        piece.share * (piece.gradients * network.gradient + piece.forwards * network.forward)
        for piece in work.pieces
        if STAGES[piece.stage] in stages
    )


def _rough(work: Work) -> Speed:
    rate = GPU if device().type == "cuda" else CORE * cores()
    network = work.network
    gradient = network.gradient + 3 * work.head_flops
    return Speed(rate / gradient, rate / network.forward, DECODED * cores(), COMPARED * cores(), "a rough guess")


def _busy() -> float:
    """Seconds by the clock of a second of computing: more than 1 where other programs want the same cores."""
    clock, computed = time.perf_counter(), time.thread_time()
    while time.thread_time() - computed < MOMENT:
        pass
    return max(1.0, (time.perf_counter() - clock) / MOMENT)


def _crowd(slots: int, processes: int) -> float:
    """How much slower a part is because others are made beside it: slots share the cores, or the GPUs."""
    import torch

    if device().type == "cuda":
        return max(1.0, slots * processes / torch.cuda.device_count())
    return max(1.0, slots * torch.get_num_threads() / cores())
