"""Distances between score distributions, their sketches, and what the metrics may import."""

import math
import pkgutil
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats
from hypothesis import example, given
from hypothesis import strategies as st

from damnatio import metrics
from damnatio.metrics.distributions import BIN, BINS, EDGES, Sample, bins_of, wasserstein1

score_lists = st.lists(st.floats(-1, 1), min_size=1, max_size=25)
tied_lists = st.lists(st.floats(-1, 1).map(lambda x: round(x, 1)), min_size=1, max_size=60)


def sample(*scores: float) -> Sample:
    return Sample.of(np.array(scores, dtype=np.float64))


def binned(scores: list[float]) -> Sample:
    return Sample.of_bins(np.bincount(bins_of(np.array(scores)), minlength=BINS))


def naive_wasserstein(a: list[float], b: list[float]) -> float:
    """The integral of |F - G| over the line, one interval between neighbouring breakpoints at a time."""
    breakpoints = sorted([*a, *b])
    area = 0.0
    for left, right in pairwise(breakpoints):
        below_a = sum(x <= left for x in a) / len(a)
        below_b = sum(x <= left for x in b) / len(b)
        area += abs(below_a - below_b) * (right - left)
    return area


@given(score_lists | tied_lists, score_lists | tied_lists)
def test_w1_is_the_area_between_the_distribution_functions(a: list[float], b: list[float]) -> None:
    found = wasserstein1(sample(*a), sample(*b))
    assert found == pytest.approx(naive_wasserstein(a, b), abs=1e-12)
    assert found == pytest.approx(scipy.stats.wasserstein_distance(a, b), abs=1e-12)


@given(score_lists, score_lists)
def test_w1_is_symmetric_and_zero_to_itself(a: list[float], b: list[float]) -> None:
    x, y = sample(*a), sample(*b)
    assert wasserstein1(x, y) == pytest.approx(wasserstein1(y, x), abs=1e-12)
    assert wasserstein1(x, x) == 0
    assert wasserstein1(x, Sample(x.values, x.counts * 3)) == pytest.approx(0, abs=1e-12)


@given(score_lists, st.floats(-1, 1))
def test_w1_of_a_shift_is_its_length(a: list[float], shift: float) -> None:
    assert wasserstein1(sample(*a), Sample.of(np.array(a) + shift)) == pytest.approx(abs(shift), abs=1e-12)


def test_w1_by_hand() -> None:
    assert wasserstein1(sample(0.0, 1.0), sample(0.5)) == 0.5
    assert wasserstein1(sample(0.0, 0.0, 0.0, 1.0), sample(0.0)) == 0.25


def test_w1_with_nothing_is_no_number() -> None:
    assert math.isnan(wasserstein1(sample(), sample(0.5)))
    assert math.isnan(wasserstein1(sample(0.5), sample()))
    assert math.isnan(wasserstein1(sample(), sample()))


@given(score_lists, score_lists)
def test_w1_of_counts_in_bins_is_within_their_errors(a: list[float], b: list[float]) -> None:
    exact = wasserstein1(sample(*a), sample(*b))
    for x, y in ((binned(a), binned(b)), (binned(a), sample(*b)), (sample(*a), binned(b))):
        assert abs(wasserstein1(x, y) - exact) <= x.error + y.error + 1e-12


@given(tied_lists)
def test_sample_is_each_score_and_how_often_it_occurs(scores: list[float]) -> None:
    made = sample(*scores)
    assert made.values.tolist() == sorted(set(scores))
    assert made.counts.tolist() == [sum(s == value for s in scores) for value in made.values]
    assert made.count == len(scores)
    assert made.error == 0


@given(score_lists)
@example([0.003906726837158205])  # adding 1 would round it to half-way between two bins
@example([-1.0, -BIN / 2, np.nextafter(BIN / 2, 0), BIN / 2, np.nextafter(BIN / 2, 1), 1.0])
def test_no_score_moves_by_more_than_the_error_of_its_bin(scores: list[float]) -> None:
    made = binned(scores)
    assert made.count == len(scores)
    assert np.abs(np.repeat(made.values, made.counts) - np.sort(scores)).max() <= made.error == BIN / 2


def test_score_that_rounding_carried_past_one_is_in_the_last_bin() -> None:
    assert bins_of(np.array([-1 - 1e-5, -1.0, 0.0, 1.0, 1 + 1e-5])).tolist() == [0, 0, BINS // 2, BINS - 1, BINS - 1]


@given(st.lists(st.floats(-1.001, 1.001), max_size=50))
def test_histogram_holds_every_score_once(scores: list[float]) -> None:
    counts = sample(*scores).histogram()
    assert counts.sum() == len(scores)
    assert len(counts) == len(EDGES) - 1


@given(tied_lists)
def test_histogram_counts_every_tied_score(scores: list[float]) -> None:
    assert sample(*scores).histogram().tolist() == np.histogram(scores, EDGES)[0].tolist()


def test_score_that_rounding_carried_past_one_falls_into_the_last_bin() -> None:
    counts = sample(1 + 1e-12, 1.0, -1 - 1e-12).histogram()
    assert counts[-1] == 2
    assert counts[0] == 1


def test_score_lies_between_the_edges_of_its_bin() -> None:
    for score in (-0.9999, -0.5011, 0.0001, 0.3337, 0.9999):
        (place,) = np.flatnonzero(sample(score).histogram())
        assert EDGES[place] <= score < EDGES[place + 1]


def test_metrics_import_neither_torch_nor_the_rest_of_the_package() -> None:
    """An auditor can run them with NumPy and SciPy alone."""
    names = {f"damnatio.metrics.{module.name}" for module in pkgutil.iter_modules(metrics.__path__)}
    assert {"damnatio.metrics.intervals", "damnatio.metrics.verification"} < names
    script = (
        f"import sys, {', '.join(sorted(names))}\n"
        "print(*sorted(name for name in sys.modules if name.split('.')[0] in ('torch', 'damnatio')))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    light = {"damnatio", "damnatio.metrics"}
    assert set(done.stdout.split()) == names | light


def test_deviation_is_that_of_the_population() -> None:
    assert Sample.of(np.array([0.0, 0.0, 1.0, 1.0])).deviation == 0.5
    assert Sample.of(np.array([1.0, 2.0, 3.0])).deviation == pytest.approx(math.sqrt(2 / 3))
    assert Sample.of(np.array([0.3])).deviation == 0
    assert math.isnan(Sample.of(np.zeros(0)).deviation)
