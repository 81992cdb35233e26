"""The people of galleries as strangers: whoever is enrolled must stay recognised.

Of a large gallery some rows are taken: at random, and those that are most like the people to forget, since only these
can be caught by a gate. So memory is bounded, whatever the size of the gallery.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from damnatio.erasure.people import Person
from damnatio.erasure.request import GALLERY, Request
from damnatio.galleries.base import Store
from damnatio.galleries.opening import open_store
from damnatio.methods.strangers import Strangers, Units
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import codes_of

RANDOM, NEAREST = 20_000, 2_000
"""rows that are taken of all galleries together, at most"""


def read_galleries(request: Request, dim: int, people: Sequence[Person]) -> Strangers | None:
    """The people of the galleries; None if no row can be compared. A gallery of another model and a row without a
    direction are errors; with a case they are passed over, since the search for the person reports them."""
    lenient = request.case is not None
    templates = np.concatenate([np.zeros((1, dim)), *(person.every for person in people)])
    taken = _Taken(dim, {word.removeprefix(f"{GALLERY}/") for word in [*request.same, *request.not_same]})
    for address in request.galleries:
        with open_store(address) as store:
            for owners, units in _rows(store, dim, lenient):
                taken.add(owners, units, templates)
    if not taken.owners:
        return None
    owners, rows = taken.thinned()
    codes, names = codes_of(np.array(owners, dtype=object))
    return Strangers(rows.astype(np.float64), codes, [str(name) for name in names])


class _Taken:
    """The rows at hand. Each has a random number; the smallest ones stay, and the rows nearest to any photograph of the
    people. Whom the request names stays too."""

    def __init__(self, dim: int, named: set[str]) -> None:
        self._named = named
        self.owners: list[str] = []
        self._units: list[NDArray[np.float32]] = [np.zeros((0, dim), np.float32)]
        self._draws: list[Units] = [np.zeros(0)]
        self._scores: list[Units] = [np.zeros(0)]
        self._random = np.random.default_rng(0)

    def add(self, owners: list[str], units: Units, templates: Units) -> None:
        self.owners += owners
        self._units.append(units.astype(np.float32))
        self._draws.append(self._random.random(len(owners)))
        named = np.array([owner.removeprefix(f"{GALLERY}/") in self._named for owner in owners])
        self._scores.append(np.where(named, np.inf, (units @ templates.T).max(axis=1)))
        if len(self.owners) > 3 * RANDOM:
            self.thinned()

    def thinned(self) -> tuple[list[str], NDArray[np.float32]]:
        units = np.concatenate(self._units)
        draws, scores = np.concatenate(self._draws), np.concatenate(self._scores)
        if len(draws) > RANDOM + NEAREST:
            kept = np.union1d(np.argsort(draws)[:RANDOM], np.argsort(-scores)[:NEAREST])
            units, draws, scores = units[kept], draws[kept], scores[kept]
            self.owners = [self.owners[row] for row in kept]
        self._units, self._draws, self._scores = [units], [draws], [scores]
        return self.owners, units


def _rows(store: Store, dim: int, lenient: bool) -> Iterator[tuple[list[str], Units]]:
    """The owners and unit vectors of the rows of this dimension."""
    shown, others = store.address.path or store.address.shown, set[int]()
    seen = False
    for place in store.places():
        if not place.searched:
            continue
        for block in store.blocks(place.name):
            if block.vectors is None or block.vectors.shape[1] != dim:
                others |= set() if block.vectors is None else {block.vectors.shape[1]}
                continue
            seen = True
            vectors = block.vectors.astype(np.float64)
            lengths = np.linalg.norm(vectors, axis=1)
            bad = ~np.isfinite(lengths) | (lengths == 0)
            if bad.any() and not lenient:
                whose = block.names[int(np.flatnonzero(bad)[0])]
                raise DamnatioError(f"The gallery {shown}: the template of {whose} is zero or not finite: remove it.")
            good = np.flatnonzero(~bad).tolist()
            owners = [f"{GALLERY}/{block.names[row] or block.ids[row]}" for row in good]
            yield owners, vectors[good] / lengths[good, None]
    if others and not seen and not lenient:
        raise DamnatioError(
            f"The gallery {shown} holds vectors of {others.pop()} values, and the model makes {dim}: they are of "
            "another model."
        )
