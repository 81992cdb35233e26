"""The worlds of the contest on disk: faces, draws of people, f* of each draw, and the activations of its trunk.

Everything lies in the work folder and is made once. A folder gets its final name when it is whole.
"""

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contest.rules import PEOPLE, PHOTOGRAPHS, SCALE, TUNING, World
from damnatio.backbones.cutting import cut
from damnatio.embedding import FILE, load_embeddings, save_embeddings
from damnatio.faces.base import Faces
from damnatio.models.importing import import_model
from damnatio.models.inputs import Inputs, Pixels, Rows, embed_inputs
from damnatio.models.store import load_backbone
from damnatio.partitions import FILE as PARTITIONS
from damnatio.partitions import FORGET, TEST, UNUSED, Partitions, draw
from damnatio.pipeline import Pipeline
from damnatio.recipe.files import load
from damnatio.recipe.schema import PartitionSettings, Recipe
from damnatio.support.errors import DamnatioError
from damnatio.support.files import write_atomically
from damnatio.support.tables import Table
from damnatio.training.loop import fit
from damnatio.training.original import original_job, write_imported
from damnatio.training.trunks import Activations, keep_activations
from damnatio.workspace import Workspace

BATCH = 64
"""images that are embedded at once: small batches stay in a processor's cache"""


@dataclass(frozen=True)
class Draw:
    """The people of a draw, f* in a folder, and its embeddings of all images that are compared."""

    number: int
    recipe: Recipe
    partitions: Partitions
    original: Path
    units: NDArray[np.float64]
    rows: Rows


class Place:
    """A world at work in a folder, which one process holds at a time."""

    def __init__(self, world: World, folder: Path, overrides: Sequence[str] = ()) -> None:
        self.world, self.folder, self.overrides = world, folder, list(overrides)
        self._workspace = Workspace(folder / "run", say, alone=True)
        self._draws: dict[int, Draw] = {}

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *what: object) -> None:
        self._workspace.__exit__(*what)

    def recipe(self, number: int) -> Recipe:
        """The recipe of a draw: its seed, the sizes of its sets and the budget."""
        world = self.world
        return load(
            world.recipe,
            [
                *world.common,
                *(world.tuning if number == TUNING else ()),
                *self.overrides,
                f"seed={number}",
                "evaluate.replicates=0",
                f"forget.batch={world.retain}",
                "forget.epochs=1",
                f"forget.identities_per_batch={PEOPLE}",
                f"forget.images_per_identity={PHOTOGRAPHS}",
                "forget.checkpoint_seconds=1000000",  # a run that was killed starts anew, so that its seconds are right
            ],
        )

    @cached_property
    def _stages(self) -> tuple[Faces, Table]:
        pipeline = Pipeline(self.recipe(TUNING), self._workspace)
        captures = pipeline.captures()
        return pipeline.images(pipeline.faces()), Table.read(captures.path / "captures.parquet")

    @property
    def faces(self) -> Faces:
        return self._stages[0]

    @cached_property
    def apart(self) -> set[str]:
        """The forget and test people of draw 0, whom no other draw may use."""
        members = self.partitions(TUNING)
        chosen = members.has(FORGET) | members.has(TEST)
        return {str(name) for name in members.table["identity"][chosen]}

    def partitions(self, number: int) -> Partitions:
        self._check_settings(number)
        folder = self.folder / f"draw-{number}"
        if not (folder / PARTITIONS).exists():
            apart = set() if number == TUNING else self.apart
            recipe = self.recipe(number)
            draw_apart(self._stages[1], recipe.partitions, recipe.seed, apart).write(folder)
        return Partitions.read(folder / PARTITIONS)

    def draw(self, number: int) -> Draw:
        if number not in self._draws:
            recipe, partitions = self.recipe(number), self.partitions(number)
            folder = self.folder / f"draw-{number}"
            original = made(folder / "original", lambda partial: self._original(recipe, partitions, partial))
            embedded = made(folder / "embeddings", lambda partial: self._embed(recipe, partitions, original, partial))
            units, rows = load_embeddings(embedded / FILE, partitions.table)
            self._draws[number] = Draw(number, recipe, partitions, original, units, rows)
        return self._draws[number]

    def inputs(self, recipe: Recipe, model: Path) -> Inputs:
        """What the trained part of a network takes: pixels, or the activations of the frozen trunk."""
        if recipe.forget.freeze is None:
            return Pixels(self.faces, load_backbone(model)[1])
        return Activations(self.trunk)

    def embed(self, recipe: Recipe, model: Path, rows: Rows) -> NDArray[np.float32]:
        """The embeddings of a model; from the trunk's activations where there is a trunk, for f* too."""
        network, card = load_backbone(model)
        freeze = recipe.forget.freeze
        part = network if freeze is None else cut(network, freeze)[1]
        return embed_inputs(part, self.inputs(recipe, model), dim=card.dim, rows=rows, batch=BATCH)

    @cached_property
    def trunk(self) -> Path:
        """The activations of every image and of its mirror image, which all draws share: f* is imported."""
        recipe = self.recipe(TUNING)
        freeze = recipe.forget.freeze
        assert freeze is not None
        assert recipe.model.weights is not None

        def build(partial: Path) -> None:
            network, card = import_model(recipe.model, recipe.faces.size)
            images = Pixels(self.faces, card)
            keep_activations(cut(network, freeze)[0], images, np.arange(len(self._stages[1])), BATCH, partial, say)

        return made(self.folder / "trunk", build)

    def _original(self, recipe: Recipe, partitions: Partitions, folder: Path) -> None:
        if not recipe.model.weights:
            return fit(original_job(recipe, self.faces, partitions), folder, say)
        network, card = import_model(recipe.model, recipe.faces.size)
        freeze = recipe.forget.freeze
        assert freeze is not None
        rows, labels = partitions.retain()
        units = embed_inputs(cut(network, freeze)[1], Activations(self.trunk), dim=card.dim, rows=rows, batch=BATCH)
        return write_imported(recipe.model, network, card, units, labels, folder)

    def _embed(self, recipe: Recipe, partitions: Partitions, original: Path, folder: Path) -> None:
        rows = partitions.evaluated(SCALE)
        save_embeddings(self.embed(recipe, original, rows), rows, folder)

    def _check_settings(self, number: int) -> None:
        """Refuse a draw that was made with other people or another f*."""
        wanted = self.recipe(number).model_dump(
            mode="json", include={"faces", "captures", "partitions", "model", "train"}
        )
        path = self.folder / f"draw-{number}" / "draw.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(wanted, indent=1) + "\n")
        elif json.loads(path.read_text()) != wanted:
            raise DamnatioError(
                f"{path.parent} was made with other settings: delete {self.folder}, or name another --work."
            )


def made(folder: Path, build: Callable[[Path], None]) -> Path:
    """The folder, built if it is not there. What an interrupted build left is handed to the next one."""
    if not folder.exists():
        partial = folder.with_name(f".partial-{folder.name}")
        partial.mkdir(parents=True, exist_ok=True)
        build(partial)
        partial.rename(folder)
    return folder


def fresh(folder: Path) -> Path:
    """An empty folder of this name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def draw_apart(captures: Table, settings: PartitionSettings, seed: int, apart: set[str]) -> Partitions:
    """The draw of a recipe among all people but those of `apart`, who are unused."""
    free = np.array([str(name) not in apart for name in captures["identity"]])
    drawn = draw(captures.where(free), settings, seed)
    unused = {"partition": UNUSED, "label": -1}
    columns = {}
    for name, values in drawn.table.columns.items():
        blank = unused.get(name, "" if values.dtype == object else 0)
        columns[name] = np.full(len(captures), blank, dtype=values.dtype)
        columns[name][free] = values
    columns |= {"row": np.arange(len(captures)), "image": captures["image"], "identity": captures["identity"]}
    return Partitions(Table(columns), drawn.scales)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
