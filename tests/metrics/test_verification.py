"""Thresholds and rates of 1:1 comparisons, against loops and fractions worked by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from damnatio.metrics.verification import (
    Calibration,
    Scores,
    acceptance_curve,
    acceptance_rate,
    allowed_errors,
    calibrate,
    equal_error_rate,
    mean_of_people,
    operating_points,
    threshold_at,
)

TARGETS = (0.001, 0.01, 0.05, 0.1, 0.29, 0.3, 0.5, 0.9, 0.999)

cosines = st.floats(-1, 1, allow_nan=False)
score_lists = st.lists(cosines, min_size=1, max_size=60)
tied_lists = st.lists(cosines.map(lambda x: round(x, 1)), min_size=1, max_size=60)
targets = st.integers(1, 999).map(lambda thousandths: thousandths / 1000)


def naive_rate(scores: list[float], threshold: float) -> float:
    accepted = 0
    for score in scores:
        if score >= threshold:
            accepted += 1
    return accepted / len(scores)


def naive_threshold(scores: list[float], target: float) -> float:
    """Every observed score is a candidate, and the place just above the highest; the lowest that fits is taken."""
    candidates = [*scores, math.nextafter(max(scores), math.inf)]
    return min(candidate for candidate in candidates if naive_rate(scores, candidate) <= target)


def arrayed(scores: list[float]) -> Scores:
    return np.array(scores, dtype=np.float64)


@given(score_lists | tied_lists, targets)
def test_threshold_is_the_lowest_candidate_that_fits(scores: list[float], target: float) -> None:
    assert threshold_at(arrayed(scores), target) == naive_threshold(scores, target)


@given(score_lists | tied_lists, targets)
def test_rate_never_exceeds_the_target_and_the_next_lower_score_would(scores: list[float], target: float) -> None:
    threshold = threshold_at(arrayed(scores), target)
    assert naive_rate(scores, threshold) <= target
    lower = [score for score in scores if score < threshold]
    assert lower
    assert naive_rate(scores, max(lower)) > target


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("target", TARGETS)
def test_threshold_on_heavy_ties(seed: int, target: float) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 0.3, rng.integers(1, 80)).round(1)
    assert threshold_at(scores, target) == naive_threshold(scores.tolist(), target)


TEN = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.6, 0.6, 0.8, 0.9]


@pytest.mark.parametrize(
    ("target", "threshold", "accepted"),
    [
        (0.05, math.nextafter(0.9, 1), 0),  # not even one of ten fits
        (0.1, 0.9, 1),
        (0.2, 0.8, 2),
        (0.3, 0.8, 2),  # the three ties at 0.6 stay out together: 5/10 would be too many
        (0.4, 0.8, 2),
        (0.49, 0.8, 2),
        (0.5, 0.6, 5),  # and come in together
        (0.6, 0.5, 6),
        (0.99, 0.2, 9),
    ],
)
def test_ten_scores_three_tied_at_the_border(target: float, threshold: float, accepted: int) -> None:
    assert threshold_at(arrayed(TEN), target) == threshold
    (point,) = calibrate(arrayed(TEN), [target])
    assert point == Calibration(target, threshold, accepted, 10)
    assert point.rate == accepted / 10


def test_order_of_the_scores_does_not_matter() -> None:
    shuffled = np.random.default_rng(0).permutation(TEN)
    assert [threshold_at(shuffled, t) for t in TARGETS] == [threshold_at(arrayed(TEN), t) for t in TARGETS]


def test_scores_are_left_as_they_were() -> None:
    scores = np.random.default_rng(0).permutation(TEN)
    before = scores.copy()
    threshold_at(scores, 0.3)
    operating_points(scores, [0.3])
    assert np.array_equal(scores, before)


def test_all_scores_equal_put_the_threshold_just_above() -> None:
    assert threshold_at(np.full(50, 0.7), 0.5) == math.nextafter(0.7, 1)


@pytest.mark.parametrize(("target", "count", "allowed"), [(0.29, 100, 29), (0.57, 100, 57), (0.07, 100, 7)])
def test_product_that_rounds_off_a_whole_number_still_allows_it(target: float, count: int, allowed: int) -> None:
    """0.29 * 100 is 28.999999999999996 in floating point, and 29/100 does not exceed 0.29."""
    assert allowed_errors(count, target) == allowed
    assert threshold_at(np.arange(count) / count, target) == (count - allowed) / count


@given(st.integers(1, 5000), targets)
def test_allowed_errors_are_the_most_that_fit(count: int, target: float) -> None:
    allowed = allowed_errors(count, target)
    assert allowed / count <= target < (allowed + 1) / count


@pytest.mark.parametrize(("errors", "count"), [(5, 6), (9, 10), (9, 11), (5, 12)])
def test_target_just_below_a_fraction_does_not_allow_it(errors: int, count: int) -> None:
    """The product of such a target and the count rounds up to the whole number."""
    target = math.nextafter(errors / count, 0)
    assert allowed_errors(count, target) == errors - 1
    assert acceptance_rate(np.arange(count) / count, threshold_at(np.arange(count) / count, target)) <= target


@pytest.mark.parametrize("target", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_target_outside_the_open_interval_is_refused(target: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        threshold_at(arrayed(TEN), target)


def test_no_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        threshold_at(np.zeros(0), 0.1)


def test_calibration_warns_that_a_target_is_beyond_the_set() -> None:
    point = Calibration(target=1e-4, threshold=0.9, accepted=0, count=9_999)
    assert not point.resolved
    assert "cannot be resolved on 9,999 comparisons" in point.warning
    assert "at least 10,000" in point.warning


def test_calibration_warns_of_fewer_than_thirty_errors() -> None:
    point = Calibration(target=1e-2, threshold=0.5, accepted=29, count=2_999)
    assert point.resolved
    assert "29 errors in 2,999 comparisons" in point.warning


def test_calibration_on_thirty_errors_warns_of_nothing() -> None:
    assert Calibration(target=1e-2, threshold=0.5, accepted=30, count=3_000).warning == ""


def test_calibration_of_nothing_has_no_rate() -> None:
    assert math.isnan(Calibration(target=1e-2, threshold=0.5, accepted=0, count=0).rate)


@given(score_lists | tied_lists, score_lists | tied_lists)
def test_curves_agree_with_the_single_points(nonmated: list[float], mated: list[float]) -> None:
    thresholds, attained = operating_points(arrayed(nonmated), TARGETS)
    assert thresholds.tolist() == [threshold_at(arrayed(nonmated), target) for target in TARGETS]
    assert attained.tolist() == [acceptance_rate(arrayed(nonmated), threshold) for threshold in thresholds]
    rates = acceptance_curve(arrayed(mated), thresholds)
    assert rates.tolist() == [naive_rate(mated, threshold) for threshold in thresholds]


def test_calibrate_counts_what_it_accepts() -> None:
    scores = np.random.default_rng(3).normal(size=500).round(2)
    for point, target in zip(calibrate(scores, TARGETS), TARGETS, strict=True):
        assert point.target == target
        assert point.threshold == threshold_at(scores, target)
        assert point.accepted == round(naive_rate(scores.tolist(), point.threshold) * 500)
        assert point.count == 500


def test_score_equal_to_the_threshold_is_accepted() -> None:
    assert acceptance_rate(np.array([0.2, 0.5, 0.5, 0.9]), 0.5) == 3 / 4


def test_rate_of_nothing_is_no_number() -> None:
    assert math.isnan(acceptance_rate(np.zeros(0), 0.5))
    assert np.isnan(acceptance_curve(np.zeros(0), np.array([0.1, 0.2]))).tolist() == [True, True]


# --- equal error rate ------------------------------------------------------------------------------------------------


def naive_equal_error(mated: list[float], nonmated: list[float]) -> tuple[float, float]:
    """Each score a threshold, and the place above all; the lowest of those where the two rates differ least."""
    candidates = sorted({*mated, *nonmated})
    candidates.append(math.nextafter(candidates[-1], math.inf))
    found = []
    for threshold in candidates:
        missed = Fraction(sum(score < threshold for score in mated), len(mated))
        false = Fraction(sum(score >= threshold for score in nonmated), len(nonmated))
        found.append((abs(missed - false), threshold, (missed + false) / 2))
    _, threshold, rate = min(found)
    return float(rate), threshold


@pytest.mark.parametrize(
    ("mated", "nonmated", "rate", "threshold"),
    [
        ([0.8, 0.9], [0.1, 0.2], 0.0, 0.8),  # apart: nothing is wrong from the lowest mated score up
        ([0.1, 0.2], [0.8, 0.9], 1.0, 0.8),  # the wrong way round: all is
        ([0.3, 0.6, 0.7, 0.9], [0.1, 0.2, 0.4, 0.6], 1 / 4, 0.6),  # 1 of 4 missed, 1 of 4 let in
        ([0.5, 0.5], [0.5, 0.5, 0.5], 0.5, 0.5),  # all tied: 0 missed and all in, or all missed and none in
        ([0.9], [0.1], 0.0, 0.9),
        ([0.4, 0.8], [0.2, 0.4, 0.4, 0.6], (1 / 2 + 1 / 4) / 2, 0.6),  # they never meet: 1/2 and 1/4 come nearest
    ],
)
def test_equal_error_rate_by_hand(mated: list[float], nonmated: list[float], rate: float, threshold: float) -> None:
    assert equal_error_rate(arrayed(mated), arrayed(nonmated)) == (rate, threshold)
    assert naive_equal_error(mated, nonmated) == (rate, threshold)


@given(score_lists | tied_lists, score_lists | tied_lists)
def test_equal_error_rate_against_loops(mated: list[float], nonmated: list[float]) -> None:
    rate, threshold = naive_equal_error(mated, nonmated)
    found = equal_error_rate(arrayed(mated), arrayed(nonmated))
    assert found[1] == threshold
    assert found[0] == pytest.approx(rate, abs=1e-15)


@given(tied_lists, st.lists(st.tuples(cosines.map(lambda x: round(x, 1)), st.integers(1, 5)), min_size=1, max_size=20))
def test_counts_say_how_often_a_score_occurs(mated: list[float], nonmated: list[tuple[float, int]]) -> None:
    values, counts = arrayed([value for value, _ in nonmated]), np.array([count for _, count in nonmated])
    repeated = np.repeat(values, counts)
    assert equal_error_rate(arrayed(mated), values, counts) == equal_error_rate(arrayed(mated), repeated)


def test_equal_error_rate_of_nothing_is_no_number() -> None:
    for mated, nonmated in (([], [0.5]), ([0.5], []), ([], [])):
        assert all(math.isnan(value) for value in equal_error_rate(arrayed(mated), arrayed(nonmated)))


def test_mean_of_people_by_hand() -> None:
    """One person with 6 of 8 comparisons must not carry the rate: 5/6, 0/1 and 1/1, where 6/8 are accepted."""
    accepted = np.array([True] * 5 + [False, False, True])
    codes = np.array([0] * 6 + [2, 5])
    assert mean_of_people(accepted, codes) == pytest.approx(Fraction(5, 6) / 3 + Fraction(1, 3))
    assert math.isnan(mean_of_people(accepted[:0], codes[:0]))
