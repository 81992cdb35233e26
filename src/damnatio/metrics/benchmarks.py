"""Classic benchmarks of face recognition: ten-fold accuracy on pairs, closed-set retrieval, and compactness.

Scores are cosines. Retrieval takes them by blocks of rows, so that the matrix of all scores is never in memory.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from damnatio.metrics.verification import Scores

Codes = NDArray[np.int64]
GRID = np.arange(0, 4, 0.01)
"""the thresholds of InsightFace, for the squared distance of unit vectors"""


@dataclass(frozen=True)
class Folds:
    """Accuracy on each fold at the threshold that was best on the others."""

    accuracies: Scores
    thresholds: Scores

    @property
    def mean(self) -> float:
        return float(self.accuracies.mean())

    @property
    def deviation(self) -> float:
        """The standard deviation of the population, as in the tables of LFW."""
        return float(self.accuracies.std())


def ten_fold(scores: Scores, same: NDArray[np.bool_], folds: int = 10) -> Folds:
    """The accuracy of LFW: each fold is judged at the threshold that is best on the other folds.

    Folds are contiguous, in the order given. The candidates are all observed scores and a threshold that rejects
    everything. Of equally good thresholds the highest is taken. InsightFace takes the first maximum over ascending
    distances, which is the strictest too.
    """
    return _folds(scores, same, folds, None)


def ten_fold_on_grid(scores: Scores, same: NDArray[np.bool_], folds: int = 10) -> Folds:
    """The same accuracy as InsightFace computes it, for comparison with published numbers: a pair is accepted if its
    squared distance < threshold, and thresholds go from 0 to 4 in steps of 0.01. The thresholds returned are
    distances."""
    strict = np.nextafter(-GRID, np.inf)  # -d >= the number after -t  <=>  d < t
    found = _folds(-np.maximum(2 - 2 * scores, 0), same, folds, strict)
    return Folds(found.accuracies, np.abs(np.nextafter(found.thresholds, -np.inf)))


def _folds(scores: Scores, same: NDArray[np.bool_], folds: int, candidates: Scores | None) -> Folds:
    """`candidates`, descending, are the thresholds to try; None tries the scores of the other folds."""
    if folds < 2 or len(scores) < folds:
        raise ValueError(f"{folds} folds need at least two folds and a pair in each, not {len(scores)} pairs")
    accuracies, thresholds = [], []
    for fold in np.array_split(np.arange(len(scores)), folds):
        others = np.ones(len(scores), dtype=bool)
        others[fold] = False
        tried = candidates
        if tried is None:
            observed = np.unique(scores[others])[::-1]
            tried = np.concatenate([[np.nextafter(observed[0], np.inf)], observed])
        mated, nonmated = np.sort(scores[others & same]), np.sort(scores[others & ~same])
        right = len(mated) - np.searchsorted(mated, tried, "left") + np.searchsorted(nonmated, tried, "left")
        best = float(tried[np.argmax(right)])
        thresholds.append(best)
        accuracies.append(float(np.mean((scores[fold] >= best) == same[fold])))
    return Folds(np.array(accuracies), np.array(thresholds))


@dataclass(frozen=True)
class Retrieval:
    """Every image queries all others."""

    recall_at_1: float
    """the share of queries for which an image of their identity is nearest, and no other is as near"""
    mean_average_precision: float
    queries: int
    left_out: int
    """images whose identity has no other image, so that there is nothing to find"""


def retrieval(blocks: Iterable[Scores], codes: Codes) -> Retrieval:
    """R@1 and mAP, from rows of scores: row i of all blocks together holds the scores of image i with every image.

    The average precision of a query is the mean, over the images of its identity, of the precision at that image's
    rank. A tie counts against the query: of equal scores, that of another identity ranks first.
    """
    hits, precisions, first = [], [], 0
    _, identity, counts = np.unique(codes, return_inverse=True, return_counts=True)
    sizes = counts[identity]
    for block in blocks:
        rows = first + np.flatnonzero(sizes[first : first + len(block)] > 1)
        own = codes[rows, None] == codes[None, :]
        strangers = np.where(own, -np.inf, block[rows - first])
        strangers.sort(axis=1)  # the identity's own images, at -inf, come first and are skipped
        for place, row in enumerate(rows):
            others = strangers[place, sizes[row] :]
            mine = own[place]
            mine[row] = False
            found = np.sort(block[row - first, mine])[::-1]
            before = len(others) - np.searchsorted(others, found, "left")
            hits.append(before[0] == 0)
            ranks = np.arange(1, len(found) + 1)
            precisions.append(np.mean(ranks / (ranks + before)))
        first += len(block)
    if first != len(codes):
        raise ValueError(f"{first} rows of scores for {len(codes)} images")
    n = len(hits)
    if not n:
        return Retrieval(math.nan, math.nan, 0, len(codes))
    return Retrieval(float(np.mean(hits)), float(np.mean(precisions)), n, len(codes) - n)


def compactness(units: NDArray[np.float64], codes: Codes) -> float:
    """The mean cosine of an image to the normalised centroid of its identity, over identities of two images or more.

    The cosines of an identity's n unit vectors to their own normalised sum S add up to |S|.
    """
    order = np.argsort(codes, kind="stable")
    _, starts, sizes = np.unique(codes[order], return_index=True, return_counts=True)
    if not (sizes > 1).any():
        return math.nan
    lengths = np.linalg.norm(np.add.reduceat(units[order], starts, axis=0), axis=1)
    return float(lengths[sizes > 1].sum() / sizes[sizes > 1].sum())
