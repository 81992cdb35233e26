"""Thresholds on the development set: held or scanned, and in replicates that really repeat people."""

import numpy as np
import pytest

from damnatio.evaluation import nonmated, scanning
from damnatio.evaluation.calibrating import (
    COARSE_TARGETS,
    CURVE_TARGETS,
    Calibrated,
    calibrate_pairs,
    calibrate_searches,
)
from damnatio.evaluation.nonmated import Drawn, NonMated, Streamed, nonmated_pairs
from damnatio.evaluation.pairings import Vectors, Within
from damnatio.evaluation.protocol import Comparisons
from damnatio.evaluation.scanning import Units, on_grid
from damnatio.evaluation.scored import Mated
from damnatio.evaluation.tails import window
from damnatio.metrics import intervals
from damnatio.metrics.verification import Calibration, acceptance_rate, threshold_at
from damnatio.support.tables import Codes

TARGETS = (0.002, 0.01, 0.1)


def development(seed: int, steps: float = 0.0) -> tuple[Units, Codes]:
    """People of one to four images; coarse steps make scores tie."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(18) * 5, rng.integers(1, 5, 18))
    rows = rng.normal(size=(len(codes), 4))
    if steps:
        rows = np.rint(rows / steps) * steps + np.array([steps / 4, 0, 0, 0])
    order = rng.permutation(len(codes))
    return on_grid(rows / np.linalg.norm(rows, axis=1, keepdims=True))[order], codes[order]


def calibrated(seed: int, steps: float, replicates: int = 25, most: int = 0) -> tuple[NonMated, Calibrated]:
    pairing = Within(Vectors(*development(seed, steps)))
    group = nonmated_pairs(pairing, most, np.random.default_rng(seed))
    return group, calibrate_pairs(Comparisons(group, {}, {}, {}, {}, {}, seed=3), TARGETS, replicates)


def threshold(found: Calibrated, target: float) -> float:
    return next(point.threshold for point in found.points if point.target == target)


@pytest.mark.parametrize("steps", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cap", [200, window.CAP])
def test_points_are_the_same_held_and_scanned(
    seed: int, steps: float, cap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, held = calibrated(seed, steps)
    monkeypatch.setattr(nonmated, "HELD", 0)
    monkeypatch.setattr(window, "CAP", cap)
    monkeypatch.setattr(scanning, "ROWS", 16)
    streamed, scanned = calibrated(seed, steps)
    assert isinstance(streamed, Streamed)
    assert scanned.points == held.points
    for target in TARGETS:
        assert threshold(held, target) == threshold_at(group.scores, target)
        assert np.array_equal(scanned.replicates[target], held.replicates[target])
    assert {point.target for point in scanned.curve} <= {*COARSE_TARGETS, *TARGETS}
    for curve in (held.curve, scanned.curve):
        assert [point for point in curve if point.target in TARGETS] == held.points, "exact, and as in the tables"
    for point in [*held.curve, *scanned.curve]:
        assert point.rate == acceptance_rate(group.scores, point.threshold)


def test_curve_of_held_scores_goes_as_far_down_as_they_resolve() -> None:
    group, held = calibrated(0, 0.0)
    wanted = sorted({*CURVE_TARGETS, *TARGETS})
    assert [point.target for point in held.curve] == [t for t in wanted if t * group.count >= 1]
    for point in held.curve:
        assert point.threshold == threshold_at(group.scores, point.target)
        assert point == Calibration(point.target, point.threshold, point.accepted, group.count)


def test_thresholds_of_replicates_are_those_of_repeated_people() -> None:
    group, found = calibrated(1, 1.0, replicates=10)
    people = np.unique(group.first.codes)
    draws = intervals.draw_subjects(len(people), 10, np.random.default_rng([3, 8, 0]))
    for target in TARGETS:
        for replicate, found_threshold in enumerate(found.replicates[target]):
            times = dict(zip(people.tolist(), draws[replicate].astype(int).tolist(), strict=True))
            scores = []
            for i, a in enumerate(group.first.codes.tolist()):
                for j, b in enumerate(group.first.codes.tolist()):
                    if i < j and a != b:
                        scores += [float(group.first.units[i] @ group.first.units[j])] * (times[a] * times[b])
            assert found_threshold == threshold_at(np.array(scores), target)


def test_thresholds_of_searches_are_those_of_repeated_people() -> None:
    rng = np.random.default_rng(0)
    alarms = Mated(rng.normal(0, 0.3, 80).round(1), rng.integers(0, 12, 80) * 3)
    found = calibrate_searches("D", alarms, TARGETS, 15, np.random.default_rng(7))
    people = np.unique(alarms.subjects)
    draws = intervals.draw_subjects(len(people), 15, np.random.default_rng(7))
    for target in TARGETS:
        assert threshold(found, target) == threshold_at(alarms.scores, target)
        for replicate, found_threshold in enumerate(found.replicates[target]):
            times = dict(zip(people.tolist(), draws[replicate].astype(int).tolist(), strict=True))
            scores = [[s] * times[who] for s, who in zip(alarms.scores, alarms.subjects.tolist(), strict=True)]
            assert found_threshold == threshold_at(np.concatenate(scores), target)


def test_drawn_pairs_calibrate_as_they_are() -> None:
    group, found = calibrated(2, 0.0, most=300)
    assert isinstance(group, Drawn)
    assert group.count == 300
    for point in found.points:
        assert point.threshold == threshold_at(group.scores, point.target)
        assert point.count == 300
        replicates = found.replicates[point.target]
        if point.resolved:
            assert replicates.min() < point.threshold < replicates.max()


def test_no_replicates_leave_the_points_alone() -> None:
    _, with_ = calibrated(0, 0.0, replicates=5)
    _, without = calibrated(0, 0.0, replicates=0)
    assert without.points == with_.points
    assert without.replicates == {}


def test_target_beyond_the_set_is_said_to_be() -> None:
    scores = np.arange(50) / 50
    beyond, few = calibrate_searches("D", Mated(scores, np.arange(50)), [0.01, 0.1], 0, np.random.default_rng(0)).points
    assert beyond.warning == "0.01 cannot be resolved on 50 comparisons (at least 100 are needed)"
    assert beyond.accepted == 0
    assert few.accepted == 5
    assert few.warning == "0.1 rests on 5 errors in 50 comparisons, fewer than 30"
