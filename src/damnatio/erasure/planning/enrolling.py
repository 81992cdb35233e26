"""Enrolled again? The person is enrolled anew among people of a gallery, and searched for.

Half of the photographs make a template, the others search. That is done under the old model, under the altered one,
and under the altered one against a template that the old one made, as if it had survived. Nothing is written to a
gallery: some of its rows are taken, and the search is exact.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from damnatio.erasure.embedder import Embedder
from damnatio.erasure.planning.plan import EnrolledAgain, Share
from damnatio.erasure.planning.sought import Wanted, photographs_of
from damnatio.galleries.items import Key, Units, Vectors
from damnatio.galleries.searching import normalised
from damnatio.methods.strangers import mean_direction
from damnatio.metrics.intervals import wilson

AMONG = 2_000
"""rows of a gallery among which the person is searched"""


class Photographs:
    """The photographs of the people under both models: halves that enrol, and halves that search."""

    def __init__(self, wanted: Wanted, new: Embedder) -> None:
        several = [person for person in wanted.people if len(person.places) > 1]
        self.level = wanted.level
        self._old = [_halves(person.units.astype(np.float32)) for person in several]
        self._new = [_halves(photographs_of(wanted, new, person)) for person in several]

    def searched(self, number: int, kind: str, others: Units) -> EnrolledAgain:
        old, new = self._old, self._new
        return EnrolledAgain(
            store=number,
            kind=kind,
            among=len(others),
            before=self._found([half for half, _ in old], [half for _, half in old], others),
            after=self._found([half for half, _ in new], [half for _, half in new], others),
            survivor=self._found([half for half, _ in old], [half for _, half in new], others),
        )

    def _found(self, enrolled: Sequence[Units], probes: Sequence[Units], others: Units) -> Share:
        found = total = 0
        for mine, searching in zip(enrolled, probes, strict=True):
            own = searching @ mean_direction(mine.astype(np.float64)).astype(np.float32)
            best = (searching @ others.T).max(axis=1) if len(others) else np.full(len(searching), -1.0)
            found += int(((own >= self.level) & (own > best)).sum())
            total += len(searching)
        return share(found, total)


def others_of(rows: Mapping[Key, Vectors], dim: int) -> Units:
    """These rows of a gallery as unit vectors; none if it holds no vectors of this model."""
    same = [vector for vector in rows.values() if vector.shape[-1] == dim]
    return normalised(np.stack(same)) if same else np.empty((0, dim), np.float32)


def share(count: int, of: int) -> Share:
    low, high = wilson(count, of) if of else (0.0, 1.0)
    return Share(count=count, of=of, low=low, high=high)


def _halves(units: Units) -> tuple[Units, Units]:
    middle = (len(units) + 1) // 2
    return units[:middle], units[middle:]
