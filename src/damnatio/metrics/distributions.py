"""Distributions of scores: distances, quantiles, moments, and histograms for figures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from damnatio.metrics.verification import Scores

EDGES = np.linspace(-1.0, 1.0, 401)
BIN = 2.0**-20
"""Where scores are too many to be held, each is counted at the nearest multiple of this and moves by at most half of
it."""
BINS = 2 * (1 << 20) + 1


def bins_of(scores: Scores) -> NDArray[np.int64]:
    """The bin of each score: that of the nearest multiple of `BIN` from -1 to 1, and of two equally near the even one.

    To divide by a power of two and to round to a whole number is exact. So the distance is at most `BIN` / 2 for any
    score in [-1, 1]; `score + 1` would round first and could be further off.
    """
    numbers = np.rint(scores / BIN).astype(np.int64) + BINS // 2
    return np.clip(numbers, 0, BINS - 1, out=numbers)


@dataclass(frozen=True)
class Sample:
    """A set of scores: ascending values, and how often each occurs. `error` is an upper bound of the distance of a
    value from the score that it stands for; it is 0 where the scores themselves are held."""

    values: Scores
    counts: NDArray[np.int64]
    error: float = 0.0

    @staticmethod
    def of(scores: Scores) -> "Sample":
        values, counts = np.unique(scores, return_counts=True)
        return Sample(values, counts.astype(np.int64))

    @staticmethod
    def of_bins(counts: NDArray[np.int64]) -> "Sample":
        """Counts over `BINS` bins around the multiples of `BIN` from -1 to 1."""
        filled = np.flatnonzero(counts)
        return Sample(np.asarray(filled * BIN - 1, np.float64), counts[filled], BIN / 2)

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    def moment(self, order: int) -> float:
        """The mean (1), or the central moment of an order from 2 up."""
        if not self.count:
            return math.nan
        mean = float(np.average(self.values, weights=self.counts))
        return mean if order == 1 else float(np.average((self.values - mean) ** order, weights=self.counts))

    @property
    def deviation(self) -> float:
        """The standard deviation, of the scores as a population."""
        return math.sqrt(self.moment(2))

    def quantiles(self, shares: Sequence[float]) -> Scores:
        """For each share, the lowest value that at least this share of the scores does not exceed."""
        if not self.count:
            return np.full(len(shares), math.nan)
        below = np.cumsum(self.counts)
        ranks = np.ceil(np.round(np.asarray(shares) * below[-1], 6)).clip(1)  # 0.07 of 100 is 7, not 8
        return np.asarray(self.values[np.searchsorted(below, ranks)])

    def histogram(self) -> NDArray[np.int64]:
        """Counts over `EDGES`. A score that rounding carried past 1 or -1 falls into the bin at that end."""
        return np.histogram(np.clip(self.values, -1, 1), EDGES, weights=self.counts)[0].astype(np.int64)


def wasserstein1(a: Sample, b: Sample) -> float:
    """W1 of two distributions: the area between their distribution functions. If no score moves by more than the error
    of its sample, the distance moves by no more than the sum of both errors. So it is exact where scores are held, and
    within 2^-20 < 1e-6 where they are counted in bins."""
    if not a.count or not b.count:
        return math.nan
    points = np.union1d(a.values, b.values)
    shares = [np.concatenate([[0], np.cumsum(s.counts)])[np.searchsorted(s.values, points, "right")] for s in (a, b)]
    gaps = np.abs(shares[0] / a.count - shares[1] / b.count)
    return float(np.sum(gaps[:-1] * np.diff(points)))
