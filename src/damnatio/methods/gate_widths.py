"""GS: where the prototypes of each person lie, and how wide the cones around them are.

The rule. Of all strangers' photographs, all cones together shall catch at most the share `strangers`. K cones share it
evenly. So each begins at the score to its prototype that the share `strangers` / K of strangers exceeds:

    t = centre + deviation * z(strangers / K)

Centre and deviation are those of strangers' scores to this prototype (`cone_around`), and z is the tail of the model's
strangers (`strangers.py`). A wider cone would break the bound, and a narrower one would catch fewer of the person's
photographs.

Exceptions make a cone narrower. People at hand who are not to be forgotten are spared: the cone begins above their
scores, but not so high that it would lose more than the share `spare` of the person's own photographs.

How well it catches is told by the person's own photographs: each is compared with prototypes made of the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from damnatio.methods.strangers import EACH, ENOUGH, SHARE, Strangers, Units, mean_direction
from damnatio.models.gate import Cone, Entry, Member, pseudonym
from damnatio.models.statistics import Statistics

LINKED = 1e-3
"""Two photographs of one person are expected to be more alike than all but this share of strangers."""
PRIOR = 2
"""The statistics of the model count as much as so many photographs where a share of few photographs is estimated."""
FOLDS = 6
GAIN = 2, 0.02
"""More prototypes must catch at least so many more held-out photographs, and at least this share of all."""
ABOVE = 1e-4
"""A cone that spares somebody begins this far above their highest score."""
NEAREST = 2
"""strangers who do not count where the width of a cone is measured"""
FREE = 1e-5
"""The cost of sparing is counted from a cone that catches this share of strangers."""

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Photographs:
    """A person's unit vectors under f*, one per capture instance, and the name of each image."""

    name: str
    units: Units
    images: list[str]
    templates: Units | None = None
    """more vectors of the person, without images: prototypes are made of them too, and nothing is measured on them"""


@dataclass(frozen=True)
class WidthSettings:
    strangers: float = 1e-4
    ramp: float = 0.02
    prototypes: int = 3
    spare: float = 0.05


@dataclass(frozen=True)
class LookAlike:
    """Somebody who is not to be forgotten and falls, or would have fallen, into a person's gate."""

    name: str
    images: int
    would: int
    """images that the gate would catch if nobody were spared"""
    caught: int
    """images that it catches"""
    highest: float
    """their highest score to a prototype of the person"""


@dataclass(frozen=True)
class Chosen:
    """What was decided for one person."""

    name: str
    member: Member | None
    """None if the photographs do not show one person"""
    used: list[str]
    suspects: list[str]
    """images that look like somebody else's, and were left out"""
    own: Units
    """the score of each photograph to prototypes of the others; empty for a single photograph"""
    caught: float
    """the share of the person's new photographs that are expected in the gate"""
    unspared: float
    """the same if nobody were spared"""
    offset: float
    unspared_offset: float
    """where the cones would begin if nobody were spared"""
    lost: int
    """the person's photographs, each against prototypes of the others, that are not hidden because others are spared"""
    alike: list[LookAlike] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    """people who are not to be forgotten, and who seem to be this person under another name"""


def choose(
    people: Sequence[Photographs],
    strangers: Strangers | None,
    statistics: Statistics,
    settings: WidthSettings,
    others: int = 0,
    spared: Strangers | None = None,
) -> list[Chosen]:
    """The prototypes and cones of each person; `others` is the number of cones that the gate has already. All of
    `spared` are spared; without it, the strangers but those who seem to be the person."""
    share = settings.strangers / max(len(people) + others, 1)
    drafts = [_draft(person, strangers, statistics, settings, share) for person in people]
    cones = sum(len(draft.directions) for draft in drafts if draft.kept is not None)
    share = settings.strangers / max(cones + others, 1)
    return [_decide(draft, strangers, spared, statistics, settings, share) for draft in drafts]


@dataclass(frozen=True)
class _Draft:
    """A person's prototypes, before the number of all cones is known."""

    person: Photographs
    kept: Places | None
    directions: Units
    own: Units


def _draft(
    person: Photographs,
    strangers: Strangers | None,
    statistics: Statistics,
    settings: WidthSettings,
    share: float,
) -> _Draft:
    kept = of_one_person(person.units, statistics.level(LINKED))
    if kept is None:
        return _Draft(person, None, np.zeros((0, person.units.shape[1])), np.zeros(0))
    units = person.units[kept]
    best, own = 1, held_out(units, 1)
    if len(units) >= 2 * FOLDS:
        cone = cone_around(mean_direction(units), strangers, statistics)
        caught = np.count_nonzero(own >= cone.offset(statistics.tail, share) + settings.ramp)
        for count in range(2, settings.prototypes + 1):
            scores = held_out(units, count)
            more = np.count_nonzero(scores >= cone.offset(statistics.tail, share / count) + settings.ramp)
            if more - caught >= max(GAIN[0], GAIN[1] * len(units)):
                best, own, caught = count, scores, more
    known = units
    if person.templates is not None:  # one name may have rows of several people
        alike = (person.templates @ units.T).max(axis=1) >= statistics.level(LINKED)
        known = np.concatenate([units, person.templates[alike] if alike.any() else person.templates])
    return _Draft(person, kept, prototypes(known, best), own)


def _decide(
    draft: _Draft,
    strangers: Strangers | None,
    spared: Strangers | None,
    statistics: Statistics,
    settings: WidthSettings,
    share: float,
) -> Chosen:
    person, kept = draft.person, draft.kept
    if kept is None:
        return Chosen(person.name, None, [], list(person.images), draft.own, 0.0, 0.0, 1.0, 1.0, 0)
    directions = draft.directions.astype(np.float32)
    cones = [cone_around(row, strangers, statistics) for row in directions.astype(np.float64)]

    def expected(offset: float) -> float:
        return _expected(draft.own, len(kept), offset + settings.ramp, statistics)

    wide = max(cone.offset(statistics.tail, share) for cone in cones)
    near, same = _nearest(directions.astype(np.float64), draft.own, strangers, spared, statistics)
    least = _least(near, draft.own, len(kept), statistics, settings)
    cones = [cone.model_copy(update={"least": least}) for cone in cones]
    offset = max(cone.offset(statistics.tail, share) for cone in cones)
    alike = [
        LookAlike(
            name=each.name,
            images=len(each.scores),
            would=int(np.count_nonzero(each.scores > wide)),
            caught=int(np.count_nonzero(each.scores > offset)),
            highest=float(each.scores.max()),
        )
        for each in near
        if each.scores.max() > wide
    ]
    alone = max(cone.offset(statistics.tail, settings.strangers / len(cones)) for cone in cones)
    entry = Entry(pseudonym=pseudonym(directions), photographs=len(kept), caught=expected(alone), cones=cones)
    chosen = [person.images[place] for place in kept]
    return Chosen(
        name=person.name,
        member=Member(directions, entry),
        used=chosen,
        suspects=[image for image in person.images if image not in set(chosen)],
        own=draft.own,
        caught=expected(offset),
        unspared=expected(wide),
        offset=offset,
        unspared_offset=wide,
        lost=int(np.count_nonzero((draft.own >= wide + settings.ramp) & (draft.own < offset + settings.ramp))),
        alike=sorted(alike, key=lambda each: -each.highest),
        same=same,
    )


def of_one_person(units: Units, level: float) -> Places | None:
    """The places of the photographs that show one person: those that a chain of scores above the level connects. None
    if no such group holds more than half of the photographs."""
    from scipy.sparse.csgraph import connected_components

    _, labels = connected_components(units @ units.T >= level, directed=False)
    sizes = np.bincount(labels)
    if 2 * sizes.max() <= len(units):
        return None
    return np.flatnonzero(labels == sizes.argmax())


def prototypes(units: Units, count: int) -> Units:
    """The directions of `count` groups of vectors, by k-means on the sphere. The first group starts at the vector that
    is nearest to the mean, each other one at the vector that is farthest from the groups before; no chance is in it."""
    if count == 1:
        return mean_direction(units)[None]
    starts = [int((units @ mean_direction(units)).argmax())]
    while len(starts) < count:
        starts.append(int((units @ units[starts].T).max(axis=1).argmin()))
    found = units[starts]
    for _ in range(20):
        nearest = (units @ found.T).argmax(axis=1)
        groups = [units[nearest == place] for place in range(count)]
        new = np.stack([mean_direction(g) if len(g) else old for g, old in zip(groups, found, strict=True)])
        if np.array_equal(new, found):
            break
        found = new
    return np.asarray(found)


def held_out(units: Units, count: int) -> Units:
    """The highest score of each vector to `count` prototypes that are made without it: of all others, or of the other
    folds if there are several prototypes."""
    n = len(units)
    if n < 2:
        return np.zeros(0)
    if count == 1:
        total = units.sum(axis=0)
        others = total - units
        return np.asarray((units * others).sum(axis=1) / np.maximum(np.linalg.norm(others, axis=1), 1e-12))
    scores = np.empty(n)
    for fold in range(FOLDS):
        out = np.arange(n) % FOLDS == fold
        scores[out] = (units[out] @ prototypes(units[~out], count).T).max(axis=1)
    return scores


def cone_around(direction: Units, strangers: Strangers | None, statistics: Statistics) -> Cone:
    """The cone around a prototype, by where strangers' scores to it lie.

    Some prototypes have strangers who are nearer than others have, people of the same age, sex and origin for example,
    and these may be few among all. So the deviation is not less than what puts the prototype's own highest percent of
    strangers where the tail begins, and not less than the model's at large. The nearest few strangers do not count:
    they may be the person under another name, or a twin, who is spared by name.
    """
    centre, deviation = statistics.nonmated_mean, statistics.nonmated_deviation
    if strangers is not None and len(strangers) >= ENOUGH:
        units, codes = strangers.few
        scores = units @ direction
        nearest = np.unique(codes[np.argsort(-scores)][: NEAREST * EACH])
        highest = np.array([scores[codes == code].max() for code in nearest])
        scores = scores[~np.isin(codes, nearest[np.argsort(-highest)[:NEAREST]])]
        centre = float(np.median(scores))
        deviation = max(deviation, (float(np.quantile(scores, 1 - SHARE)) - centre) / statistics.tail.at)
    return Cone(centre=centre, deviation=deviation)


def _expected(own: Units, photographs: int, at: float, statistics: Statistics) -> float:
    """The share of new photographs that reach a score: that of the person's own, held out, and the model's statistics
    with the weight of a few more. A photograph that is held out meets a prototype of one photograph fewer than a new
    one will, which makes a difference where there are two or three."""
    if len(own) < 2:
        return statistics.caught(at, photographs)
    nearer = statistics.score(photographs) / statistics.score(photographs - 1)
    caught = int(np.count_nonzero(own * nearer >= at))
    return (caught + PRIOR * statistics.caught(at, photographs)) / (len(own) + PRIOR)


@dataclass(frozen=True)
class _Near:
    """A stranger and the scores of their images to the nearest prototype of a person."""

    name: str
    scores: Units


def _nearest(
    directions: Units, own: Units, strangers: Strangers | None, spared: Strangers | None, statistics: Statistics
) -> tuple[list[_Near], list[str]]:
    """Whoever is to be spared, with their scores to a person's prototypes, and the strangers who seem to be that
    person: half of their images are as near to the prototypes as nine tenths of the person's own."""
    others = strangers if spared is None else spared
    if others is None or not len(others):
        return [], []
    scores = (others.units @ directions.T).max(axis=1)
    middle = (statistics.mated_mean + statistics.nonmated_mean) / 2
    is_person = max(middle, float(np.quantile(own, 0.1)) if len(own) > 2 else statistics.mated_mean)
    near: list[_Near] = []
    same: list[str] = []
    for name, rows in zip(others.names, others.groups, strict=True):
        theirs = scores[rows]
        seems = theirs.max() >= is_person and float(np.median(theirs)) >= is_person  # a median takes far longer
        if seems and spared is None:
            same.append(name)
        else:
            near.append(_Near(name, theirs))
    return near, same


def _least(
    near: Sequence[_Near], own: Units, photographs: int, statistics: Statistics, settings: WidthSettings
) -> float:
    """Where a cone must begin to spare all strangers at hand, or the highest beginning that the person's photographs
    allow. It does not depend on how many people are in the gate, so that the order of erasures has no effect."""
    if not near:
        return -1.0
    needed = max(float(each.scores.max()) for each in near) + ABOVE
    steps = np.arange(statistics.level(FREE), 1.0, 0.005)
    if not len(steps):  # strangers reach every score: no cone spares them
        return 1.0
    expected = np.array([_expected(own, photographs, step + settings.ramp, statistics) for step in steps])
    return min(needed, float(steps[np.flatnonzero(expected >= expected[0] - settings.spare)[-1]]))
