"""1:N searches: each probe is compared with every template of a gallery.

In an open set, a mated search succeeds if the probe's own identity is the top candidate alone (a tie loses) and its
score reaches the threshold. A non-mated search raises a false alarm if its highest score reaches the threshold. So two
numbers describe a search: the score of the probe's own template, and the highest score of any other.

A closed-set search has no threshold; it is described by the rank of the probe's own identity.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from damnatio.metrics.verification import Scores


def identification_curve(own: Scores, best_other: Scores, thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """TPIR, the share of mated searches that succeed, at each threshold; by one sort of the searches that rank their
    own identity first."""
    if not len(own):
        return np.full(len(thresholds), math.nan)
    won = np.sort(own[own > best_other])
    return (len(won) - np.searchsorted(won, thresholds, side="left")) / len(own)


def ranks(
    blocks: Iterable[Scores], probe_codes: NDArray[np.int64], gallery_codes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The rank of each probe's own identity: 1 + the number of other identities that score at least as high.

    `blocks` are rows of scores: one row per probe, one column per template. The score of an identity is that of its
    best template.
    """
    order = np.argsort(gallery_codes, kind="stable")
    present, starts = np.unique(gallery_codes[order], return_index=True)
    if not np.isin(probe_codes, present).all():
        raise ValueError("a probe has no template of its own identity: its rank is not defined")
    own = np.searchsorted(present, probe_codes)
    found, first = np.empty(len(probe_codes), dtype=np.int64), 0
    for block in blocks:
        rows = np.arange(first, first + len(block))
        scores = np.maximum.reduceat(block[:, order], starts, axis=1)
        found[rows] = np.count_nonzero(scores >= scores[rows - first, own[rows], None], axis=1)
        first += len(block)
    if first != len(found):
        raise ValueError(f"{first} rows of scores for {len(found)} probes")
    return found


def cmc(found: NDArray[np.int64], at: Sequence[int]) -> NDArray[np.float64]:
    """The cumulative match characteristic: the share of probes whose own identity is among the first r, for each r."""
    if not len(found):
        return np.full(len(at), math.nan)
    return np.searchsorted(np.sort(found), np.asarray(at), side="right") / len(found)
