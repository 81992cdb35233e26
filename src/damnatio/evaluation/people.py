"""Single people: how high the comparisons of each identity score, and which pairs of the forgotten score highest."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from damnatio.evaluation.protocol import FORGET_GROUPS, Comparisons
from damnatio.support.tables import codes_of

LISTED = 200
"""so many pairs of each forget group are listed, the highest first"""
_PAIRINGS = {"Ftr-Ftr": "FtrxFtr", "Ftr-Fev": "FtrxFev", "Fev-Fev": "FevxFev"}
"""mated groups whose pairing bears another name"""


@dataclass(frozen=True)
class Person:
    """The mated comparisons of one identity in one group, and the pair that scores highest."""

    group: str
    identity: str
    count: int
    mean: float
    lowest: float
    highest: float
    first: str
    second: str


@dataclass(frozen=True)
class Link:
    """A mated pair of a forget identity. A template has the name of its identity."""

    group: str
    identity: str
    first: str
    second: str
    score: float


def people_of(c: Comparisons) -> Iterator[Person]:
    """Every identity of every mated group."""
    for group, mated in c.mated.items():
        pairing = c.pairings[_PAIRINGS.get(group, group)]
        a, b = pairing.mated()
        codes, everyone = codes_of(pairing.first.people[a])
        counts = np.bincount(codes, minlength=len(everyone))
        sums = np.bincount(codes, mated.scores, minlength=len(everyone))
        order = np.lexsort((mated.scores, codes))  # by identity, then by score
        ends = np.cumsum(counts)
        for code, name in enumerate(everyone.tolist()):
            low, high = order[ends[code] - counts[code]], order[ends[code] - 1]
            yield Person(
                group=group,
                identity=name,
                count=int(counts[code]),
                mean=float(sums[code] / counts[code]),
                lowest=float(mated.scores[low]),
                highest=float(mated.scores[high]),
                first=str(pairing.first.names[a[high]]),
                second=str(pairing.second.names[b[high]]),
            )


def links_of(c: Comparisons) -> Iterator[Link]:
    """The highest pairs of each forget group."""
    for group in FORGET_GROUPS:
        scores, pairing = c.mated[group].scores, c.pairings[_PAIRINGS.get(group, group)]
        a, b = pairing.mated()
        for place in np.argsort(-scores, kind="stable")[:LISTED].tolist():
            i, j = a[place], b[place]
            first, second = str(pairing.first.names[i]), str(pairing.second.names[j])
            yield Link(group, str(pairing.first.people[i]), first, second, float(scores[place]))
