"""The vectors of one model by what they do in the protocol: single images, templates and probes."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.comparing import templates
from damnatio.evaluation.pairings import Vectors
from damnatio.evaluation.scanning import Units, on_grid
from damnatio.protocol import roles
from damnatio.protocol.roles import Mask, Members
from damnatio.support.tables import codes_of

KEPT = {"R": (roles.RETAIN_ENROL, roles.RETAIN_PROBE), "T": (roles.TEST_ENROL, roles.TEST_PROBE)}
"""groups of people who must stay recognised and have templates: the roles that enrol and that probe"""


@dataclass(frozen=True)
class Named(Vectors):
    """Vectors with names: that of the image of each, and that of its identity. A template has the name of its identity
    twice."""

    names: NDArray[np.object_]
    people: NDArray[np.object_]


class Sets:
    """`units[i]` is the embedding of the i-th image of `members`. A set is made when it is asked for, with its
    components on the grid of `scanning`."""

    def __init__(self, units: Units, members: Members) -> None:
        self.units, self.members = units, members
        self.names, self.identities = members.images, members.identities
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
        return self.chosen(self.members.has(roles.SEEN))

    @cached_property
    def evaluated(self) -> Named:
        return self.chosen(self.members.has(roles.NEW))

    @cached_property
    def development(self) -> Named:
        return self.chosen(self.members.has(roles.DEVELOPMENT))

    @cached_property
    def test(self) -> Named:
        return self.chosen(self.members.has(*KEPT["T"]))

    @cached_property
    def bystanders(self) -> Named:
        return self.chosen(self.members.bystanders)

    @cached_property
    def probes(self) -> dict[str, Named]:
        return {group: self.chosen(self.members.has(probe)) for group, (_, probe) in KEPT.items()}

    # --- templates --------------------------------------------------------------------------------------------------

    @cached_property
    def kept(self) -> dict[str, Named]:
        return {group: self.enrolled(self.chosen(self.members.has(enrol))) for group, (enrol, _) in KEPT.items()}

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
        return self.enrolled(self.chosen(self.members.has(roles.DISTRACTOR)))
