"""Rates over the operating range: counted again by loops, and by hand."""

import math
from collections.abc import Mapping

import numpy as np
import pytest

from damnatio.evaluation.calibrating import Calibrated
from damnatio.evaluation.chance import FEWEST, LINKED, beyond
from damnatio.evaluation.measuring import measure
from damnatio.evaluation.nonmated import Spread, nonmated_pairs
from damnatio.evaluation.operating_range import UNLINKED, CurvePoint, Drawn, curves, false_match_thresholds
from damnatio.evaluation.pairings import Vectors, Within
from damnatio.evaluation.protocol import AVERAGED, FALSE_MATCHES, SINGLE_GROUPS, Comparisons
from damnatio.evaluation.scored import Mated, Searches
from damnatio.metrics.intervals import Draws, draw_subjects, interval, rates, wilson
from damnatio.metrics.verification import Calibration, Scores, acceptance_rate, threshold_at
from tests.evaluation.naive import TARGETS
from tests.evaluation.small_world import compared, partitions, random_units

# --- a whole evaluation ----------------------------------------------------------------------------------------------


def recounted(c: Comparisons, point: CurvePoint) -> tuple[int, int]:
    """(accepted, count), by loops."""
    if point.metric == "TPIR":
        searches = c.searches[point.group]
        won = [own >= point.threshold and own > best for own, best in zip(searches.own, searches.best, strict=True)]
        return sum(won), len(won)
    if point.metric == "FMR":
        group = next(group for group, name in FALSE_MATCHES.items() if name == point.group)
        scores = c.nonmated[group].scores.tolist()
        return sum(score >= point.threshold for score in scores), len(scores)
    if point.metric == "TMR":
        scores = c.mated[point.group].scores.tolist()
        return sum(score >= point.threshold for score in scores), len(scores)
    if point.metric == LINKED:
        return recounted_people(c, point)
    links: dict[int, bool] = {}
    for group in SINGLE_GROUPS if point.group == "F" else (point.group,):
        for score, who in zip(c.mated[group].scores, c.mated[group].subjects, strict=True):
            links[who] = links.get(who, False) or score >= point.threshold
    return sum(not linked for linked in links.values()), len(links)


def recounted_people(c: Comparisons, point: CurvePoint) -> tuple[int, int]:
    """People with six pairs or more, and those with more links than chance has in nineteen of twenty."""
    pairs: dict[int, list[bool]] = {}
    for group in SINGLE_GROUPS:
        for score, who in zip(c.mated[group].scores, c.mated[group].subjects, strict=True):
            pairs.setdefault(who, []).append(score >= point.threshold)
    enough = [each for each in pairs.values() if len(each) >= FEWEST]
    p = point.target
    tails = [
        sum(math.comb(len(e), k) * p**k * (1 - p) ** (len(e) - k) for k in range(sum(e), len(e) + 1)) for e in enough
    ]
    return sum(tail <= 0.05 for tail in tails), len(enough)


def calibrated_on(c: Comparisons, point: CurvePoint) -> Scores:
    if point.task == "1:1":
        return c.development.scores
    return c.alarms["Dev" if point.group == "Fev" else "D"].scores


@pytest.mark.parametrize("scale", ["S1", "S2"])
def test_every_point_is_counted_again(scale: str) -> None:
    table = partitions()
    c = compared(table, *random_units(table, 1), scale)
    found = measure(c, TARGETS, None, replicates=30).curves
    for point in found:
        accepted, count = recounted(c, point)
        assert (point.accepted, point.count) == (accepted, count), point
        assert point.rate == pytest.approx(accepted / count if count else math.nan, nan_ok=True)
        calibration = calibrated_on(c, point)
        assert point.threshold == threshold_at(calibration, point.target)
        assert point.errors == int((calibration >= point.threshold).sum())
        assert point.attained == acceptance_rate(calibration, point.threshold) <= point.target
        if not count:
            continue
        if point.metric in ("FMR", LINKED) or accepted in (0, count):
            assert (point.low, point.high) == pytest.approx(wilson(accepted, count), abs=1e-12)
        assert 0 <= point.low <= point.high <= 1
    series = {(point.metric, point.group) for point in found}
    mated = {("TMR", group) for group in c.mated} | {("TPIR", group) for group in c.searches}
    unlinked = {(UNLINKED, group) for group in (*SINGLE_GROUPS, "F")} | {(LINKED, "F")}
    assert series == mated | unlinked | {("FMR", name) for name in FALSE_MATCHES.values()}
    keys = [(point.task, point.metric, point.group, point.target) for point in found]
    assert len(set(keys)) == len(keys)
    targets = {point.target for point in found if point.metric == "TMR"}
    for one in series - {("TPIR", group) for group in c.searches}:
        assert {point.target for point in found if (point.metric, point.group) == one} == targets


def test_intervals_are_those_of_people_drawn_again_with_the_threshold_held() -> None:
    table = partitions()
    c = compared(table, *random_units(table, 1), "S2")
    calibrations, spreads = by_hand(c, [0.2, 0.5])
    chosen: dict[str, Draws] = {}

    def drawn(name: str, people: int) -> Draws:
        return chosen.setdefault(name, draw_subjects(people, 60, np.random.default_rng(len(chosen))))

    for point in curves(c, calibrations, spreads, drawn):
        if point.metric == "TMR" and 0 < point.accepted < point.count:
            mated = c.mated[point.group]
            codes = np.unique(mated.subjects, return_inverse=True)[1]
            held = np.full(60, point.threshold)
            wanted = interval(rates(mated.scores, codes, chosen[point.group], held))
            assert (point.low, point.high) == pytest.approx(wanted, abs=1e-6)


def by_hand(c: Comparisons, thresholds: list[float]) -> tuple[list[Calibrated], dict[str, Spread]]:
    curve = [Calibration(0.1 * (place + 1), value, 40, 400) for place, value in enumerate(thresholds)]
    calibrations = [Calibrated("1:1", "D", [], curve, {})]
    cuts = false_match_thresholds(calibrations)
    assert cuts == thresholds
    return calibrations, {group: c.nonmated[group].spread(cuts) for group in FALSE_MATCHES}


# --- three people by hand --------------------------------------------------------------------------------------------

ANN, BOB = 4, 7
UNITS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
"""of three people: their cosines are 0, 0.6 and 0.8"""


def small(mated: Mapping[str, list[tuple[int, float]]]) -> Comparisons:
    pairs = nonmated_pairs(Within(Vectors(UNITS, np.array([0, 1, 2]))))
    groups = {
        group: Mated(np.array([s for _, s in scores], np.float64), np.array([who for who, _ in scores], np.int64))
        for group, scores in mated.items()
    }
    won = Searches(np.array([0.9, 0.7, 0.4]), np.array([0.2, 0.8, 0.1]), np.array([ANN, ANN, BOB]))
    return Comparisons(pairs, groups, dict.fromkeys(FALSE_MATCHES, pairs), {"R": won}, {}, {})


SCORES = {
    "Ftr-Ftr": [(ANN, 0.9), (ANN, 0.4), (BOB, 0.6)],
    "Ftr-Fev": [(ANN, 0.5)],
    "Fev-Fev": [(BOB, 0.7)],
    AVERAGED: [],
}


def points(drawn: Drawn | None = None) -> dict[tuple[str, str, float], CurvePoint]:
    c = small(SCORES)
    return {(p.metric, p.group, p.threshold): p for p in curves(c, *by_hand(c, [0.65, 0.6, 0.8]), drawn)}


def test_counts_by_hand() -> None:
    found = {key: (point.accepted, point.count) for key, point in points().items()}
    assert [found["TMR", "Ftr-Ftr", tau] for tau in (0.8, 0.65, 0.6)] == [(1, 3), (1, 3), (2, 3)]
    assert [found["TMR", "Ftr-Fev", tau] for tau in (0.8, 0.65, 0.6)] == [(0, 1), (0, 1), (0, 1)]
    assert [found["TMR", "Fev-Fev", tau] for tau in (0.8, 0.65, 0.6)] == [(0, 1), (1, 1), (1, 1)]
    assert [found[UNLINKED, "Ftr-Ftr", tau] for tau in (0.8, 0.65, 0.6)] == [(1, 2), (1, 2), (0, 2)]
    assert [found[UNLINKED, "F", tau] for tau in (0.8, 0.65, 0.6)] == [(1, 2), (0, 2), (0, 2)]
    assert [found["FMR", "TxT", tau] for tau in (0.8, 0.65, 0.6)] == [(1, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("links", "pairs", "rate", "more"),
    [
        (0, 195, 1e-4, False),
        (1, 195, 1e-4, True),  # one person in fifty has a link by chance
        (1, 600, 1e-4, False),  # one in seventeen
        (4, 195, 1e-2, False),  # of 195 pairs two link by chance
        (5, 195, 1e-2, True),
        (6, 6, 0.5, True),
        (5, 6, 0.5, False),
    ],
)
def test_a_person_links_beyond_chance_if_one_stranger_in_twenty_does_not(
    links: int, pairs: int, rate: float, more: bool
) -> None:
    assert bool(beyond(np.array([links]), np.array([pairs]), rate)[0]) is more


def test_who_has_fewer_than_six_pairs_is_not_measured() -> None:
    found = {key: (point.accepted, point.count) for key, point in points().items()}
    assert found[LINKED, "F", 0.65] == (0, 0), "Ann has three pairs, Bob two"


def test_wilson_is_the_interval_without_draws_and_of_all_or_none() -> None:
    def drawn(name: str, people: int) -> Draws:
        return np.ones((5, people), np.float32)

    for found in (points(), points(drawn)):
        for (metric, _, _), point in found.items():
            if point.count and (point.accepted in (0, point.count) or metric == "FMR"):
                assert (point.low, point.high) == pytest.approx(wilson(point.accepted, point.count), abs=1e-12)
    held = points(drawn)["TMR", "Ftr-Ftr", 0.65]
    assert (held.low, held.high) == pytest.approx((1 / 3, 1 / 3)), "everybody drawn once, each time"


def test_draws_by_hand() -> None:
    """Ann twice: 2 of 4 are accepted. Bob twice: 0 of 2. Each once: 1 of 3. Unlinked: Bob alone of the two."""
    draws = np.array([[2, 0], [0, 2], [1, 1]], np.float32)
    found = points(lambda name, people: draws[:, :people])
    point = found["TMR", "Ftr-Ftr", 0.65]
    assert (point.low, point.high) == pytest.approx(np.quantile([1 / 2, 0, 1 / 3], [0.025, 0.975]).tolist(), abs=1e-6)
    point = found[UNLINKED, "Ftr-Ftr", 0.65]
    assert (point.low, point.high) == pytest.approx(np.quantile([0, 1, 1 / 2], [0.025, 0.975]).tolist(), abs=1e-6)


def test_nobody_to_compare_has_no_rate() -> None:
    point = points()["TMR", AVERAGED, 0.65]
    assert (point.accepted, point.count) == (0, 0)
    assert all(math.isnan(value) for value in (point.rate, point.low, point.high))
    c = small({group: [] for group in SCORES})
    for point in curves(c, *by_hand(c, [0.5]), None):
        if point.metric != "FMR":
            assert point.count == point.accepted == 0
            assert math.isnan(point.rate)


def test_searches_win_only_if_their_own_template_leads() -> None:
    c = small(SCORES)
    calibrated = Calibrated("1:N", "D", [], [Calibration(0.1, 0.3, 40, 400), Calibration(0.2, 0.5, 40, 400)], {})
    c.searches |= dict.fromkeys(("T", "Ftr"), c.searches["R"])
    found = {(p.group, p.threshold): (p.accepted, p.count, p.errors) for p in curves(c, [calibrated], {}, None)}
    assert found["R", 0.3] == (2, 3, 40)
    assert found["R", 0.5] == (1, 3, 40)
    assert ("Fev", 0.5) not in found, "that group is searched in another gallery"
