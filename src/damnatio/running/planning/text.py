"""A plan as a page of text for a terminal, and as JSON."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from damnatio.running.planning.hardware import EFFICIENCY, FULL
from damnatio.running.planning.plan import Layout, Plan, Planned
from damnatio.support.workers import cores

GB = 1e9
WIDTH = 120
STAGES = ("faces", "captures", "partitions", "train", "trunk", "forget", "embed", "evaluate", "report")
WAYS = {
    "apart": "one model per GPU",
    "first_together": "f* on all, then one per GPU",
    "together": "all on each model in turn",
}
PARTS = {
    "weights": "weights",
    "gradients": "gradients",
    "optimiser": "optimiser",
    "activations": "activations",
    "matrix": "class vectors",
    "logits": "logits",
    "method": "method",
}


def text_of(plan: Plan, gpus: int) -> str:
    """The whole page; its last line is the total for so many GPUs."""
    return "\n".join(
        [*_basis(plan), "", *_stages(plan, gpus), "", *_memory(plan), "", *_layouts(plan), "", *_total(plan, gpus)]
    )


def _basis(plan: Plan) -> Iterator[str]:
    counts, speed = next(iter(plan.counts.values())), next(iter(plan.speeds.values()))
    yield from _wrapped(
        f"Counts: {counts.images:,} images of {counts.identities:,} identities; {counts.retain:,} are of the "
        f"{counts.classes:,} retain identities, and {counts.evaluated:,} are compared. From {counts.origin}."
    )
    sizes = _range([count / 1e6 for count in plan.parameters.values()], "{:.1f}")
    estimate = "" if speed.words.startswith("measured") else " An estimate: half of it or twice as much is possible."
    fast = _range([each.gradients for each in plan.speeds.values()], "{:,.0f}")
    yield from _wrapped(
        f"Device: {plan.device}; {speed.words}: {fast} images per second in training "
        f"({sizes} million parameters).{estimate}"
    )
    yield from _wrapped(
        f"Measured on the processor here, {cores()} cores: {speed.decoded:,.0f} images decoded and "
        f"{speed.compared / 1e6:,.0f} million comparisons per second."
    )


def _stages(plan: Plan, gpus: int) -> Iterator[str]:
    line = "{:<12}{:<46}{:>7}{:>14}{:>10}{:>8}{:>9}{:>10}".format
    yield line("stage", "what", "models", "images each", "steps", "h each", "hours", "disk GB")
    for group in _grouped(plan):
        hours = [planned.seconds / 3600 for planned in group]
        disk = sum(planned.piece.disk for planned in group)
        yield line(
            group[0].piece.stage,
            textwrap.shorten(_names(group, len(plan.counts) > 1), 45, placeholder=" ..."),
            len(group),
            _common([planned.piece.images for planned in group]),
            _common([planned.piece.steps for planned in group]),
            _number(sum(hours) / len(hours)),
            _number(sum(hours)),
            _number(disk / GB),
        )
    held = f"while {_times(gpus, 'model')} trained"
    yield line("checkpoints", held, "", "", "", "", "", _number(plan.scratch(gpus) / GB))


def _grouped(plan: Plan) -> list[list[Planned]]:
    """Pieces in the order of the stages. Trainings of equal cost stand together; of the other stages all pieces do."""
    groups: dict[tuple[Any, ...], list[Planned]] = {}
    for planned in plan.pieces:
        piece = planned.piece
        alike: tuple[Any, ...] = (piece.stage,)
        if piece.steps:
            alike = piece.stage, piece.scale, planned.experiments, piece.images, piece.steps
        groups.setdefault(alike, []).append(planned)
    return sorted(groups.values(), key=lambda group: STAGES.index(group[0].piece.stage))


def _common(numbers: Sequence[int]) -> str:
    """The number that all have which have any; empty if they differ."""
    found = {number for number in numbers if number}
    return f"{found.pop():,}" if len(found) == 1 else ""


def _names(group: Sequence[Planned], several: bool) -> str:
    titles = {title for planned in group for title in planned.experiments}
    whose = f"{titles.pop()}: " if several and len(titles) == 1 else ""
    scales: dict[str, dict[str, None]] = {}
    for planned in group:
        scale, _, variant = planned.piece.name.partition(" ") if planned.piece.scale else ("", "", planned.piece.name)
        scales.setdefault(scale, {})[variant] = None
    return whose + "; ".join(f"{scale} {' '.join(names)}".strip() for scale, names in scales.items())


def _memory(plan: Plan) -> Iterator[str]:
    parts = " + ".join(f"{title} {getattr(plan.memory, name) / GB:.2f}" for name, title in PARTS.items())
    yield from _wrapped(
        f"Memory of one device, at most, for {plan.largest}, the largest: {parts} = {plan.memory.total / GB:.1f} GB."
    )
    if 0 < plan.room < plan.memory.total / GB:
        room = f"the {plan.room:.0f} GB of this device"
        yield from _wrapped(f"That is more than {room}: let several train it together, or lower the batch.")
    yield from _wrapped(
        f"An evaluation holds the embeddings of f and f*: at least {plan.evaluation / GB:.1f} GB of the processor's."
    )


def _layouts(plan: Plan) -> Iterator[str]:
    line = "{:<6}{:>22}{:>31}{:>29}{:>28}".format
    yield line("GPUs", *(f"{words}, h" for words in WAYS.values()), "GB each, all on one model")
    for layout in plan.layouts:
        hours = [_number(getattr(layout, way)) for way in WAYS]
        yield line(layout.devices, *hours, f"{layout.memory.total / GB:.1f}")
    yield from _wrapped(
        f"All on one model: a GPU is taken to keep {EFFICIENCY:g} of its speed when its share of the batch is halved, "
        f"below {FULL} images. Methods do not wait for each other, only for f*."
    )


def _total(plan: Plan, gpus: int) -> Iterator[str]:
    layout = next(layout for layout in plan.layouts if layout.devices == gpus)
    several = f"; {_duration(layout.best)} on {gpus} ({_best_way(layout)})" if gpus > 1 else ""
    disk = f"{_number(plan.disk / GB)} GB of disk"
    pixels = "" if plan.cached else ", the images themselves apart"
    memory = f"{plan.memory.total / GB:.1f} GB of memory"
    yield f"Total: {_duration(plan.hours)} on one device{several}; {disk}{pixels}; {memory}."


def _best_way(layout: Layout) -> str:
    return WAYS[min(WAYS, key=lambda way: float(getattr(layout, way)))]


def _duration(hours: float) -> str:
    if hours < 1:
        return f"{max(hours * 60, 1):.0f} minutes"
    return f"{hours:,.1f} hours" if hours < 48 else f"{hours:,.0f} hours ({hours / 24:,.1f} days)"


def _number(value: float) -> str:
    """Two digits that tell something."""
    if value == 0:
        return ""
    return (
        f"{value:,.0f}"
        if value >= 100
        else f"{value:.1f}"
        if value >= 1
        else f"{value:.2g}"
        if value >= 0.01
        else "<0.01"
    )


def _range(numbers: Sequence[float], form: str) -> str:
    return " to ".join(dict.fromkeys(form.format(number) for number in (min(numbers), max(numbers))))


def _times(count: int, noun: str) -> str:
    return f"one {noun} is" if count == 1 else f"{count} {noun}s are"


def _wrapped(sentence: str) -> list[str]:
    return textwrap.wrap(sentence, WIDTH)


def json_of(plan: Plan) -> dict[str, Any]:
    """The plan as plain values, with the sums that the page shows."""
    content = asdict(plan)
    content |= {"hours": plan.hours, "disk": plan.disk, "memory_total": plan.memory.total}
    for layout, plain in zip(plan.layouts, content["layouts"], strict=True):
        plain |= {"best": layout.best, "memory_total": layout.memory.total}
    return content
