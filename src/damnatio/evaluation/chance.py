"""What chance does: two strangers match at the false match rate, and so do two photographs of a person whom the model
takes for a stranger.

A person links beyond chance if so many of their pairs link as chance links of at most one stranger in twenty (the upper
tail of the binomial distribution). Pairs that share a photograph are not independent, so chance alone takes a little
more than one in twenty there, and nobody is called unlinked because of it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.protocol import SINGLE_GROUPS, Comparisons
from damnatio.metrics import intervals
from damnatio.support.tables import codes_of

LINKED = "linked_people"
"""the metric of the share of people who link beyond chance, of those who could be measured"""
CHANCE = "_chance"
"""ends the metric of what chance alone gives"""
FEWEST = 6
"""pairs of a person: with fewer nothing is measured"""
LEVEL = 0.05

Counts = NDArray[np.int64]


def beyond(links: Counts, pairs: Counts, rate: float) -> NDArray[np.bool_]:
    """Whether so many links of so many pairs are more than chance at this false match rate."""
    from scipy.special import betainc

    tail = betainc(np.maximum(links, 1), pairs - np.maximum(links, 1) + 1.0, rate)
    return np.asarray((links > 0) & (tail <= LEVEL))


def linked_people(c: Comparisons, thresholds: Sequence[float], rates: Sequence[float]) -> tuple[list[int], int]:
    """How many forget identities link beyond chance at each threshold, and how many could be measured: by all their
    pairs of single images."""
    mated = [c.mated[group] for group in SINGLE_GROUPS]
    codes, people = codes_of(np.concatenate([each.subjects for each in mated]))
    scores = np.concatenate([each.scores for each in mated])
    links, pairs = intervals.counted(scores, codes, len(people), np.asarray(thresholds, np.float64))
    measured = pairs >= FEWEST
    each = zip(links[measured].T, rates, strict=True)
    return [int(beyond(mine, pairs[measured], rate).sum()) for mine, rate in each], int(measured.sum())


def unlinked(pairs: Counts, rate: float) -> float:
    """The share of people none of whose pairs links by chance."""
    return float(np.mean((1 - rate) ** pairs)) if len(pairs) else float("nan")
