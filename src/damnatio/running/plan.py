"""What a recipe makes, before anything runs: its stages with their images and steps, and which of them are there.

The images are those of the partitions that the run has drawn, else of a draw from the index of the source, in which
every image is a capture instance of its own. Without the source each identity has as many images as WebFace4M's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.faces import SOURCES
from damnatio.methods.base import MethodSettings, method_settings, schedule_of
from damnatio.partitions import FILE, TRAIN, Partitions, draw
from damnatio.pipeline import Pipeline
from damnatio.recipe.schema import Recipe
from damnatio.running.graph import Graph, graph_of
from damnatio.support.errors import DamnatioError
from damnatio.workspace import Output

IMAGES = 4_200_000 / 205_990
"""images per identity of WebFace4M (IV-A)"""
FLOAT, ROW = 4, 8
"""bytes of a value of an embedding, and of the number of its image"""


@dataclass(frozen=True)
class Counts:
    """Numbers of images, unless a name says otherwise."""

    images: int
    identities: int
    retain: int
    forget: Mapping[str, int]
    """forget-train images of each scale"""
    evaluated: int
    origin: str


@dataclass(frozen=True)
class Part:
    """An output of a stage. `images` counts an image once per pass through the network."""

    stage: str
    name: str
    images: int = 0
    steps: int = 0
    disk: int = 0


def counts_of(recipe: Recipe, partitions: Output | None = None) -> Counts:
    if partitions is not None:
        return _drawn(Partitions.read(partitions.path / FILE), "the run's partitions")
    try:
        index = SOURCES.get(recipe.faces.source)(recipe.faces).index()
    except (DamnatioError, OSError) as error:
        return _assumed(recipe, f"the recipe, with {IMAGES:.1f} images of each identity ({str(error).rstrip('.')})")
    columns = {"capture": np.arange(len(index)), "kept": np.ones(len(index), dtype=bool)}
    table = draw(index.with_columns(**columns), recipe.partitions, recipe.seed)
    return _drawn(table, "the index of the source, before capture instances are found")


def _drawn(partitions: Partitions, origin: str) -> Counts:
    return Counts(
        images=len(partitions.table),
        identities=len(set(partitions.table["identity"])),
        retain=len(partitions.retain()[0]),
        forget={scale: int(partitions.in_forget_set(scale, TRAIN).sum()) for scale in partitions.scales},
        evaluated=len(partitions.evaluated()),
        origin=origin,
    )


def _assumed(recipe: Recipe, origin: str) -> Counts:
    drawn = recipe.partitions
    compared = drawn.test + drawn.development + drawn.distractors + max(drawn.scales.values())
    return Counts(
        images=round((drawn.retain + compared) * IMAGES),
        identities=drawn.retain + compared,
        retain=round(drawn.retain * IMAGES),
        forget={scale: round(count * drawn.forget_train * IMAGES) for scale, count in drawn.scales.items()},
        evaluated=round((drawn.control + compared) * IMAGES),
        origin=origin,
    )


def parts_of(recipe: Recipe, counts: Counts) -> Iterator[Part]:
    """The outputs of a recipe in the order of the pipeline, by the names that they have there."""
    pixels = counts.images * recipe.faces.size**2 * 3
    yield Part(
        "1-faces", recipe.faces.source, counts.images, disk=pixels if pixels <= recipe.faces.cache_gb * 1e9 else 0
    )
    yield Part("2-captures", "all", counts.images)
    yield Part("3-partitions", "all", counts.images)
    steps = 0 if recipe.model.weights else recipe.train.epochs * (counts.retain // recipe.train.batch)
    yield Part("4-train", ORIGINAL, steps * recipe.train.batch or counts.retain, steps)
    if recipe.forget.freeze is not None:
        yield Part("4-trunk", recipe.forget.freeze, 2 * (counts.retain + max(counts.forget.values())))
    embeddings = counts.evaluated * (FLOAT * recipe.model.dim + ROW)
    yield Part("6-embed", ORIGINAL, counts.evaluated, disk=embeddings)
    for scale in recipe.forget.scales:
        yield Part("7-evaluate", f"{scale}-{ORIGINAL}")
        for variant in recipe.forget.methods:
            name = f"{scale}-{variant}"
            trained = isinstance(method_settings(recipe, variant), MethodSettings)  # else a closed form
            yield _fine_tuned(recipe, counts, scale, variant) if trained else Part("5-forget", name)
            yield Part("6-embed", name, counts.evaluated if trained else 0, disk=embeddings)
            yield Part("7-evaluate", name)
    if any(not isinstance(method_settings(recipe, variant), MethodSettings) for variant in recipe.forget.methods):
        yield Part("6-embed", "strangers")
    yield Part("6-embed", "examples")
    if recipe.report.pictures:
        yield Part("8-pictures", "map")
    yield Part("report", "")


def _fine_tuned(recipe: Recipe, counts: Counts, scale: str, variant: str) -> Part:
    schedule, people = schedule_of(recipe, variant), recipe.partitions.scales[scale]
    each = min(schedule.images_per_identity, max(1, counts.forget[scale] // people))
    drawn = min(schedule.identities_per_batch, people) * each
    steps = schedule.epochs * (counts.retain // schedule.batch)
    return Part("5-forget", f"{scale}-{variant}", steps * (schedule.batch + drawn), steps)


# --- for people -----------------------------------------------------------------------------------------------------


def plan(pipelines: Mapping[str, Pipeline]) -> Iterator[str]:
    """The lines of the plan, of each experiment of a recipe."""
    try:
        graph = graph_of(pipelines)
    except DamnatioError:  # without faces no key is known
        graph = Graph({}, {})
    done = graph.done(next(iter(pipelines.values())).workspace.folder)
    for title, pipeline in pipelines.items():
        own = {
            (node.stage.split("-")[0] if node.stage.startswith("report") else node.stage, node.name): done.get(key)
            for key, node in graph.nodes.items()
            if title in graph.experiments[key]
        }
        yield ""
        yield from _page(pipeline.recipe, title, own)
    if len(pipelines) > 1:
        yield ""
        yield "Stages that are equal in several experiments are made once."


def _page(recipe: Recipe, title: str, there: Mapping[tuple[str, str], Output | None]) -> Iterator[str]:
    counts = counts_of(recipe, there.get(("3-partitions", "all")))
    yield (
        f"{f'{title}: ' if title else ''}{counts.images:,} images of {counts.identities:,} identities; "
        f"{counts.retain:,} of the {recipe.partitions.retain:,} retain identities, {counts.evaluated:,} compared."
    )
    yield f"Counted by {counts.origin}."
    groups: dict[tuple[str, int, int], list[Part]] = {}
    parts = list(parts_of(recipe, counts))
    for part in sorted(parts, key=lambda part: part.stage):
        groups.setdefault((part.stage, part.images, part.steps), []).append(part)
    line = "{:<14}{:>8}{:>7}{:>15}{:>11}{:>9}  {}".format
    yield line("stage", "outputs", "there", "images each", "steps", "disk GB", "").rstrip()
    for (stage, images, steps), group in groups.items():
        made = sum(there.get((stage, part.name)) is not None for part in group)
        disk = sum(part.disk for part in group) / 1e9
        cells = (f"{number:,}" if number else "" for number in (images, steps))
        names = " ".join(part.name for part in group)
        yield line(stage, len(group), made or "", *cells, f"{disk:.2f}" if disk else "", names).rstrip()
    made = sum(there.get((part.stage, part.name)) is not None for part in parts)
    yield f"{made} of {len(parts)} stages are there. The disk is that of decoded faces and embeddings."
