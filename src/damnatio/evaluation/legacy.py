"""The legacy gallery: templates in service were enrolled under f*, probes come from the altered model f.

It says who must be enrolled again: at f*'s own thresholds, retain and test identities must be recognised as before,
and forget identities must not, because old templates may survive. The drift says how far the embeddings themselves
moved.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.comparing import mated_pairs
from damnatio.evaluation.nonmated import NonMated
from damnatio.evaluation.pairings import Across, Pairing, Vectors
from damnatio.evaluation.scanning import ROWS, Scores, Units, blocks, dots, on_grid
from damnatio.evaluation.scored import Mated, Searches, across, alarms, searched
from damnatio.evaluation.sets import KEPT, Sets
from damnatio.protocol import roles
from damnatio.protocol.roles import Mask
from damnatio.support.tables import Codes

LEGACY_SEARCHES = ("R", "T", "Ftr")
"""1:N groups whose rates in the gallery of f* are reported"""


@dataclass(frozen=True)
class Embedded:
    """The embeddings of a model: `units[i]` is that of the image at row `rows[i]` of the table of partitions."""

    units: Units
    rows: NDArray[np.int64]

    def at(self, rows: NDArray[np.int64]) -> Units:
        """The embeddings of these rows, in this order; all of them must be here."""
        if np.array_equal(rows, self.rows):  # as in every run: no copy
            return self.units
        order = np.argsort(self.rows)
        places = order[np.searchsorted(self.rows, rows, sorter=order)]
        return self.units[places]


@dataclass(frozen=True)
class Drift:
    """Of each image: the cosine of f(x) to f*(x), whether both are equal in every bit, and the code of its identity."""

    cosines: Scores
    unchanged: Mask
    subjects: Codes


@dataclass(frozen=True)
class Legacy:
    """Comparisons of an altered model with what f* has enrolled."""

    mated: dict[str, Mated]
    nonmated: NonMated
    """test templates of f* and test probes of f"""
    searches: dict[str, Searches]
    alarms: Mated
    """the highest score of each search with a probe of D"""
    drift: dict[str, Drift]


def compare_legacy(old: Sets, new: Sets, nonmated: Callable[[Pairing[Vectors]], NonMated]) -> Legacy:
    """`old` holds the vectors of f* and `new` those of f, of the same images in the same order. `nonmated` makes the
    non-mated pairs of test templates and probes."""
    mated = {group: across(old.kept[group], new.probes[group]) for group in ("R", "T")}
    mated["T single"] = _both_orders(old.test, new.test)
    if len(new.bystanders):
        mated["B"] = _both_orders(old.bystanders, new.bystanders)
    mated["Ftr-Ftr"] = _both_orders(old.train, new.train)
    mated["Ftr-Fev"] = across(old.train, new.evaluated)
    mated["avg(Ftr)-Fev"] = across(old.linked, new.evaluated)
    gallery = old.gallery(old.linked)
    probes = {**new.probes, "Ftr": new.evaluated}
    return Legacy(
        mated=mated,
        nonmated=nonmated(Across(old.kept["T"], new.probes["T"])),
        searches={group: searched(probes[group], gallery) for group in LEGACY_SEARCHES},
        alarms=alarms(new.development, gallery),
        drift={group: _drift(old, new, mask) for group, mask in _drifting(new).items()},
    )


def _both_orders(old: Vectors, new: Vectors) -> Mated:
    """Every pair of one identity twice: either image may be the one that was enrolled."""
    a, b = mated_pairs(new.codes)
    scores = np.concatenate([dots(old.units, a, new.units, b), dots(old.units, b, new.units, a)])
    return Mated(scores, np.concatenate([new.codes[a], new.codes[a]]))


def _drifting(sets: Sets) -> dict[str, Mask]:
    """The groups whose drift is reported, without those that are empty."""
    members = sets.members
    groups = {
        "R": members.has(*KEPT["R"]),
        "T": members.has(*KEPT["T"]),
        "B": members.bystanders,
        "F": members.has(roles.SEEN, roles.NEW),
        "Ftr": members.has(roles.SEEN),
        "Fev": members.has(roles.NEW),
    }
    return {group: mask for group, mask in groups.items() if mask.any()}


def _drift(old: Sets, new: Sets, mask: Mask) -> Drift:
    places = np.flatnonzero(mask)
    cosines, unchanged = np.empty(len(places)), np.empty(len(places), dtype=bool)
    for block in blocks(len(places), ROWS):
        before, now = old.units[places[block]], new.units[places[block]]
        unchanged[block] = (before.view(np.int64) == now.view(np.int64)).all(axis=1)  # -0.0 is not 0.0
        a, b = on_grid(before), on_grid(now)
        ab, aa, bb = (np.einsum("ij,ij->i", x, y) for x, y in ((a, b), (a, a), (b, b)))
        cosines[block] = ab / np.sqrt(aa * bb)  # 1 exactly where both are equal: on the grid a length is nearly 1
    return Drift(cosines, unchanged, new.codes[places])
