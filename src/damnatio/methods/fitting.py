"""Gates from arrays: `damnatio.Gate.fit`."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from damnatio.methods.closed_form import Known
from damnatio.methods.gate_and_scatter import GateAndScatter
from damnatio.methods.gate_widths import Chosen, Photographs
from damnatio.methods.strangers import Strangers
from damnatio.models.gate import Gate
from damnatio.support.arrays import plain, unit_rows
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import codes_of, groups_of


@dataclass(frozen=True)
class FittedPerson:
    """One person, by the name that the caller gave, and the places of photographs in the caller's array."""

    name: str
    pseudonym: str
    """by which the gate knows the person; empty if the person is not in it"""
    used: list[int]
    left_out: list[int]
    """photographs that look like somebody else's"""
    alike: list[str]
    """strangers who are spared, though they look like the person"""
    reason: str = ""
    """why the person is not in the gate; empty if the person is"""


@dataclass(frozen=True)
class Fitted:
    """What was decided when a gate was made. Whether anybody is hidden is a question for photographs that are not
    among these: measure it on others."""

    people: list[FittedPerson]

    @property
    def left_out(self) -> dict[str, str]:
        """Who is not in the gate, and why."""
        return {person.name: person.reason for person in self.people if person.reason}

    def __str__(self) -> str:
        return "\n".join(
            f"{person.name}: {person.reason or f'{len(person.used)} photographs used'}"
            + (f", {len(person.left_out)} left out" if person.left_out and not person.reason else "")
            for person in self.people
        )


def fit(
    photographs: ArrayLike,
    people: ArrayLike,
    *,
    strangers: ArrayLike | None = None,
    stranger_identities: ArrayLike | None = None,
    share: float = 1e-4,
    strict: bool = True,
    seed: int = 0,
) -> Gate:
    """See `damnatio.Gate.fit`."""
    units, codes, names = _people(photographs, people, "photographs", "people")
    others = None
    if strangers is not None:
        if stranger_identities is None:
            raise DamnatioError("strangers wants stranger_identities too: who each of them is.")
        theirs, whose, known = _people(strangers, stranger_identities, "strangers", "stranger_identities")
        if theirs.shape[1] != units.shape[1]:
            raise DamnatioError(f"strangers have {theirs.shape[1]} values, and photographs {units.shape[1]}.")
        others = Strangers(theirs, whose, known)
    if not 0 < share < 0.5:
        raise DamnatioError(f"share: the gate may catch a share of strangers above 0 and below 0.5, not {share}.")
    everyone = [
        Photographs(names[codes[group[0]]], units[group], [str(place) for place in group]) for group in groups_of(codes)
    ]
    method = GateAndScatter(GateAndScatter.Settings(method="GS", strangers=share))
    hidden = method.hide(Known(people=everyone, strangers=others, dim=units.shape[1], seed=seed))
    fitted = Fitted(list(_told(hidden.chosen)))
    wrong = fitted.left_out
    kept = [each.member for each in hidden.chosen if each.member is not None and each.name not in wrong]
    if hidden.gate is None or not kept or (strict and wrong):
        each = "; ".join(f"{name}: {reason}" for name, reason in wrong.items())
        raise DamnatioError(f"{each}. Nobody else is hidden either: strict=False leaves them out.")
    gate = hidden.gate
    gone = {each.member.entry.pseudonym for each in hidden.chosen if each.member is not None} - {
        member.entry.pseudonym for member in kept
    }
    if gone:
        smaller = gate.without(sorted(gone))
        assert smaller is not None
        gate = smaller
    gate.fitted = fitted
    return gate


def _told(chosen: list[Chosen]) -> Iterator[FittedPerson]:
    for each in chosen:
        reason = ""
        if each.member is None:
            reason = "the photographs do not show one person"
        elif each.same:
            reason = f"seems to be {each.same[0]}, who is among the strangers"
        elif each.offset >= 1:
            reason = "strangers are as near as the person's own photographs"
        yield FittedPerson(
            name=each.name,
            pseudonym="" if reason or each.member is None else each.member.entry.pseudonym,
            used=[int(place) for place in each.used],
            left_out=[int(place) for place in each.suspects],
            alike=[other.name for other in each.alike],
            reason=reason,
        )


def _people(
    vectors: ArrayLike, who: ArrayLike, first: str, second: str
) -> tuple[NDArray[np.float64], NDArray[np.int64], list[str]]:
    """Unit vectors, the code of each one's person, and the names by code."""
    names = plain(who)
    if names.ndim != 1 or not len(names):
        raise DamnatioError(f"{second} wants a name for each row of {first}, and has the shape {list(names.shape)}.")
    codes, distinct = codes_of(np.array([str(name) for name in names.tolist()], object))
    return unit_rows(vectors, first, f"an embedding for each of {second}", len(names)), codes, list(map(str, distinct))
