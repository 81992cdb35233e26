"""Distances between score distributions, their sketches, and what the metrics may import."""

import math
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats  # noqa: F401 - slow to import, and examples are timed
from hypothesis import given
from hypothesis import strategies as st

from damnatio.metrics.distributions import EDGES, histogram, wasserstein1

score_lists = st.lists(st.floats(-1, 1), min_size=1, max_size=25)


def naive_wasserstein(a: list[float], b: list[float]) -> float:
    """The integral of |F - G| over the line, one interval between neighbouring breakpoints at a time."""
    breakpoints = sorted([*a, *b])
    area = 0.0
    for left, right in pairwise(breakpoints):
        below_a = sum(x <= left for x in a) / len(a)
        below_b = sum(x <= left for x in b) / len(b)
        area += abs(below_a - below_b) * (right - left)
    return area


@given(score_lists, score_lists)
def test_w1_is_the_area_between_the_distribution_functions(a: list[float], b: list[float]) -> None:
    assert wasserstein1(np.array(a), np.array(b)) == pytest.approx(naive_wasserstein(a, b), abs=1e-12)


@given(score_lists, score_lists)
def test_w1_is_symmetric_and_zero_to_itself(a: list[float], b: list[float]) -> None:
    x, y = np.array(a), np.array(b)
    assert wasserstein1(x, y) == pytest.approx(wasserstein1(y, x), abs=1e-12)
    assert wasserstein1(x, x) == 0
    assert wasserstein1(x, np.repeat(x, 3)) == pytest.approx(0, abs=1e-12)


@given(score_lists, st.floats(-1, 1))
def test_w1_of_a_shift_is_its_length(a: list[float], shift: float) -> None:
    assert wasserstein1(np.array(a), np.array(a) + shift) == pytest.approx(abs(shift), abs=1e-12)


def test_w1_by_hand() -> None:
    assert wasserstein1(np.array([0.0, 1.0]), np.array([0.5])) == 0.5
    assert wasserstein1(np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.0])) == 0.25


def test_w1_with_nothing_is_no_number() -> None:
    nothing, something = np.zeros(0), np.array([0.5])
    assert math.isnan(wasserstein1(nothing, something))
    assert math.isnan(wasserstein1(something, nothing))
    assert math.isnan(wasserstein1(nothing, nothing))


@given(st.lists(st.floats(-1.001, 1.001), max_size=50))
def test_histogram_holds_every_score_once(scores: list[float]) -> None:
    counts = histogram(np.array(scores, dtype=np.float64))
    assert counts.sum() == len(scores)
    assert len(counts) == len(EDGES) - 1


def test_score_that_rounding_carried_past_one_falls_into_the_last_bin() -> None:
    counts = histogram(np.array([1 + 1e-12, 1.0, -1 - 1e-12]))
    assert counts[-1] == 2
    assert counts[0] == 1


def test_score_lies_between_the_edges_of_its_bin() -> None:
    for score in (-0.9999, -0.5011, 0.0001, 0.3337, 0.9999):
        (place,) = np.flatnonzero(histogram(np.array([score])))
        assert EDGES[place] <= score < EDGES[place + 1]


def test_metrics_import_neither_torch_nor_the_rest_of_the_package() -> None:
    """An auditor can run them with NumPy and SciPy alone."""
    script = (
        "import sys\n"
        "import damnatio.metrics.verification, damnatio.metrics.identification, damnatio.metrics.distributions\n"
        "print(*sorted(name for name in sys.modules if name.split('.')[0] in ('torch', 'damnatio')))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    own = {f"damnatio.metrics.{name}" for name in ("verification", "identification", "distributions")}
    assert loaded == own | {"damnatio", "damnatio.metrics"}
