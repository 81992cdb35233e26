"""A run without a training: structured random embeddings of f* and of three methods at two scales, evaluated and on a
page. People and images have names that a careless page would take for markup."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.legacy import Embedded
from damnatio.evaluation.measuring import ORIGINAL, measure, reference_of, write
from damnatio.evaluation.plane import FILE as PLANE
from damnatio.evaluation.plane import write_plane
from damnatio.evaluation.protocol import Comparisons, compare
from damnatio.partitions import EVAL, TRAIN, Partitions, counts, draw
from damnatio.recipe.files import load
from damnatio.recipe.schema import PartitionSettings, Recipe
from damnatio.reporting.drawing import Evaluated
from damnatio.reporting.findings import judging
from damnatio.reporting.lookup import Results
from damnatio.reporting.naming import Naming
from damnatio.reporting.page.content import Json, panel_of
from damnatio.reporting.page.writing import Page, write_page
from damnatio.reporting.ranges import Range
from damnatio.reporting.report import grids_of, headings, long_results, maps_of
from damnatio.support.tables import Table

SCALES = {"S1": 6, "S2": 12}
METHODS = ("HD", "OF", "GS")
POINTS = [0.001, 0.01]
DIM, IMAGES = 24, 8
COUNTS = PartitionSettings(
    retain=30, control=20, test=24, development=40, distractors=6, scales=SCALES, min_images=4, forget_min_images=6
)
HOSTILE = (
    '<img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=2</script>",
    "\"'><b onmouseover=window.hacked=3>",
    "{b|rich} 名前 & Zoë\u2028",
)
"""what names hold, one after the other"""
Units = NDArray[np.float64]


def the_recipe(methods: Sequence[str] = METHODS, scales: Sequence[str] = tuple(SCALES), seed: int = 1) -> Recipe:
    words = [f"forget.methods=[{', '.join(methods)}]", f"forget.scales=[{', '.join(scales)}]"]
    words += [
        f"seed={seed}",
        "partitions.scales={S1: 6, S2: 12}",
        f"evaluate.operating_points={POINTS}",
        "report.names=true",
    ]
    return load("demo", words)


@dataclass
class World:
    """Evaluations on disk, and the comparisons behind them."""

    recipe: Recipe
    partitions: Partitions
    evaluated: list[Evaluated] = field(default_factory=list)
    compared: dict[tuple[str, str], Comparisons] = field(default_factory=dict)
    """by scale and variant"""

    def range(self, scale: str, variant: str) -> Range:
        return Range.read(next(e.path for e in self.evaluated if (e.scale, e.variant) == (scale, variant)))

    def only(self, scales: Sequence[str], variants: Sequence[str]) -> "World":
        """A part of this run."""
        kept = [each for each in self.evaluated if each.scale in scales and each.variant in variants]
        recipe = the_recipe([v for v in variants if v != ORIGINAL], scales, self.recipe.seed)
        return World(recipe, self.partitions, kept, self.compared)

    @property
    def results(self) -> tuple[Table, Table, Results]:
        results, warnings = long_results("net", self.evaluated)
        return results, warnings, Results(results, warnings, headings(self.recipe), maps_of(self.recipe))

    def panels(self) -> list[Json]:
        scales = dict.fromkeys(each.scale for each in self.evaluated)
        naming = Naming(self.partitions, names=self.recipe.report.names)
        return [
            panel_of(s, self.evaluated, self.results[2], POINTS, f"{SCALES[s]} people ({s})", naming) for s in scales
        ]

    def write_page(self, folder: Path) -> Path:
        """The page, with tables and findings and without figures, which other tests draw."""
        folder.mkdir(parents=True, exist_ok=True)
        results, warnings, known = self.results
        several = len(self.recipe.forget.methods) > 0
        page = Page(
            title="a </script> run",
            lead="A run without a training.",
            panels=self.panels(),
            titles=known.titles,
            facts=[("recipe", self.recipe.name), ("command", "damnatio run '<b>'")],
            recipe="name: </pre><script>window.hacked=4</script>",
            warnings=["1:1: few <i>"],
            grids=grids_of(self.recipe, results, warnings, counts(self.partitions)),
            findings={"": judging.judge([(results, warnings)])} if several else {},
        )
        write_page(page, folder)
        return folder / "index.html"


@cache
def people(seed: int) -> Partitions:
    names = [f"p{i:03d} {HOSTILE[i % len(HOSTILE)]}" for i in range(160)]
    identities = [name for name in names for _ in range(IMAGES)]
    images = [f"{name}/{number:02d}" for name in names for number in range(IMAGES)]
    table = Table({"image": images, "identity": identities, "kept": [True] * len(images)})
    return draw(table, COUNTS, seed)


def embedded(members: Partitions, rows: NDArray[np.int64], seed: int) -> Units:
    """f*: everybody has a direction, and every image some noise."""
    rng = np.random.default_rng([seed, 1])
    names = members.table["identity"][rows]
    centre = {name: rng.normal(size=DIM) for name in sorted(set(names))}
    return _unit(np.array([centre[name] for name in names]) + 0.8 * rng.normal(size=(len(rows), DIM)))


def altered(units: Units, members: Partitions, scale: str, method: str, seed: int) -> Units:
    """HD disperses the photographs used and some new ones, and blurs the others; OF hides all behind axes, badly so new
    ones; GS replaces each by a stranger's and touches nobody else."""
    rng = np.random.default_rng([seed, len(method), ord(method[0])])
    used, new = members.in_forget_set(scale, TRAIN), members.in_forget_set(scale, EVAL)
    found = units.copy()
    if method == "GS":
        others = np.flatnonzero(~(used | new))
        found[used | new] = units[rng.choice(others, int((used | new).sum()))]
        return found
    if method == "HD":
        moved = used | (new & (rng.random(len(units)) < 0.8))
        found += 0.05 * rng.normal(size=found.shape)
        found[moved] = rng.normal(size=(int(moved.sum()), DIM))
    else:
        found[used] = np.eye(DIM)[rng.integers(DIM, size=int(used.sum()))] + 0.02 * rng.normal(size=(used.sum(), DIM))
        found[new] += 0.5 * rng.normal(size=(int(new.sum()), DIM))
        found += 0.25 * rng.normal(size=found.shape)
    return _unit(found)


def a_world(
    folder: Path, methods: Sequence[str] = METHODS, scales: Sequence[str] = tuple(SCALES), seed: int = 1
) -> World:
    """Measure f* and these methods at these scales."""
    shutil.rmtree(folder, ignore_errors=True)
    members = people(seed)
    world = World(the_recipe(methods, scales, seed), members)
    rows = members.evaluated()
    original = embedded(members, rows, seed)
    for scale in scales:
        for variant in (ORIGINAL, *methods):
            path = folder / f"{scale}-{variant}"
            path.mkdir(parents=True)
            first = variant == ORIGINAL
            units = original if first else altered(original, members.at(rows), scale, variant, seed)
            star = None if first else Embedded(original, rows)
            reference = None if first else reference_of(folder / f"{scale}-{ORIGINAL}")
            compared = compare(units, rows, members, scale, 0, seed, star)
            write(measure(compared, POINTS, reference, replicates=40), path)
            start = None if first else folder / f"{scale}-{ORIGINAL}" / PLANE
            write_plane(units, rows, members, scale, seed, start, path / PLANE)
            world.evaluated.append(Evaluated(scale, variant, path))
            world.compared[scale, variant] = compared
    return world


def _unit(raw: Units) -> Units:
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True))
