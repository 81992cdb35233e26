"""Requests that would do harm or nothing: each is refused in one sentence before anything is written."""

from collections.abc import Sequence

import numpy as np

from damnatio.erasure.people import Person
from damnatio.methods.gate_widths import Chosen
from damnatio.methods.strangers import LEAST_DIMENSION, Strangers, Units, mean_direction
from damnatio.models.gate import Gate
from damnatio.models.statistics import Statistics
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import groups_of

APART = 1.0
"""One's own photographs must be more alike than strangers' by so many deviations of strangers' scores."""
WIDER, MUCH_WIDER = 1.5, 2.0
"""Scores of different people that spread so many times wider than assumed are a warning, and even wider an error."""
FEWEST = 3
"""Fewer people than this say nothing of how scores spread."""
EQUAL = 1 - 1e-6
"""the cosine of prototypes that are one and the same"""


def need_dimension(dim: int) -> None:
    if dim < LEAST_DIMENSION:
        raise DamnatioError(
            f"The model's embeddings have {dim} dimensions, and hiding somebody among strangers needs at least "
            f"{LEAST_DIMENSION}: in fewer, two strangers are alike too often."
        )


def need_cosine(people: Sequence[Person], strangers: Strangers | None) -> None:
    """Refuse a model under which nobody's own photographs are more alike than those of different people."""
    groups = [person.units for person in people if len(person.units)]
    if strangers is not None:
        groups += [strangers.units[rows] for rows in list(groups_of(strangers.codes))[:200]]
    several = [group for group in groups if len(group) > 1]
    if len(several) < 2:
        return
    firsts = np.concatenate([group[:5] for group in groups])
    owner = np.repeat(np.arange(len(groups)), [len(group[:5]) for group in groups])
    across = (firsts @ firsts.T)[owner[:, None] != owner[None, :]]
    level = float(across.mean() + APART * across.std())
    own = [float((group @ group.T)[np.triu_indices(len(group), 1)].mean()) for group in several]
    if max(own) < level or float(np.median(own)) <= float(across.mean()):
        raise DamnatioError(
            f"Under this model nobody's own photographs are more alike (cosine {np.median(own):.3f}) than those of "
            f"different people ({across.mean():.3f}): its embeddings are not compared by the cosine, or it is fed "
            "wrongly. `damnatio check MODEL FACES` says more."
        )


def need_assumed_spread(people: Sequence[Person], statistics: Statistics) -> str:
    """Without strangers the widths rest on assumed statistics, which the people themselves can belie: a warning, or an
    error. Empty: neither."""
    groups = [person.units for person in people if len(person.units)]
    if len(groups) < FEWEST:
        return ""
    spreads = [
        float(np.sqrt(np.square(a @ b.T - statistics.nonmated_mean).mean()))
        for place, a in enumerate(groups)
        for b in groups[place + 1 :]
    ]
    found = float(np.median(spreads))
    if found <= WIDER * statistics.nonmated_deviation:
        return ""
    words = (
        f"Scores of different people among those to forget are {found:.3f} from the mean that is assumed, and "
        f"{statistics.nonmated_deviation:.3f} is assumed ({statistics.source}): cones of such widths would catch "
        "strangers. Give RETAIN, or measure the model first: `damnatio check MODEL FACES --card`."
    )
    if found > MUCH_WIDER * statistics.nonmated_deviation:
        raise DamnatioError(words)
    return words


def need_one_person_each(chosen: Sequence[Chosen]) -> None:
    """Refuse folders whose photographs do not show one person."""
    for each in chosen:
        if each.member is None:
            raise DamnatioError(
                f"The photographs of {each.name} do not show one person: no group of faces that are alike holds more "
                f"than half of the {len(each.suspects)}. Sort the folder, or take it out of PEOPLE."
            )


def need_different_prototypes(people: Sequence[Person]) -> None:
    """Refuse two people of the same photographs."""
    usable = [person for person in people if len(person.units)]
    means = np.stack([mean_direction(person.units) for person in usable])
    alike = means @ means.T
    np.fill_diagonal(alike, 0.0)
    if alike.max(initial=0.0) > EQUAL:
        a, b = divmod(int(alike.argmax()), len(usable))
        raise _one(usable[a].name, usable[b].name)


def need_different_people(people: Sequence[Person], chosen: Sequence[Chosen], gate: Gate) -> None:
    """Refuse two people each of whom has most photographs in the other's cones."""
    units = {person.name: person.units[np.isin(person.kept, used_by(chosen, person.name))] for person in people}
    cones = {member.entry.pseudonym: member for member in gate.members()}
    offsets = dict(zip(cones, _offsets(gate), strict=True))
    named = [(each.name, each.member.entry.pseudonym) for each in chosen if each.member is not None]
    for place, (a, of_a) in enumerate(named):
        for b, of_b in named[place + 1 :]:
            if _mostly(units[a], cones[of_b].directions, offsets[of_b]) and _mostly(
                units[b], cones[of_a].directions, offsets[of_a]
            ):
                raise _one(a, b)


def need_nobody_twice(people: Sequence[Person], gate: Gate) -> None:
    """Refuse somebody whom the model hides already."""
    for member, offsets in zip(gate.members(), _offsets(gate), strict=True):
        for person in people:
            if len(person.units) and _mostly(person.units, member.directions, offsets):
                raise DamnatioError(
                    f"The model hides {person.name} already, as {member.entry.pseudonym}: leave the folder out, or "
                    f"take the person out first (--restore {member.entry.pseudonym}) to hide them on other photographs."
                )


def used_by(chosen: Sequence[Chosen], name: str) -> list[str]:
    """The images that a person's prototypes are made of."""
    return next((each.used for each in chosen if each.name == name), [])


def _one(a: str, b: str) -> DamnatioError:
    return DamnatioError(
        f"{a} and {b} seem to be one person: most photographs of each lie where the other's are. Put them into one "
        "folder, or take the wrong one out."
    )


def _offsets(gate: Gate) -> list[Units]:
    """Where the cones of each member begin."""
    ends = np.cumsum([len(entry.cones) for entry in gate.record.people])[:-1]
    return np.split(gate.offsets.numpy().astype(np.float64), ends)


def _mostly(units: Units, directions: "np.typing.NDArray[np.float32]", offsets: Units) -> bool:
    """Whether more than half of the vectors lie in the cones."""
    if not len(units):
        return False
    inside = (units @ directions.astype(np.float64).T > offsets[None]).any(axis=1)
    return 2 * int(inside.sum()) > len(units)
