"""The rates of the protocol that the studies show, and no others, so that a trial costs a second.

`damnatio.evaluation` measures far more. A test holds these numbers against it. Whatever a gate leaves untouched is not
computed again.
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.comparing import mated_across, mated_pairs, templates
from damnatio.metrics.distributions import Sample, wasserstein1
from damnatio.metrics.verification import calibrate
from damnatio.partitions import DEVELOPMENT, ENROL, EVAL, PROBE, RETAIN, TEST, TRAIN
from damnatio.support.tables import codes_of

from .choices import POINTS
from .worlds import Rows, Units, World

Row = dict[str, Any]
Scores = NDArray[np.float64]
Side = tuple[Rows, Rows]
"""places of the images that enrol and of those that probe"""


class Judge:
    """Measures models of one world at one scale. It starts from f*."""

    def __init__(self, world: World, scale: str) -> None:
        members = world.members
        self._original = world.units
        self._codes, _ = codes_of(members.table["identity"])
        self._places = {name: np.flatnonzero(members.has(name)) for name in (TEST, DEVELOPMENT, RETAIN)}
        self._sides: dict[str, Side] = {}
        for name in (TEST, RETAIN):
            enrol, probe = (np.flatnonzero(members.has(name, role)) for role in (ENROL, PROBE))
            self._sides[name] = enrol, probe
        self._seen, self._new = (np.flatnonzero(members.in_forget_set(scale, role)) for role in (TRAIN, EVAL))

    @cached_property
    def thresholds(self) -> dict[float, float]:
        """Those of f*."""
        return self._calibrated(self._original)

    @cached_property
    def _strangers(self) -> Sample:
        return self._nonmated(self._original, self._places[TEST])

    @cached_property
    def _retained(self) -> tuple[Sample, Sample]:
        return self._verified(self._original)

    def rates(self, units: Units) -> Row:
        """TMR of the test people and of the forgotten, the distance of new photographs' scores to strangers', and the
        footprint."""
        thresholds = self._calibrated(units) if self._touched(units, DEVELOPMENT) else self.thresholds
        strangers = self._nonmated(units, self._places[TEST]) if self._touched(units, TEST) else self._strangers
        new = self._within(units, self._new)
        groups = {
            "test": self._against_templates(units, *self._sides[TEST]),
            "tr-tr": self._within(units, self._seen),
            "ev-ev": new,
            "averaged": self._against_templates(units, self._seen, self._new),
        }
        row: Row = {
            f"{name} {point:g}": float(np.mean(scores >= thresholds[point])) if len(scores) else float("nan")
            for name, scores in groups.items()
            for point in POINTS
        }
        row["W1 ev-ev"] = wasserstein1(Sample.of(new), strangers)
        row["footprint"] = self._footprint(units)
        return row

    def _touched(self, units: Units, partition: str) -> bool:
        places = self._places[partition]
        return not np.array_equal(units[places], self._original[places])

    def _calibrated(self, units: Units) -> dict[float, float]:
        places = self._places[DEVELOPMENT]
        found = calibrate(self._nonmated_scores(units, places), POINTS)
        return {point.target: point.threshold for point in found}

    def _footprint(self, units: Units) -> float:
        if not self._touched(units, RETAIN):
            return 0.0
        pairs = zip(self._verified(units), self._retained, strict=True)
        return sum(wasserstein1(now, before) for now, before in pairs)

    def _verified(self, units: Units) -> tuple[Sample, Sample]:
        """Mated and non-mated scores of the retain control."""
        enrol, probe = self._sides[RETAIN]
        made, whose = templates(units[enrol], self._codes[enrol])
        scores = made @ units[probe].T
        same = whose[:, None] == self._codes[probe][None, :]
        return Sample.of(scores[same]), Sample.of(scores[~same])

    def _nonmated(self, units: Units, places: Rows) -> Sample:
        return Sample.of(self._nonmated_scores(units, places))

    def _nonmated_scores(self, units: Units, places: Rows) -> Scores:
        """Of single images, every pair once."""
        codes = self._codes[places]
        wanted = np.triu(codes[:, None] != codes[None, :], 1)
        return np.asarray((units[places] @ units[places].T)[wanted])

    def _within(self, units: Units, places: Rows) -> Scores:
        a, b = mated_pairs(self._codes[places])
        return np.asarray(np.einsum("ij,ij->i", units[places][a], units[places][b]))

    def _against_templates(self, units: Units, enrol: Rows, probe: Rows) -> Scores:
        made, whose = templates(units[enrol], self._codes[enrol])
        a, b = mated_across(whose, self._codes[probe])
        return np.asarray(np.einsum("ij,ij->i", made[a], units[probe][b]))
