"""Intervals against a bootstrap that really repeats what it drew."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio.metrics import intervals
from damnatio.metrics.intervals import (
    Draws,
    Places,
    counted,
    difference_of_means,
    difference_of_shares,
    draw_subjects,
    interval,
    pair_rates,
    pair_totals,
    person_rates,
    rates,
    thresholds,
    wilson,
)
from damnatio.metrics.verification import Scores, acceptance_rate, threshold_at

Z = 1.959963984540054


# --- Wilson ----------------------------------------------------------------------------------------------------------


def test_wilson_by_hand() -> None:
    """0 of 10: the upper end is z^2 / (n + z^2). 5 of 10: the ends lie evenly about a half."""
    assert wilson(0, 10) == pytest.approx((0, Z**2 / (10 + Z**2)), abs=1e-12)
    assert wilson(0, 10)[1] == pytest.approx(0.27753, abs=1e-5)
    assert wilson(10, 10) == pytest.approx((10 / (10 + Z**2), 1), abs=1e-12)
    assert wilson(5, 10) == pytest.approx((0.23659, 0.76341), abs=1e-5)
    assert wilson(1, 1) == pytest.approx((1 / (1 + Z**2), 1), abs=1e-12)


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_ends_of_wilson_are_where_the_score_test_rejects(count: int, part: float) -> None:
    """At each end p the observed share is z standard errors of p away: (x/n - p)^2 = z^2 p (1 - p) / n."""
    accepted = round(part * count)
    low, high = wilson(accepted, count)
    assert 0 <= low <= accepted / count <= high <= 1
    for end in (low, high):
        assert (accepted / count - end) ** 2 == pytest.approx(Z**2 * end * (1 - end) / count, abs=1e-9)


def test_wilson_of_nothing_is_no_number() -> None:
    assert all(math.isnan(end) for end in wilson(0, 0))


# --- the percentile interval -----------------------------------------------------------------------------------------


def test_interval_of_a_constant_is_a_point() -> None:
    assert interval(np.full(50, 0.25)) == (0.25, 0.25)


def test_interval_leaves_out_a_fortieth_at_each_end() -> None:
    values = np.random.default_rng(0).permutation(np.arange(0.0, 1001.0))
    assert interval(values) == pytest.approx((25, 975))


def test_interval_leaves_out_replicates_without_a_rate() -> None:
    assert interval(np.array([math.nan, 0.5, math.nan])) == (0.5, 0.5)
    assert all(math.isnan(end) for end in interval(np.full(3, math.nan)))
    assert all(math.isnan(end) for end in interval(np.zeros(0)))


# --- replicates ------------------------------------------------------------------------------------------------------


def test_each_replicate_draws_as_many_subjects_as_there_are() -> None:
    draws = draw_subjects(7, 400, np.random.default_rng(0))
    assert draws.shape == (400, 7)
    assert (draws.sum(axis=1) == 7).all()
    assert draws.mean(axis=0) == pytest.approx([1] * 7, abs=0.25)
    assert np.array_equal(draws, draw_subjects(7, 400, np.random.default_rng(0)))


def drawn_subjects(draws: Draws, replicate: int) -> list[int]:
    """The subjects of a replicate, each as often as it was drawn."""
    return [s for s in range(draws.shape[1]) for _ in range(int(draws[replicate, s]))]


def repeated(scores: Scores, subjects: Places, draws: Draws, replicate: int) -> Scores:
    drawn = drawn_subjects(draws, replicate)
    return np.array([score for s in drawn for score, whose in zip(scores, subjects, strict=True) if whose == s])


def repeated_pairs(scores: Scores, a: Places, b: Places, draws: Draws, replicate: int) -> Scores:
    drawn = drawn_subjects(draws, replicate)
    pairs = list(zip(scores, a, b, strict=True))
    return np.array([score for s in drawn for t in drawn for score, x, y in pairs if (x, y) == (s, t)])


def tied(rng: np.random.Generator, count: int) -> Scores:
    return rng.normal(0, 0.3, count).round(1)


@pytest.mark.parametrize("seed", range(5))
def test_rates_of_replicates_are_those_of_the_repeated_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, subjects = tied(rng, 30), rng.integers(0, 6, 30)
    scores[:3] = -np.inf  # lost searches
    draws = draw_subjects(6, 25, rng)
    limits = rng.choice([*scores[3:], 0.05, 2.0, -2.0], 25)
    naive = [acceptance_rate(repeated(scores, subjects, draws, r), limits[r]) for r in range(25)]
    assert rates(scores, subjects, draws, limits).tolist() == pytest.approx(naive, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("seed", range(5))
def test_person_rates_of_replicates_count_everybody_as_often_as_drawn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, subjects = tied(rng, 30), np.concatenate([np.arange(6), rng.integers(0, 6, 24)])
    draws = draw_subjects(6, 25, rng)
    limits = rng.choice([*scores, 0.05, 2.0, -2.0], 25)
    naive = []
    for replicate in range(25):
        own = [acceptance_rate(scores[subjects == s], limits[replicate]) for s in drawn_subjects(draws, replicate)]
        naive.append(sum(own) / len(own))
    assert person_rates(scores, subjects, draws, limits).tolist() == pytest.approx(naive, abs=1e-12)


def test_replicate_that_drew_nobody_with_a_score_has_no_rate() -> None:
    draws = np.array([[2, 0], [0, 2]], np.float32)
    found = rates(np.array([0.3]), np.array([0]), draws, np.array([0.1, 0.1]))
    assert found[0] == 1
    assert math.isnan(found[1])


def all_pairs(rng: np.random.Generator, sizes: list[int]) -> tuple[Scores, Places, Places]:
    """Scores of all non-mated pairs of a set, with the subjects of each."""
    codes = np.repeat(np.arange(len(sizes)), sizes)
    i, j = np.triu_indices(len(codes), 1)
    i, j = i[codes[i] != codes[j]], j[codes[i] != codes[j]]
    return tied(rng, len(i)), codes[i], codes[j]


@pytest.mark.parametrize("seed", range(5))
def test_pair_rates_and_thresholds_are_those_of_the_repeated_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [1, 3, 2, 2, 1]
    scores, a, b = all_pairs(rng, sizes)
    draws = draw_subjects(5, 20, rng)
    totals = pair_totals(draws, np.array(sizes))
    repeats = [repeated_pairs(scores, a, b, draws, r) for r in range(20)]
    assert totals.tolist() == [len(values) for values in repeats]
    limits = rng.choice([*scores, 0.05, 2.0, -2.0], 20)
    naive = [acceptance_rate(values, limit) for values, limit in zip(repeats, limits, strict=True)]
    assert pair_rates(scores, a, b, 1.0, totals, draws, limits).tolist() == pytest.approx(naive, abs=1e-12, nan_ok=True)
    there = totals > 0
    for target in (0.02, 0.1, 0.3):
        found = thresholds(scores, a, b, 1.0, totals, draws, target)
        naive = [threshold_at(values, target) for values in repeats if len(values)]
        assert found[there].tolist() == naive


@pytest.mark.parametrize("seed", range(3))
def test_totals_of_pairs_across_two_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = np.array([1, 2, 0, 3]), np.array([2, 0, 1, 1])
    draws = draw_subjects(4, 15, rng)
    naive = []
    for r in range(15):
        drawn = drawn_subjects(draws, r)
        naive.append(sum(first[s] * second[t] for s in drawn for t in drawn if s != t))
    assert pair_totals(draws, first, second).tolist() == naive


@pytest.mark.parametrize("seed", range(5))
def test_thresholds_of_searches_are_those_of_the_repeated_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, subjects = tied(rng, 40), rng.integers(0, 8, 40)
    draws = draw_subjects(8, 20, rng)
    totals = draws.astype(np.float64) @ np.bincount(subjects, minlength=8)
    for target in (0.01, 0.1, 0.25):
        found = thresholds(scores, subjects, None, 1.0, totals, draws, target)
        assert found.tolist() == [threshold_at(repeated(scores, subjects, draws, r), target) for r in range(20)]


def test_highest_scores_suffice_for_thresholds() -> None:
    rng = np.random.default_rng(1)
    sizes = [2] * 12
    scores, a, b = all_pairs(rng, sizes)
    draws = draw_subjects(12, 50, rng)
    totals = pair_totals(draws, np.array(sizes))
    top = scores >= np.sort(scores)[-120]
    whole = thresholds(scores, a, b, 1.0, totals, draws, 0.05)
    assert np.array_equal(thresholds(scores[top], a[top], b[top], 1.0, totals, draws, 0.05), whole)


@pytest.mark.parametrize("chunk", [1, 100, 1 << 24])
def test_memory_does_not_matter(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    scores, a, b = all_pairs(rng, [2, 3, 1, 2])
    draws = draw_subjects(4, 30, rng)
    totals = pair_totals(draws, np.array([2, 3, 1, 2]))
    limits = thresholds(scores, a, b, 1.0, totals, draws, 0.2)
    accepted = pair_rates(scores, a, b, 1.0, totals, draws, limits)
    monkeypatch.setattr(intervals, "_CHUNK", chunk)
    assert np.array_equal(thresholds(scores, a, b, 1.0, totals, draws, 0.2), limits)
    assert np.array_equal(pair_rates(scores, a, b, 1.0, totals, draws, limits), accepted, equal_nan=True)


def test_share_of_the_pairs_is_right_on_average() -> None:
    """Every pair stays with chance 1/4: the mean over many such shares is the rate of all."""
    rng = np.random.default_rng(3)
    sizes = [2] * 15
    scores, a, b = all_pairs(rng, sizes)
    draws = draw_subjects(15, 10, rng)
    totals = pair_totals(draws, np.array(sizes))
    limits = np.full(10, 0.2)
    whole = pair_rates(scores, a, b, 1.0, totals, draws, limits)
    found = []
    for _ in range(400):
        kept = rng.random(len(scores)) < 0.25
        found.append(pair_rates(scores[kept], a[kept], b[kept], 0.25, totals, draws, limits))
    assert np.mean(found, axis=0) == pytest.approx(whole, rel=0.05)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.integers(2, 8), st.integers(1, 99))
def test_replicate_of_everybody_once_is_the_estimate(seed: int, subjects: int, hundredths: int) -> None:
    rng = np.random.default_rng(seed)
    target = hundredths / 100
    scores, a, b = all_pairs(rng, [2] * subjects)
    once = np.ones((1, subjects), np.float32)
    totals = pair_totals(once, np.full(subjects, 2))
    assert totals.tolist() == [len(scores)]
    (found,) = thresholds(scores, a, b, 1.0, totals, once, target)
    assert found == threshold_at(scores, target)
    (rate,) = pair_rates(scores, a, b, 1.0, totals, once, np.array([found]))
    assert rate == acceptance_rate(scores, found)


def test_intervals_over_subjects_cover_where_wilson_does_not() -> None:
    """Two hundred worlds whose people differ in how often they are recognised. Their images are no independent trials:
    the bootstrap covers the true rate about as often as it says, Wilson's interval far less."""
    rng = np.random.default_rng(4)
    people, images, truth = 40, 20, 0.7
    covered = {"subjects": 0, "wilson": 0}
    for _ in range(200):
        chances = rng.beta(1.4, 0.6, people)  # 0.7 on average
        scores = (rng.random((people, images)) < chances[:, None]).astype(np.float64).ravel()
        subjects = np.repeat(np.arange(people), images)
        draws = draw_subjects(people, 200, rng)
        low, high = interval(rates(scores, subjects, draws, np.full(200, 0.5)))
        covered["subjects"] += low <= truth <= high
        low, high = wilson(scores.sum(), len(scores))
        covered["wilson"] += low <= truth <= high
    assert covered["subjects"] >= 170
    assert covered["wilson"] <= 140


# --- differences -----------------------------------------------------------------------------------------------------


def test_difference_of_shares_is_newcombes_example() -> None:
    """Newcombe (1998), Statistics in Medicine 17, 873-890, Table II, method 10: 56/70 minus 48/80, and others."""
    published = {
        (56, 70, 48, 80): (0.0524, 0.3339),
        (9, 10, 3, 10): (0.1705, 0.8090),
        (6, 7, 2, 7): (0.0582, 0.8062),
        (5, 56, 0, 29): (-0.0381, 0.1926),
        (0, 10, 0, 20): (-0.1611, 0.2775),
        (0, 10, 0, 10): (-0.2775, 0.2775),
        (10, 10, 0, 20): (0.6791, 1.0),
        (10, 10, 0, 10): (0.6075, 1.0),
    }
    for (a, m, b, n), ends in published.items():
        second, first = (a / m, *wilson(a, m)), (b / n, *wilson(b, n))
        value, low, high = difference_of_shares(first, second)
        assert value == pytest.approx(a / m - b / n)
        assert (low, high) == pytest.approx(ends, abs=6e-5), (a, m, b, n)


def test_difference_of_shares_turns_round_with_its_sides() -> None:
    one, other = (0.3, 0.2, 0.45), (0.6, 0.5, 0.65)
    value, low, high = difference_of_shares(one, other)
    assert difference_of_shares(other, one) == pytest.approx((-value, -high, -low))


@pytest.mark.parametrize("seed", range(3))
def test_difference_of_means_is_welchs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.normal(0.9, 0.01, 3).tolist(), rng.normal(0.85, 0.03, 5).tolist()
    wanted = scipy.stats.ttest_ind(second, first, equal_var=False).confidence_interval(0.95)
    value, low, high = difference_of_means(first, second)
    assert value == pytest.approx(np.mean(second) - np.mean(first))
    assert (low, high) == pytest.approx((wanted.low, wanted.high))


def test_difference_of_means_without_spread_is_a_point() -> None:
    assert difference_of_means([0.5, 0.5], [0.75, 0.75]) == (0.25, 0.25, 0.25)
    value, low, high = difference_of_means([0.5, 0.5], [0.7, 0.8])
    assert value == pytest.approx(0.25)
    assert low < value < high


@pytest.mark.parametrize("seed", range(3))
def test_counts_of_people_at_thresholds_in_any_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, subjects, limits = tied(rng, 40), rng.integers(0, 5, 40), rng.choice([-1.0, -0.1, 0.0, 0.1, 0.3, 2.0], 7)
    accepted, sizes = counted(scores, subjects, 6, limits)  # the sixth has no score
    assert sizes.tolist() == [int((subjects == who).sum()) for who in range(6)]
    assert accepted.tolist() == [[sum(scores[subjects == who] >= limit) for limit in limits] for who in range(6)]
