"""1:1 comparisons: thresholds at a target false-match rate, and the rates at a threshold."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]

ENOUGH_ERRORS = 30
"""The rule of 30: with fewer errors, a rate is not known within 30 % at 90 % confidence."""


@dataclass(frozen=True)
class Calibration:
    """A threshold, and the counts that it rests on."""

    target: float
    threshold: float
    accepted: int
    count: int

    @property
    def rate(self) -> float:
        return self.accepted / self.count if self.count else math.nan

    @property
    def resolved(self) -> bool:
        """Whether the set is large enough for the target to allow a single error."""
        return self.count * self.target >= 1

    @property
    def warning(self) -> str:
        """What makes this operating point doubtful; empty if nothing does."""
        if not self.resolved:
            needed = f"at least {1 / self.target:,.0f} are needed"
            return f"{self.target:g} cannot be resolved on {self.count:,} comparisons ({needed})"
        if self.accepted < ENOUGH_ERRORS:
            few = f"{self.accepted} errors in {self.count:,} comparisons, fewer than {ENOUGH_ERRORS}"
            return f"{self.target:g} rests on {few}"
        return ""


def threshold_at(nonmated: Scores, target: float) -> float:
    """The lowest observed score at which the share of accepted non-mated scores does not exceed the target.

    Ties count together. If even the highest score would exceed the target, the threshold lies just above that score.
    """
    if not 0 < target < 1:
        raise ValueError(f"a target rate lies between 0 and 1, not {target}")
    n = len(nonmated)
    if n == 0:
        raise ValueError("a threshold needs at least one non-mated score")
    allowed = allowed_errors(n, target)
    highest = np.sort(np.partition(nonmated, n - allowed - 1)[n - allowed - 1 :])  # the allowed scores and one more
    return _threshold_of_sorted(highest, allowed)


def allowed_errors(count: int, target: float) -> int:
    """The most errors that `count` comparisons may hold for the rate not to exceed the target."""
    allowed = round(target * count)  # the product may have rounded to either side of a whole number
    return allowed - (allowed / count > target)


def calibrate(nonmated: Scores, targets: Sequence[float]) -> list[Calibration]:
    """The threshold at each target, with its counts."""
    calibrations = []
    for target in targets:
        threshold = threshold_at(nonmated, target)
        accepted = int(np.count_nonzero(nonmated >= threshold))
        calibrations.append(Calibration(target, threshold, accepted, len(nonmated)))
    return calibrations


def acceptance_rate(scores: Scores, threshold: float) -> float:
    """The share of scores accepted: the TMR of mated scores, the FMR of non-mated ones."""
    return float(np.count_nonzero(scores >= threshold) / len(scores)) if len(scores) else math.nan


def operating_points(nonmated: Scores, targets: Sequence[float]) -> tuple[Scores, Scores]:
    """(threshold, attained rate) at each target, by one sort. The rates are the abscissae of a DET or ROC curve."""
    ascending = np.sort(nonmated)
    thresholds = np.array([_threshold_of_sorted(ascending, allowed_errors(len(ascending), t)) for t in targets])
    return thresholds, acceptance_curve(ascending, thresholds)


def tmr_at_fmr(mated: Scores, nonmated: Scores, target: float) -> tuple[float, float]:
    """(rate, threshold): the share of mated scores accepted at the threshold of a target false-match rate.

    >>> tmr_at_fmr(np.array([0.2, 0.8, 0.9]), np.array([0.1, 0.3, 0.5, 0.7]), 0.25)
    (0.6666666666666666, 0.7)
    """
    threshold = threshold_at(nonmated, target)
    return acceptance_rate(mated, threshold), threshold


def roc(mated: Scores, nonmated: Scores) -> tuple[Scores, Scores, Scores]:
    """(FMR, TMR, thresholds) at every score that occurs, the highest first, after a threshold that accepts nobody: the
    order of scikit-learn's `roc_curve` with `drop_intermediate=False`.

    >>> roc(np.array([0.9]), np.array([0.1]))
    (array([0., 0., 1.]), array([0., 1., 1.]), array([inf, 0.9, 0.1]))
    """
    thresholds = np.append(np.inf, np.unique(np.concatenate([mated, nonmated]))[::-1])
    return acceptance_curve(nonmated, thresholds), acceptance_curve(mated, thresholds), thresholds


def mean_of_people(accepted: NDArray[np.bool_], codes: NDArray[np.int64]) -> float:
    """The mean over people of each one's share of accepted scores: everybody counts once, however many scores they
    have."""
    sizes = np.bincount(codes)
    present = sizes > 0
    if not present.any():
        return math.nan
    shares = np.bincount(codes, weights=accepted)[present] / sizes[present]
    return math.fsum(shares) / len(shares)


def acceptance_curve(scores: Scores, thresholds: Scores) -> Scores:
    """The share of scores accepted at each threshold."""
    if not len(scores):
        return np.full(len(thresholds), math.nan)
    return (len(scores) - np.searchsorted(np.sort(scores), thresholds, side="left")) / len(scores)


def equal_error_rate(mated: Scores, nonmated: Scores, counts: NDArray[np.int64] | None = None) -> tuple[float, float]:
    """(rate, threshold) where the shares of rejected mated and of accepted non-mated scores come nearest to each other:
    the mean of the two there, at the lowest such threshold. `counts` says how often each non-mated score occurs."""
    if not len(mated) or not len(nonmated):
        return math.nan, math.nan
    order = np.argsort(nonmated)
    ascending = nonmated[order]
    weights = np.ones(len(order), np.int64) if counts is None else counts[order]
    below = np.concatenate([[0], np.cumsum(weights)])
    candidates = np.unique(np.concatenate([mated, ascending]))
    candidates = np.append(candidates, np.nextafter(candidates[-1], np.inf))
    missed = np.searchsorted(np.sort(mated), candidates, side="left")
    false = below[-1] - below[np.searchsorted(ascending, candidates, side="left")]
    best = int(np.argmin(np.abs(missed * below[-1] - false * len(mated))))  # in whole numbers, so that ties stay ties
    return float((missed[best] / len(mated) + false[best] / below[-1]) / 2), float(candidates[best])


def _threshold_of_sorted(ascending: Scores, allowed: int) -> float:
    """The rule of `threshold_at` on ascending scores that hold at least the `allowed` highest and the one below."""
    n = len(ascending)
    if allowed:
        candidate = ascending[n - allowed]
        if ascending[n - allowed - 1] < candidate:
            return float(candidate)
        above = np.searchsorted(ascending, candidate, side="right")  # the tie at the border does not fit: reject it
        if above < n:
            return float(ascending[above])
    return float(np.nextafter(ascending[-1], np.inf))
