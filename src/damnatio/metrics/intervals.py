"""Intervals of rates: Wilson's interval, and the bootstrap over subjects.

Comparisons that share a subject are not independent. Wilson's interval assumes that they are, and is too narrow. The
bootstrap draws subjects with replacement. If subject a was drawn m_a times, a mated comparison of a counts m_a times, a
non-mated one of a and b counts m_a m_b times, and a search with a probe of a counts m_a times. Each replicate is judged
at its own threshold, from an independent draw of the development subjects. The gallery is fixed.

Counts are resampled, not scores: what each subject adds to a rate at the threshold of each replicate is counted once,
and a replicate is then a product of two small matrices.
"""

import math
import statistics
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from damnatio.metrics.verification import Scores, allowed_errors

LEVEL = 0.95
_CHUNK = 1 << 24
"""so many numbers of a [replicates, pairs] matrix are held at once"""

Draws = NDArray[np.float32]
"""[replicates, subjects]: how often each replicate drew each subject"""
Places = NDArray[np.int64]


def wilson(accepted: float, count: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson's interval of a share; the default z is that of 95 %."""
    if not count:
        return math.nan, math.nan
    share = accepted / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return max(0.0, min(centre - half, share)), min(
        1.0, max(centre + half, share)
    )  # whatever rounds, the share lies within


def draw_subjects(subjects: int, replicates: int, rng: np.random.Generator) -> Draws:
    draws = np.empty((replicates, subjects), np.float32)
    for row in draws:
        row[:] = np.bincount(rng.integers(subjects, size=subjects), minlength=subjects)
    return draws


def interval(rates: Scores) -> tuple[float, float]:
    """The percentile interval of the rates of replicates, without those that are NaN."""
    known = rates[~np.isnan(rates)]
    if not len(known):
        return math.nan, math.nan
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def rates(scores: Scores, subjects: Places, draws: Draws, thresholds: Scores) -> Scores:
    """The share of accepted scores in each replicate at its threshold: a TMR, or a TPIR with -inf for a lost search."""
    accepted, sizes = counted(scores, subjects, draws.shape[1], thresholds)
    return _share(np.einsum("bs,sb->b", draws, accepted, dtype=np.float64), draws.astype(np.float64) @ sizes)


def person_rates(scores: Scores, subjects: Places, draws: Draws, thresholds: Scores) -> Scores:
    """The mean over the subjects of each replicate of their own shares of accepted scores; every subject has a
    score."""
    accepted, sizes = counted(scores, subjects, draws.shape[1], thresholds)
    own = accepted / sizes[:, None]
    return _share(np.einsum("bs,sb->b", draws, own, dtype=np.float64), draws.sum(axis=1, dtype=np.float64))


def counted(scores: Scores, subjects: Places, people: int, thresholds: Scores) -> tuple[Places, Places]:
    """How many scores of each of so many people reach each threshold [people, thresholds], and how many each has."""
    order = np.argsort(thresholds)
    reached = np.searchsorted(thresholds[order], scores, side="right")  # how many of the thresholds each score reaches
    width = len(thresholds) + 1
    cells = np.bincount(subjects * width + reached, minlength=people * width).reshape(-1, width)
    sizes = cells.sum(axis=1)
    accepted = np.empty((len(sizes), len(thresholds)), np.int64)
    accepted[:, order] = sizes[:, None] - np.cumsum(cells, axis=1)[:, :-1]
    return accepted, sizes


def pair_rates(
    scores: Scores, a: Places, b: Places, share: float, totals: Scores, draws: Draws, thresholds: Scores
) -> Scores:
    """The share of accepted pairs in each replicate, from the highest scores.

    The listed pairs are a uniform `share` of all pairs that reach the lowest threshold. `a` and `b` are their subjects.
    `totals` are the weights of all pairs (`pair_totals`).
    """
    values = np.empty(len(thresholds))
    for chunk in _chunks(len(thresholds), len(scores)):
        weights = draws[chunk][:, a] * draws[chunk][:, b]
        values[chunk] = np.einsum("be,be->b", weights, scores[None, :] >= thresholds[chunk, None], dtype=np.float64)
    return _share(values / share, totals)


def pair_totals(draws: Draws, sizes: Places, others: Places | None = None) -> Scores:
    """The weight of all non-mated pairs of each replicate: of a set with itself, where subjects have `sizes` vectors,
    or of that set with another, where they have `others`."""
    first = draws.astype(np.float64) * sizes
    if others is None:
        return np.asarray((first.sum(axis=1) ** 2 - (first**2).sum(axis=1)) / 2)
    second = draws.astype(np.float64) * others
    return np.asarray(first.sum(axis=1) * second.sum(axis=1) - (first * second).sum(axis=1))


def thresholds(
    scores: Scores, a: Places, b: Places | None, share: float, totals: Scores, draws: Draws, target: float
) -> Scores:
    """The threshold at the target in each replicate, from the highest non-mated scores.

    The scores are a uniform `share` of all scores above some bound. `a` are their subjects; for pairs, `b` are those of
    the second side. The rule is that of `verification.threshold_at`, with weights.
    """
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    opens = np.flatnonzero(np.diff(ranked, prepend=np.inf))  # where a run of equal scores begins
    found = np.empty(len(draws))
    for chunk in _chunks(len(draws), len(ranked)):
        weights = draws[chunk][:, a[order]]
        if b is not None:
            weights = weights * draws[chunk][:, b[order]]
        sums = np.cumsum(weights, axis=1, dtype=np.float64)
        runs = np.column_stack([sums[:, opens[1:] - 1], sums[:, -1]]) / share  # accepted at the end of each run
        allowed = np.array([_allowed(total, target) for total in totals[chunk]])
        fit = (runs <= allowed[:, None]).sum(axis=1)
        accepted = np.where(fit > 0, runs[np.arange(len(runs)), fit - 1], 0)
        lowest = ranked[opens[(runs < accepted[:, None]).sum(axis=1)]]  # a score that was not drawn is no threshold
        border = ranked[opens[np.minimum(fit, len(opens) - 1)]]
        found[chunk] = np.where(accepted > 0, lowest, np.nextafter(border, np.inf))
    return found


def rank_of_replicates(rank: float) -> float:
    """A rank so low that the threshold of every replicate lies above it, where the threshold of all has this rank.

    In a replicate a pair counts as often as both its subjects were drawn, once on average. Four times the rank, and 30
    for small ranks, leave room for replicates that drew the subjects of the highest pairs rarely.
    """
    return 4 * rank + 30


def _share(accepted: Scores, totals: Scores) -> Scores:
    return np.asarray(np.divide(accepted, totals, out=np.full(len(accepted), math.nan), where=totals > 0))


def _allowed(total: float, target: float) -> float:
    return allowed_errors(round(total), target) if total >= 1 else 0.0


def _chunks(replicates: int, entries: int) -> Iterator[slice]:
    step = max(1, _CHUNK // max(entries, 1))
    for start in range(0, replicates, step):
        yield slice(start, start + step)


# --- differences ----------------------------------------------------------------------------------------------------

Share = tuple[float, float, float]
"""a share, and the ends of its interval"""


def difference_of_shares(first: Share, second: Share) -> Share:
    """The second share minus the first, of two independent samples, with the interval that follows from theirs (MOVER:
    Zou and Donner, 2008; of Wilson's intervals it is Newcombe's)."""
    (a, a_low, a_high), (b, b_low, b_high) = first, second
    return b - a, b - a - math.hypot(b - b_low, a_high - a), b - a + math.hypot(b_high - b, a - a_low)


def difference_of_means(first: Sequence[float], second: Sequence[float]) -> Share:
    """The mean of the second sample minus that of the first, with Welch's interval. Each has two values or more."""
    value = statistics.fmean(second) - statistics.fmean(first)
    shares = [statistics.variance(sample) / len(sample) for sample in (first, second)]
    if not sum(shares):
        return value, value, value
    freedom = sum(shares) ** 2 / sum(s**2 / (len(x) - 1) for s, x in zip(shares, (first, second), strict=True))
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * math.sqrt(sum(shares))
    return value, value - half, value + half
