"""The vectors of one model by what they do in the protocol: single images, templates and probes."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.comparing import templates
from damnatio.evaluation.pairings import Vectors
from damnatio.evaluation.scanning import Units, on_grid
from damnatio.partitions import DEVELOPMENT, DISTRACTOR, ENROL, EVAL, PROBE, RETAIN, TEST, TRAIN, Partitions
from damnatio.support.tables import codes_of

Mask = NDArray[np.bool_]
KEPT = {"R": RETAIN, "T": TEST}
"""groups of people who must stay recognised and have templates, and their partitions"""


@dataclass(frozen=True)
class Named(Vectors):
    """Vectors with names: that of the image of each, and that of its identity. A template has the name of its identity
    twice."""

    names: NDArray[np.object_]
    people: NDArray[np.object_]


class Sets:
    """`units[i]` is the embedding of the image that has row i in the table of `members`. A set is made when it is asked
    for, with its components on the grid of `scanning`."""

    def __init__(self, units: Units, members: Partitions, scale: str) -> None:
        self.units, self.members, self.scale = units, members, scale
        self.names, self.identities = members.table["image"], members.table["identity"]
        self.codes, self.people = codes_of(self.identities)

    def chosen(self, mask: Mask) -> Named:
        return Named(on_grid(self.units[mask]), self.codes[mask], self.names[mask], self.identities[mask])

    def enrolled(self, vectors: Named) -> Named:
        """One template per identity."""
        made, whose = templates(vectors.units, vectors.codes)
        return Named(made, whose, self.people[whose], self.people[whose])

    # --- single images ----------------------------------------------------------------------------------------------

    @cached_property
    def train(self) -> Named:
        return self.chosen(self.members.in_forget_set(self.scale, TRAIN))

    @cached_property
    def evaluated(self) -> Named:
        return self.chosen(self.members.in_forget_set(self.scale, EVAL))

    @cached_property
    def development(self) -> Named:
        return self.chosen(self.members.has(DEVELOPMENT))

    @cached_property
    def test(self) -> Named:
        return self.chosen(self.members.has(TEST))

    @cached_property
    def bystanders(self) -> Named:
        return self.chosen(self.members.bystanders(self.scale))

    @cached_property
    def probes(self) -> dict[str, Named]:
        return {group: self.chosen(self.members.has(name, PROBE)) for group, name in KEPT.items()}

    # --- templates --------------------------------------------------------------------------------------------------

    @cached_property
    def kept(self) -> dict[str, Named]:
        return {group: self.enrolled(self.chosen(self.members.has(name, ENROL))) for group, name in KEPT.items()}

    @cached_property
    def linked(self) -> Named:
        """Of the forget-train images."""
        return self.enrolled(self.train)

    def gallery(self, forget: Named) -> Vectors:
        """The templates of everybody in the gallery, with these of the forget identities."""
        everybody = [*self.kept.values(), self._distractors, forget]
        return Vectors(np.concatenate([s.units for s in everybody]), np.concatenate([s.codes for s in everybody]))

    @cached_property
    def _distractors(self) -> Named:
        return self.enrolled(self.chosen(self.members.has(DISTRACTOR)))
