"""Who is compared with whom: the groups of sections IV-D to IV-F of the paper, from unit vectors and partitions.

Mated pairs are few and are scored here. Non-mated pairs are many: they are described here, and one pass over them
follows when the thresholds are known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.comparing import leave_one_out, mated_across, mated_pairs, search, templates
from damnatio.evaluation.nonmated import NonMated, nonmated_pairs
from damnatio.evaluation.pairings import Across, Pairing, Vectors, Within
from damnatio.evaluation.scanning import Scores, Units, dots, on_grid
from damnatio.partitions import DEVELOPMENT, DISTRACTOR, ENROL, EVAL, PROBE, RETAIN, TEST, TRAIN, Partitions
from damnatio.support.tables import Codes, codes_of

SINGLE_GROUPS = ("Ftr-Ftr", "Ftr-Fev", "Fev-Fev")
AVERAGED = "avg(Ftr)-Fev"
FORGET_GROUPS = (*SINGLE_GROUPS, AVERAGED)
CROSS_GROUPS = ("FtrxFtr", "FevxFev")
FALSE_MATCHES = {"R": "RxR", "T": "TxT", **{group: group for group in CROSS_GROUPS}}
"""non-mated groups whose FMR is reported, and the name in the results"""
SEARCH_GROUPS = {"R": "D", "T": "D", "Ftr": "D", "Fev": "Dev"}
"""1:N groups, and the calibration of the gallery that each is searched in. The gallery of `Dev` holds forget-eval
templates."""


@dataclass(frozen=True)
class Named(Vectors):
    """Vectors with names: that of the image of each, and that of its identity. A template has the name of its identity
    twice."""

    names: NDArray[np.object_]
    people: NDArray[np.object_]


@dataclass(frozen=True)
class Mated:
    """Scores, and the code of the identity that each belongs to."""

    scores: Scores
    subjects: Codes


@dataclass(frozen=True)
class Searches:
    """Mated searches: the score of the probe's own template, the highest score of any other, and the code of the
    probe."""

    own: Scores
    best: Scores
    subjects: Codes

    @cached_property
    def won(self) -> Scores:
        """The own score where the own template leads alone, else -inf, which no threshold accepts."""
        return np.where(self.own > self.best, self.own, -np.inf)


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


def compare(
    units: Units, rows: NDArray[np.int64], partitions: Partitions, scale: str, most: int, seed: int
) -> Comparisons:
    """All comparisons at one scale. `units[i]` is the embedding of the image at table row `rows[i]`. Of each group, at
    most `most` non-mated comparisons are drawn; 0 takes all."""
    members = partitions.at(rows)
    names, identities = members.table["image"], members.table["identity"]
    codes, people = codes_of(identities)
    units = on_grid(units)

    def chosen(mask: NDArray[np.bool_]) -> Named:
        return Named(units[mask], codes[mask], names[mask], identities[mask])

    def enrolled(vectors: Named) -> Named:
        """One template per identity."""
        made, whose = templates(vectors.units, vectors.codes)
        return Named(made, whose, people[whose], people[whose])

    train, evaluated = (chosen(members.in_forget_set(scale, role)) for role in (TRAIN, EVAL))
    development, test = chosen(members.has(DEVELOPMENT)), chosen(members.has(TEST))
    linked = enrolled(train)
    kept = {g: enrolled(chosen(members.has(name, ENROL))) for g, name in (("R", RETAIN), ("T", TEST))}
    probes = {g: chosen(members.has(name, PROBE)) for g, name in (("R", RETAIN), ("T", TEST))}
    pairings: dict[str, Pairing[Named]] = {
        "D": Within(development),
        "T single": Within(test),
        "R": Across(kept["R"], probes["R"]),
        "T": Across(kept["T"], probes["T"]),
        AVERAGED: Across(linked, evaluated),
        "FtrxFtr": Within(train),
        "FevxFev": Within(evaluated),
        "FtrxFev": Across(train, evaluated),
    }
    others = {
        group: nonmated_pairs(pairing, most, np.random.default_rng([seed, 7, stream]))
        for stream, (group, pairing) in enumerate(pairings.items())
    }
    mated = {
        "R": _across(kept["R"], probes["R"]),
        "T": _across(kept["T"], probes["T"]),
        "Ftr-Ftr": _within(train),
        "Ftr-Fev": _across(train, evaluated),
        "Fev-Fev": _within(evaluated),
        AVERAGED: _across(linked, evaluated),
    }
    strangers = [kept["R"], kept["T"], enrolled(chosen(members.has(DISTRACTOR)))]
    before, after = _gallery([*strangers, linked]), _gallery([*strangers, enrolled(evaluated)])
    searches = {
        group: _mated_searches(*search(*probe.pair, *before), probe.codes)
        for group, probe in {**probes, "Ftr": evaluated}.items()
    }
    own, best = leave_one_out(*evaluated.pair), search(*evaluated.pair, *after)[1]
    searches["Fev"] = _mated_searches(own, best, evaluated.codes)  # a single image has no other to make a template of
    alarms = {
        name: Mated(search(*development.pair, *gallery)[1], development.codes)
        for name, gallery in (("D", before), ("Dev", after))
    }
    return Comparisons(others.pop("D"), mated, others, searches, alarms, pairings, seed)


def _within(vectors: Named) -> Mated:
    a, b = mated_pairs(vectors.codes)
    return Mated(dots(vectors.units, a, vectors.units, b), vectors.codes[a])


def _across(first: Named, second: Named) -> Mated:
    a, b = mated_across(first.codes, second.codes)
    return Mated(dots(first.units, a, second.units, b), first.codes[a])


def _mated_searches(own: Scores, best: Scores, subjects: Codes) -> Searches:
    there = own > -math.inf
    return Searches(own[there], best[there], subjects[there])


def _gallery(sets: Sequence[Named]) -> tuple[Units, Codes]:
    return np.concatenate([templates.units for templates in sets]), np.concatenate([t.codes for t in sets])
