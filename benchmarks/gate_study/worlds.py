"""Worlds to study: everybody's embedding under f*, and who has which part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from damnatio.embedding import FILE, embed_batch, load_embeddings
from damnatio.evaluation.measuring import ORIGINAL
from damnatio.faces.base import Faces, Images
from damnatio.methods.base import method_settings
from damnatio.models.store import load_backbone
from damnatio.partitions import DROPPED, EVAL, FORGET, TRAIN, UNUSED, Partitions, draw
from damnatio.partitions import FILE as PARTITIONS
from damnatio.pipeline import Pipeline
from damnatio.recipe.files import load
from damnatio.recipe.schema import PartitionSettings, Recipe
from damnatio.support.tables import Table, codes_of, groups_of
from damnatio.workspace import Workspace

from .choices import LFW_DRAW, LFW_SHARES, LFW_SHARES_DRAW, RENDERED, SEED, Choices

Units = NDArray[np.float64]
Rows = NDArray[np.int64]
SCALE = "S"
"""the only scale of a world whose people a study chose"""
BATCH = 64


@dataclass(frozen=True)
class World:
    """Embeddings under f* and partitions. `units[i]` is f* of the image at table row `rows[i]`."""

    name: str
    recipe: Recipe
    partitions: Partitions
    rows: Rows
    units: Units
    captures: NDArray[np.int64]
    """the capture instance of every image of the table, counted within its identity"""
    faces: Faces
    model: Path
    tuned: Mapping[str, Units]
    """by scale: the same images under HD, which fine-tunes f*, where that was computed"""

    @property
    def members(self) -> Partitions:
        """The partitions of the embedded images, in the order of `units`."""
        return self.partitions.at(self.rows)

    @property
    def settings(self) -> dict[str, Any]:
        """What the recipe sets for GS."""
        return dict(method_settings(self.recipe, "GS").model_dump())

    def embedded(self, images: Images) -> Units:
        """f* of images that were changed."""
        network, card = load_backbone(self.model)
        blocks = [embed_batch(network, card, images[start : start + BATCH]) for start in range(0, len(images), BATCH)]
        units = np.concatenate(blocks).astype(np.float64)
        return np.asarray(units / np.linalg.norm(units, axis=1, keepdims=True))

    def pixels(self, places: Rows) -> Images:
        """The images at these places of `units`."""
        return self.faces.read(self.rows[places])


def rendered(work: Path, overrides: Sequence[str]) -> World:
    """Rendered faces, f* and HD, by `benchmarks/rendered.yaml`."""
    recipe = Path(__file__).resolve().parents[1] / "rendered.yaml"
    return _run(load(recipe, [*RENDERED, *overrides]), work / "rendered", tuned=True)


def lfw(work: Path, faces: Path, weights: Path, overrides: Sequence[str]) -> World:
    """Labeled Faces in the Wild under FaceX-Zoo's MobileFaceNet, by the recipe `lfw-mobilefacenet`."""
    places = [f"faces.root={faces}", f"model.weights={weights}", "forget.methods=[]"]
    return _run(load("lfw-mobilefacenet", [*places, *overrides]), work / "lfw", tuned=False)


def _run(recipe: Recipe, folder: Path, tuned: bool) -> World:
    with Workspace(folder) as workspace:
        pipeline = Pipeline(recipe, workspace)
        faces, captures, partitions = pipeline.faces(), pipeline.captures(), pipeline.partitions()
        table = Partitions.read(partitions.path / PARTITIONS)
        scales = recipe.forget.scales
        units, rows = load_embeddings(pipeline.embeddings(scales[0], ORIGINAL).path / FILE, table.table)
        found = {
            scale: load_embeddings(pipeline.embeddings(scale, "HD").path / FILE, table.table)[0]
            for scale in scales
            if tuned
        }
        return World(
            name=recipe.name,
            recipe=recipe,
            partitions=table,
            rows=rows,
            units=units,
            captures=Table.read(captures.path / "captures.parquet")["capture"].astype(np.int64),
            faces=pipeline.images(faces),
            model=pipeline.original().path,
            tuned=found,
        )


def with_people(world: World, choices: Choices) -> World:
    """The world in which `people` people are forgotten who have more photographs than any gate is made of. `used` of
    each are forget-train images, at most `new` others are forget-eval images."""
    if world.name != "rendered":
        least = choices.used + 4
        world = _redrawn(world, {**LFW_DRAW, "scales": {SCALE: choices.people}, "forget_min_images": least})
    table, members = world.partitions.table, world.members.table
    rng = np.random.default_rng([SEED, 1])
    partition, role, scale = (table[name].copy() for name in ("partition", "role", "scale"))
    forget = np.flatnonzero(members["partition"] == FORGET)
    partition[partition == FORGET] = UNUSED
    taken = 0
    for group in groups_of(codes_of(members["identity"][forget])[0]):
        single = forget[group]
        if len(single) < choices.used + 4 or taken == choices.people:
            continue
        taken += 1
        rows = world.rows[rng.permutation(single)]
        partition[rows], scale[rows], role[rows] = FORGET, SCALE, DROPPED
        role[rows[: choices.used]] = TRAIN
        role[rows[choices.used : choices.used + choices.new]] = EVAL
    changed = table.with_columns(partition=partition, role=role, scale=scale)
    return replace(world, partitions=Partitions(changed, {SCALE: taken}))


def with_shares(world: World) -> World:
    """The world with forget sets that are a share of the population."""
    return world if world.name == "rendered" else _redrawn(world, {**LFW_SHARES_DRAW, "scales": LFW_SHARES})


def _redrawn(world: World, counts: Mapping[str, Any]) -> World:
    """Other partitions of the same images. f* was not trained on any of them."""
    kept = np.zeros(len(world.partitions.table), dtype=bool)
    kept[world.rows] = True
    captures = Table(
        {"image": world.partitions.table["image"], "identity": world.partitions.table["identity"], "kept": kept}
    )
    settings = PartitionSettings(**{**world.recipe.partitions.model_dump(), **counts})
    return replace(world, partitions=draw(captures, settings, SEED))
