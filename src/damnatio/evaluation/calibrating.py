"""Thresholds on the development set: at each target, over the whole range, and in each replicate of the bootstrap."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from damnatio.evaluation.nonmated import InMemory, Top
from damnatio.evaluation.protocol import Comparisons
from damnatio.evaluation.scanning import Scores
from damnatio.evaluation.scored import Mated
from damnatio.evaluation.tails import scan_tail
from damnatio.metrics import intervals
from damnatio.metrics.verification import Calibration, calibrate, operating_points
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import codes_of

MANTISSAS = (1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8)
CURVE_TARGETS = [round(mantissa * 10.0**power, -power + 2) for power in range(-6, 0) for mantissa in MANTISSAS]
COARSE_TARGETS = [target for target in CURVE_TARGETS if target <= 0.1]
"""The targets of the curve where pairs are scanned: rates above 0.1 would cost as much as all others together."""

MARKED = 1e-3
"""The rate of the threshold that the paper marks in its figures of distributions (Fig. 3 and 5) and speaks of in V-F.
1:1 is calibrated there too, whatever the operating points are."""


@dataclass(frozen=True)
class Calibrated:
    """The operating points of a task on one calibration set, and their thresholds in each replicate."""

    task: str
    name: str
    """of the calibration set"""
    points: list[Calibration]
    curve: list[Calibration]
    replicates: dict[float, Scores]
    """by target; empty without replicates"""

    def at(self, target: float) -> Calibration:
        return next(point for point in self.points if point.target == target)


def calibrate_pairs(c: Comparisons, targets: Sequence[float], replicates: int) -> Calibrated:
    """1:1, on the non-mated pairs of D. Few scores are held and sorted, many pairs are scanned; the thresholds are
    equal."""
    group = c.development
    if not group.count:
        raise DamnatioError(
            "The development set has no two identities to compare: a threshold needs images of at least two."
        )
    codes, _ = group.numbered()
    tops: dict[float, Top] = {}
    if isinstance(group, InMemory):
        points, curve = calibrate(group.scores, targets), _curve(group.scores)
        if replicates:
            floors = [_tail(group.scores, target) for target in targets]
            tops = dict(zip(targets, group.tops(floors), strict=True))
    else:
        tail = scan_tail(group.first.units, codes, targets, COARSE_TARGETS, title="development pairs")
        points, curve = tail.calibrations, tail.curve
        tops = {target: group.listed(kept) for target, kept in tail.samples.items()}
    found = {}
    if replicates:
        draws = intervals.draw_subjects(len(group.people), replicates, np.random.default_rng([c.seed, 8, 0]))
        totals = group.pairing.weights(draws, codes, codes) * group.share
        for target, top in tops.items():
            people = codes[top.i], codes[top.j]
            found[target] = intervals.thresholds(top.scores, *people, top.share, totals, draws, target)
    return Calibrated("1:1", "D", points, curve, found)


def calibrate_searches(
    name: str, alarms: Mated, targets: Sequence[float], replicates: int, rng: np.random.Generator
) -> Calibrated:
    """1:N, on the highest score of each search with a probe of D. The name says in which gallery."""
    found = {}
    if replicates:
        codes = codes_of(alarms.subjects)[0]
        draws = intervals.draw_subjects(int(codes.max()) + 1, replicates, rng)
        totals = draws.astype(np.float64) @ np.bincount(codes)
        for target in targets:
            top = alarms.scores >= _tail(alarms.scores, target)
            found[target] = intervals.thresholds(alarms.scores[top], codes[top], None, 1.0, totals, draws, target)
    return Calibrated("1:N", name, calibrate(alarms.scores, targets), _curve(alarms.scores), found)


def _tail(scores: Scores, target: float) -> float:
    """A score below the threshold of every replicate."""
    rank = min(len(scores), round(intervals.rank_of_replicates(target * len(scores))))
    return float(np.partition(scores, len(scores) - rank)[len(scores) - rank])


def _curve(scores: Scores) -> list[Calibration]:
    """The operating range, down to the lowest rate that the scores resolve."""
    targets = [target for target in CURVE_TARGETS if target * len(scores) >= 1]
    thresholds, attained = operating_points(scores, targets)
    return [
        Calibration(target, threshold, round(rate * len(scores)), len(scores))
        for target, threshold, rate in zip(targets, thresholds.tolist(), attained.tolist(), strict=True)
    ]
