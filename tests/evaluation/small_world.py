"""Twenty people with random embeddings, all their comparisons, and results side by side."""

import math
from dataclasses import astuple

import numpy as np
import pytest
from numpy.typing import NDArray

from damnatio.evaluation.legacy import Embedded
from damnatio.evaluation.protocol import Comparisons, compare
from damnatio.evaluation.rates import Result
from damnatio.partitions import Partitions, draw
from damnatio.recipe.schema import PartitionSettings
from damnatio.support.tables import Table
from tests.evaluation.naive import Results, Vector

SCALES = {"S1": 2, "S2": 4}
ALL = 1_000_000
DIM = 5
COUNTS = PartitionSettings(
    retain=5,
    control=3,
    test=3,
    development=5,
    distractors=3,
    scales=SCALES,
    min_images=4,
    forget_min_images=6,
    order="scarcest-first",
)


def partitions(seed: int = 1) -> Table:
    """Twenty identities of four to twelve images, of which some are not kept."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 13, 20)
    sizes[:8] = rng.integers(9, 13, 8)
    names = [f"p{i:02d}" for i in range(20) for _ in range(sizes[i])]
    images = [f"p{i:02d}/{j:02d}" for i in range(20) for j in range(sizes[i])]
    kept = rng.random(len(names)) < 0.9
    return draw(Table({"image": images, "identity": names, "kept": kept}), COUNTS, seed).table


def random_units(table: Table, seed: int) -> tuple[Vector, NDArray[np.int64]]:
    """Embeddings of the evaluated rows: the identity's direction and noise."""
    rng = np.random.default_rng(seed)
    rows = Partitions(table, SCALES).evaluated()
    centre = {name: rng.normal(size=DIM) for name in sorted(set(table["identity"]))}
    raw = np.array([centre[name] for name in table["identity"][rows]]) + rng.normal(size=(len(rows), DIM))
    return raw / np.linalg.norm(raw, axis=1, keepdims=True), rows


def compared(
    table: Table, units: Vector, rows: NDArray[np.int64], scale: str, original: Embedded | None = None
) -> Comparisons:
    return compare(units, rows, Partitions(table, SCALES), scale, ALL, seed=1, original=original)


def keyed(found: list[Result]) -> Results:
    results: Results = {}
    for result in found:
        point = None if math.isnan(result.operating_point) else result.operating_point
        key = (result.task, result.group, point, result.metric)
        assert key not in results, f"{key} is given twice"
        results[key] = result.value, result.count
    return results


def assert_same(results: Results, naive: Results) -> None:
    assert set(results) == set(naive)
    for key, (value, count) in naive.items():
        assert results[key][1] == count, key
        assert results[key][0] == pytest.approx(value, abs=1e-9, nan_ok=True), key


def assert_equal(results: list[Result], others: list[Result]) -> None:
    """In all eleven fields; NaN equals NaN."""
    assert len(results) == len(others)
    for result, other in zip(results, others, strict=True):
        pairs = zip(astuple(result), astuple(other), strict=True)
        assert all(a == b or (a != a and b != b) for a, b in pairs), (result, other)
