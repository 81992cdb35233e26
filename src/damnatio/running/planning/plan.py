"""What a recipe will take before anything runs: hours, memory, disk, and what more GPUs would make of it."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from damnatio.recipe.schema import Recipe
from damnatio.running.planning import probing
from damnatio.running.planning.counts import AtHand, Counts, at_hand, counts_of
from damnatio.running.planning.hardware import HERE, Speed, device_named, speed_up
from damnatio.running.planning.work import Memory, Piece, Work
from damnatio.support.devices import device
from damnatio.support.workers import cores

T = TypeVar("T")
GPUS = (1, 2, 4, 8)
FIXED = {
    **dict.fromkeys(("faces", "partitions", "train", "trunk", "forget", "embed"), 1.0),
    **{"captures": 2.0, "evaluate": 5.0, "report": 9.0},
}
"""seconds of a stage beside what is counted, such as drawing figures: as measured on two cores at the demo's size"""


@dataclass(frozen=True)
class Planned:
    """A piece, its seconds on one device, and the experiments that need it."""

    piece: Piece
    seconds: float
    experiments: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """Hours that so many devices take, by how the models are spread over them."""

    devices: int
    apart: float
    """each model on one device"""
    first_together: float
    """f* on all devices, then each method on one"""
    together: float
    """all devices on one model after another"""
    memory: Memory
    """of one device if all train the largest model together"""

    @property
    def best(self) -> float:
        return min(self.apart, self.first_together, self.together)


@dataclass(frozen=True)
class Plan:
    device: str
    speeds: dict[str, Speed]
    """by experiment"""
    counts: dict[str, Counts]
    parameters: dict[str, int]
    """of the network of each experiment, without its head"""
    pieces: list[Planned]
    memory: Memory
    """of the largest training, on one device"""
    largest: str
    """its name"""
    room: float
    """GB of one device; 0 if it is not known"""
    layouts: list[Layout]
    cached: bool
    """whether decoded pixels are stored"""
    evaluation: int
    """bytes of the processor's memory that an evaluation holds, at least"""

    @property
    def hours(self) -> float:
        """On one device."""
        return sum(planned.seconds for planned in self.pieces) / 3600

    @property
    def disk(self) -> int:
        """Bytes that stay."""
        return sum(planned.piece.disk for planned in self.pieces)

    def scratch(self, slots: int) -> int:
        """Bytes of the checkpoints of so many trainings at the same time."""
        return sum(sorted((planned.piece.scratch for planned in self.pieces), reverse=True)[:slots])


def plan(
    recipes: Mapping[str, Recipe],
    name: str = HERE,
    gpus: Sequence[int] = GPUS,
    say: Callable[[str], None] = lambda line: None,
) -> Plan:
    """The plan of a recipe's experiments on a named device, or on the device that is found here, which is measured."""
    named = None if name == HERE else device_named(name)
    works: dict[str, Work] = {}
    speeds: dict[str, Speed] = {}
    known = Once()
    for title, recipe in recipes.items():
        found = known(["source", recipe.faces], partial(at_hand, recipe))
        works[title] = Work(recipe, counts_of(recipe, found))
        speeds[title] = speed_of(works[title], found, name, known, say)
    pieces = merged({title: (work, speeds[title]) for title, work in works.items()})
    trainings = [
        (f"{title} {piece.name}".strip(), work, piece)
        for title, work in works.items()
        for piece in work.pieces
        if piece.steps
    ]
    largest, work, piece = max(trainings, key=lambda row: row[1].memory(row[2], 1).total, default=_none(works))
    return Plan(
        device=named.title if named else _here(),
        speeds=speeds,
        counts={title: work.counts for title, work in works.items()},
        parameters={title: work.network.parameters for title, work in works.items()},
        pieces=pieces,
        memory=work.memory(piece, 1),
        largest=largest,
        room=named.memory if named else _room(),
        layouts=[_layout(pieces, count, work.memory(piece, count)) for count in gpus],
        cached=any(work.pixels > 0 for work in works.values()),
        evaluation=max(work.evaluation_memory for work in works.values()),
    )


def _none(works: Mapping[str, Work]) -> tuple[str, Work, Piece]:
    """A recipe that trains nothing still embeds: its network is the largest thing."""
    title, work = next(iter(works.items()))
    return title, work, next(piece for piece in work.pieces if piece.stage == "train")


class Once:
    """Results by what they depend on: three experiments on one source read its index once."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def __call__(self, key: object, work: Callable[[], T]) -> T:
        name = str(key)
        if name not in self._known:
            self._known[name] = work()
        found: T = self._known[name]
        return found


def speed_of(
    work: Work,
    found: AtHand | str,
    name: str,
    once: Once,
    say: Callable[[str], None],
    budget: float = probing.BUDGET,
) -> Speed:
    """How fast a named device is at this work, or the device here, which is measured in seconds of the budget."""
    recipe = work.recipe
    decoded = once(["decode", recipe.faces], lambda: probing.decoding_speed(recipe, found))
    compared = once(["compare", recipe.model.dim], lambda: probing.comparing_speed(recipe))
    gradient = work.network.gradient + 3 * work.head_flops
    if name != HERE:
        precision = recipe.train.precision
        named = device_named(name)
        rate = named.rate(precision) * 1e12
        words = f"{named.rate(precision):.0f} TFLOP/s in {precision}, " + (
            "as InsightFace reports of its own training" if named.measured else "estimated from a GPU of its kin"
        )
        relative = {other: named.rate(other) / named.rate(precision) for other in named.rates}
        return Speed(rate / gradient, rate / work.network.forward, decoded, compared, words, relative)

    def probe() -> tuple[probing.Trained, float]:
        say(f"measuring {recipe.model.backbone} at {recipe.faces.size} pixels on {_here()} ...")
        trained = probing.training_speed(recipe, work.counts.classes, budget)
        return trained, probing.embedding_speed(recipe, budget)

    sections = [recipe.model, recipe.train, recipe.faces.size, work.counts.classes]
    trained, embedded = once(["train", sections], probe)
    batch = recipe.train.batch
    words = f"measured in a few steps of {trained.batch} images" + (
        f", the recipe's batch of {batch} being too much here" if trained.batch < batch else ""
    )
    return Speed(trained.images_per_second, embedded, decoded, compared, words)


def _here() -> str:
    import torch

    if device().type == "cuda":
        return str(torch.cuda.get_device_name())
    return f"the processor here, {torch.get_num_threads()} threads of {cores()} cores"


def _room() -> float:
    import torch

    return torch.cuda.mem_get_info()[1] / 1e9 if device().type == "cuda" else 0.0


def merged(works: Mapping[str, tuple[Work, Speed]]) -> list[Planned]:
    """The pieces of all experiments, each once, in the order of the pipeline."""
    found: dict[str, tuple[Piece, float, list[str]]] = {}
    for title, (work, speed) in works.items():
        for piece in work.pieces:
            found.setdefault(piece.key, (piece, seconds_of(piece, speed), []))[2].append(title)
    return [Planned(piece, seconds, tuple(titles)) for piece, seconds, titles in found.values()]


def seconds_of(piece: Piece, speed: Speed) -> float:
    """On one device. Reading the images of a training is done beside it, by workers, and adds nothing."""
    fixed = FIXED.get(piece.stage, 0.0)
    trained = piece.gradients / speed.gradients + piece.forwards / speed.forwards
    trained *= piece.share / speed.relative.get(piece.precision, 1.0)
    return fixed + trained + piece.decoded / speed.decoded + piece.compared / speed.compared


# --- several devices ----------------------------------------------------------------------------------------------


def _layout(pieces: Sequence[Planned], devices: int, memory: Memory) -> Layout:
    seconds = {planned.piece.key: planned.seconds for planned in pieces}
    needs = {planned.piece.key: planned.piece.needs for planned in pieces}
    joint = {planned.piece.key: planned.seconds / faster(planned.piece, devices) for planned in pieces}
    first = {p.piece.key for p in pieces if p.piece.stage in ("faces", "captures", "partitions", "train")}
    rest = {key: tuple(need for need in needs[key] if need not in first) for key in seconds if key not in first}
    alone = sum(joint[key] for key in first)
    return Layout(
        devices=devices,
        apart=packed(seconds, needs, devices) / 3600,
        first_together=(alone + packed(seconds, rest, devices)) / 3600,
        together=sum(joint.values()) / 3600,
        memory=memory,
    )


def faster(piece: Piece, devices: int) -> float:
    """What so many devices gain if all work on this piece. Images that are only embedded are divided; what runs on the
    processor gains nothing."""
    if piece.steps:
        return speed_up(devices, piece.batch)
    return devices if piece.forwards else 1


def packed(seconds: Mapping[str, float], needs: Mapping[str, Sequence[str]], slots: int) -> float:
    """When the last piece ends if each takes one slot and begins when what it needs is done. Of the pieces that could
    begin, the one with the longest way to the end goes first."""
    followers: dict[str, list[str]] = {key: [] for key in needs}
    for key, before in needs.items():
        for need in before:
            followers[need].append(key)
    way: dict[str, float] = {}
    for key in reversed(list(needs)):  # what is needed comes before what needs it
        way[key] = seconds[key] + max((way[after] for after in followers[key]), default=0.0)
    waiting = {key: len(before) for key, before in needs.items()}
    ready = [(-way[key], key) for key, count in waiting.items() if not count]
    heapq.heapify(ready)
    running: list[tuple[float, str]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < slots:
            _, key = heapq.heappop(ready)
            heapq.heappush(running, (now + seconds[key], key))
        now, done = heapq.heappop(running)
        for key in followers[done]:
            waiting[key] -= 1
            if not waiting[key]:
                heapq.heappush(ready, (-way[key], key))
    return now
