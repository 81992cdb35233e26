"""Who is compared with whom: the groups of sections IV-D to IV-F of the paper, from unit vectors and partitions.

Mated pairs are few and are scored here. Non-mated pairs are many: they are described here, and one pass over them
follows when the thresholds are known.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.comparing import leave_one_out, search
from damnatio.evaluation.legacy import Embedded, Legacy, compare_legacy
from damnatio.evaluation.nonmated import NonMated, nonmated_pairs
from damnatio.evaluation.pairings import Across, Pairing, Vectors, Within
from damnatio.evaluation.scanning import Units
from damnatio.evaluation.scored import Mated, Searches, across, alarms, mated_searches, searched, within
from damnatio.evaluation.sets import Named, Sets
from damnatio.partitions import Partitions
from damnatio.protocol.roles import Members

KEPT_GROUPS = ("R", "T", "T single", "B")
"""mated groups of people who must stay recognised; `B` exists only where there are bystanders"""
SINGLE_GROUPS = ("Ftr-Ftr", "Ftr-Fev", "Fev-Fev")
AVERAGED = "avg(Ftr)-Fev"
FORGET_GROUPS = (*SINGLE_GROUPS, AVERAGED)
CROSS_GROUPS = ("FtrxFtr", "FevxFev")
FALSE_MATCHES = {"R": "RxR", "T": "TxT", **{group: group for group in CROSS_GROUPS}}
"""non-mated groups whose FMR is reported, and the name in the results"""
SEARCH_GROUPS = {"R": "D", "T": "D", "Ftr": "D", "Fev": "Dev"}
"""1:N groups, and the calibration of the gallery that each is searched in. The gallery of `Dev` holds forget-eval
templates."""


@dataclass
class Comparisons:
    """All comparisons of one model at one scale."""

    development: NonMated
    """single images of D; they calibrate 1:1"""
    mated: dict[str, Mated]
    nonmated: dict[str, NonMated]
    searches: dict[str, Searches]
    alarms: dict[str, Mated]
    """the highest score of each search with a probe of D, by gallery"""
    pairings: dict[str, Pairing[Named]]
    """by group of 1:1: which vectors meet"""
    seed: int = 0
    legacy: Legacy | None = None
    """with what f* has enrolled; None for f* itself"""


def compare(
    units: Units,
    rows: NDArray[np.int64],
    partitions: Partitions,
    scale: str,
    most: int,
    seed: int,
    original: Embedded | None = None,
) -> Comparisons:
    """All comparisons at one scale. `units[i]` is the embedding of the image at table row `rows[i]`. Of each group, at
    most `most` non-mated comparisons are drawn; 0 takes all. `original` is f*, for an altered model: images that it has
    not embedded are left out."""
    if original is not None:
        shared = np.isin(rows, original.rows)
        units, rows = (units, rows) if shared.all() else (units[shared], rows[shared])
    before = None if original is None else original.at(rows)
    return compare_members(units, partitions.at(rows).members(scale), most, seed, before)


def compare_members(
    units: Units, members: Members, most: int = 0, seed: int = 0, original: Units | None = None
) -> Comparisons:
    """The same for images by their roles. `units[i]` is the embedding of the i-th image, and `original[i]` that of f*,
    for an altered model."""
    sets = Sets(units, members)
    pairings: dict[str, Pairing[Named]] = {
        "D": Within(sets.development),
        "T single": Within(sets.test),
        "R": Across(sets.kept["R"], sets.probes["R"]),
        "T": Across(sets.kept["T"], sets.probes["T"]),
        AVERAGED: Across(sets.linked, sets.evaluated),
        "FtrxFtr": Within(sets.train),
        "FevxFev": Within(sets.evaluated),
        "FtrxFev": Across(sets.train, sets.evaluated),
    }
    streams = {group: stream for stream, group in enumerate(pairings)}

    def nonmated(group: str, pairing: Pairing[Vectors]) -> NonMated:
        return nonmated_pairs(pairing, most, np.random.default_rng([seed, 7, streams[group]]))

    others = {group: nonmated(group, pairing) for group, pairing in pairings.items()}
    mated = {
        "R": across(sets.kept["R"], sets.probes["R"]),
        "T": across(sets.kept["T"], sets.probes["T"]),
        "T single": within(sets.test),
        "Ftr-Ftr": within(sets.train),
        "Ftr-Fev": across(sets.train, sets.evaluated),
        "Fev-Fev": within(sets.evaluated),
        AVERAGED: across(sets.linked, sets.evaluated),
    }
    if len(sets.bystanders):
        pairings["B"] = Within(sets.bystanders)
        mated["B"] = within(sets.bystanders)
    before, after = sets.gallery(sets.linked), sets.gallery(sets.enrolled(sets.evaluated))
    searches = {group: searched(probes, before) for group, probes in {**sets.probes, "Ftr": sets.evaluated}.items()}
    own, best = leave_one_out(*sets.evaluated.pair), search(*sets.evaluated.pair, *after.pair)[1]
    searches["Fev"] = mated_searches(own, best, sets.evaluated.codes)  # a single image has no other to be compared with
    alarmed = {name: alarms(sets.development, gallery) for name, gallery in (("D", before), ("Dev", after))}
    legacy = None
    if original is not None:
        old = Sets(original, members)
        legacy = compare_legacy(
            old, sets, lambda pairing: nonmated("T", pairing)
        )  # the pairs of T, where they are drawn
    return Comparisons(others.pop("D"), mated, others, searches, alarmed, pairings, seed, legacy)
