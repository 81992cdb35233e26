"""Who meets whom: the groups of sections IV-D to IV-F of the paper, from unit vectors and the table of partitions.

What is mated is few and scored here; what is non-mated is described, to be passed over once the thresholds are known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from damnatio.comparing import NonMated, leave_one_out, mated_across, mated_pairs, search, templates
from damnatio.partitions import DEVELOPMENT, DISTRACTOR, FORGET, RETAIN, TEST, at_scale
from damnatio.scanning import Codes, Scores, Units, dots, on_grid
from damnatio.tables import Table, codes_of

SINGLE_GROUPS = ("Ftr-Ftr", "Ftr-Fev", "Fev-Fev")
AVERAGED = "avg(Ftr)-Fev"
FORGET_GROUPS = (*SINGLE_GROUPS, AVERAGED)
CROSS_GROUPS = ("FtrxFtr", "FevxFev")
FALSE_MATCHES = {"R": "RxR", "T": "TxT", **{group: group for group in CROSS_GROUPS}}
"""Non-mated groups whose FMR is reported, and under what name."""
SEARCH_GROUPS = {"R": "D", "T": "D", "Ftr": "D", "Fev": "Dev"}
"""1:N groups, and the calibration of the gallery that each is searched in: `Dev` holds forget-eval templates."""


@dataclass(frozen=True)
class Mated:
    """Scores of comparisons of one identity, and whose they are."""

    scores: Scores
    subjects: Codes


@dataclass(frozen=True)
class Searches:
    """Mated searches: the score of the probe's own template, the highest of any other, and whose probe it is."""

    own: Scores
    best: Scores
    subjects: Codes

    @cached_property
    def won(self) -> Scores:
        """The own score where the own template leads alone, else out of reach of every threshold."""
        return np.where(self.own > self.best, self.own, -np.inf)


@dataclass
class Comparisons:
    """What is compared under one protocol, for one model."""

    development: NonMated
    """single images of D: what calibrates 1:1"""
    mated: dict[str, Mated]
    nonmated: dict[str, NonMated]
    searches: dict[str, Searches]
    alarms: dict[str, Mated]
    """the highest score of each search with a probe of D, by gallery"""
    seed: int = 0


def evaluated_rows(partitions: Table) -> NDArray[np.int64]:
    """The rows that an evaluation compares: all but what was dropped and the trained outside the control."""
    part = partitions["partition"]
    used = (part == TEST) | (part == DEVELOPMENT) | (part == DISTRACTOR) | partitions["control"]
    used |= (part == FORGET) & (partitions["role"] != "dropped")
    rows: NDArray[np.int64] = partitions["row"][used.astype(bool)].astype(np.int64)
    return rows


def compare(
    units: Units, rows: NDArray[np.int64], partitions: Table, scales: dict[str, int], scale: str, most: int, seed: int
) -> Comparisons:
    """All comparisons at one scale. `units[i]` is the embedding of the image at table row `rows[i]`. `most` draws so
    many non-mated comparisons a group; 0 takes all."""
    members = partitions.where(rows)
    codes = codes_of(members["identity"])[0]
    part, role = members["partition"], members["role"]
    forget = at_scale(members, scales, scale)
    units = on_grid(units)

    def chosen(mask: NDArray[np.bool_]) -> tuple[Units, Codes]:
        return units[mask.astype(bool)], codes[mask.astype(bool)]

    def nonmated(stream: int, first: tuple[Units, Codes], second: tuple[Units, Codes] | None = None) -> NonMated:
        return NonMated(first, second, most, np.random.default_rng([seed, 7, stream]))

    train, evaluated = chosen(forget & (role == "train")), chosen(forget & (role == "eval"))
    development, test = chosen(part == DEVELOPMENT), chosen(part == TEST)
    mated: dict[str, Mated] = {}
    others = {"T single": nonmated(1, test)}
    searches: dict[str, Searches] = {}

    enrolled, probes = {}, {}
    for number, (group, name) in enumerate((("R", RETAIN), ("T", TEST)), start=2):
        enrolled[group] = templates(*chosen((part == name) & (role == "enrol")))
        probes[group] = chosen((part == name) & (role == "probe"))
        mated[group] = _across(enrolled[group], probes[group])
        others[group] = nonmated(number, enrolled[group], probes[group])

    a, b = mated_pairs(train[1])
    mated["Ftr-Ftr"] = Mated(dots(train[0], a, train[0], b), train[1][a])
    mated["Ftr-Fev"] = _across(train, evaluated)
    a, b = mated_pairs(evaluated[1])
    mated["Fev-Fev"] = Mated(dots(evaluated[0], a, evaluated[0], b), evaluated[1][a])
    linked = templates(*train)
    mated[AVERAGED] = _across(linked, evaluated)
    others[AVERAGED] = nonmated(4, linked, evaluated)
    others["FtrxFtr"] = nonmated(5, train)
    others["FevxFev"] = nonmated(6, evaluated)
    others["FtrxFev"] = nonmated(7, train, evaluated)

    strangers = [enrolled["R"], enrolled["T"], templates(*chosen(part == DISTRACTOR))]
    before, after = _gallery([*strangers, linked]), _gallery([*strangers, templates(*evaluated)])
    for group, probe in {**probes, "Ftr": evaluated}.items():
        searches[group] = _mated_searches(*search(*probe, *before), probe[1])
    own, best = leave_one_out(*evaluated), search(*evaluated, *after)[1]
    searches["Fev"] = _mated_searches(own, best, evaluated[1])  # a lone image has no template that does not hold it
    alarms = {
        name: Mated(search(*development, *gallery)[1], development[1])
        for name, gallery in (("D", before), ("Dev", after))
    }
    return Comparisons(nonmated(0, development), mated, others, searches, alarms, seed)


def _across(first: tuple[Units, Codes], second: tuple[Units, Codes]) -> Mated:
    a, b = mated_across(first[1], second[1])
    return Mated(dots(first[0], a, second[0], b), first[1][a])


def _mated_searches(own: Scores, best: Scores, subjects: Codes) -> Searches:
    there = own > -math.inf
    return Searches(own[there], best[there], subjects[there])


def _gallery(parts: Sequence[tuple[Units, Codes]]) -> tuple[Units, Codes]:
    return np.concatenate([units for units, _ in parts]), np.concatenate([codes for _, codes in parts])
