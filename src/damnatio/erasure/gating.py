"""The plan of an erasure by a gate: who is hidden how well, who looks alike, and the gate. Nothing is written."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from damnatio.erasure import refusals
from damnatio.erasure.people import Person
from damnatio.erasure.request import GALLERY
from damnatio.galleries.finding import Names
from damnatio.methods.closed_form import Known
from damnatio.methods.gate_and_scatter import GateAndScatter, Hidden
from damnatio.methods.gate_widths import Chosen, Photographs
from damnatio.methods.strangers import COSINE, ENOUGH, Strangers, parted
from damnatio.models.gate import Gate
from damnatio.models.statistics import Statistics
from damnatio.support.errors import DamnatioError

NEAR = 0.15
"""All photographs of a stranger are looked at if one of them is this near to a cone, or nearer."""
UNLIKE = 0.5
"""RETAIN is unlike the people if mean scores differ by more than so many deviations."""


@dataclass(frozen=True)
class Plan:
    """The decisions for everybody whom the request names."""

    people: list[Person]
    strangers: Strangers | None
    """all at hand, without the people themselves"""
    hidden: Hidden
    gate: Gate
    report: Strangers | None
    """the half of the strangers that `fitted` was not made from; None if there are too few to halve"""
    fitted: Gate
    """the gate before anybody of that half was spared: it catches as many strangers as `gate`, or more, so the share of
    `report` in it is a bound that no choice of ours made lower"""
    before: list[str]
    """pseudonyms of those whom the model hid before"""
    templates: dict[str, list[str]]
    """by person: names in the gallery under which the person's own templates are, to be deleted there"""
    warnings: list[str]

    def chosen(self, name: str) -> Chosen | None:
        return next((each for each in self.hidden.chosen if each.name == name), None)


def plan(
    method: GateAndScatter,
    people: list[Person],
    strangers: Strangers | None,
    *,
    dim: int,
    seed: int,
    statistics: Statistics | None,
    gate: Gate | None,
    aliases: Sequence[str] | None = None,
) -> Plan:
    """Decide everything. What cannot work is an error. With `aliases`, other names of the people, templates in a
    gallery will be deleted: somebody there who seems to be one of the people is no stranger, and no error."""
    usable = [person for person in people if person.kept]
    if not usable:
        reasons = "; ".join(f"{person.name}: {why_unusable(person)}" for person in people[:5])
        raise DamnatioError(f"Nobody can be hidden, so nothing is written: {reasons}.")
    refusals.need_dimension(dim)
    refusals.need_cosine(usable, strangers)
    strangers, templates = _without_own_templates(usable, strangers, aliases)
    fit, report = parted(strangers) if strangers is not None else (None, None)
    if fit is None or len(fit) < ENOUGH:
        refusals.need_assumed_spread(usable, statistics or COSINE)
    refusals.need_different_prototypes(usable)
    if gate is not None:
        refusals.need_nobody_twice(usable, gate)
    shown = [Photographs(person.name, person.units, person.kept) for person in usable]
    hidden = method.hide(Known(shown, fit, dim, seed, strangers), statistics, gate)
    same = _under_other_names(hidden) if aliases is not None else {}
    if same and strangers is not None:
        strangers = _without(strangers, set(same))
        fit, report = (_without(half, set(same)) if half else None for half in (fit, report))
        hidden = method.hide(Known(shown, fit, dim, seed, strangers), statistics, gate)
    refusals.need_one_person_each(hidden.chosen)
    refusals.need_nobody_retained(hidden.chosen)
    assert hidden.gate is not None  # everybody has a cone
    refusals.need_different_people(usable, hidden.chosen, hidden.gate)
    fitted = method.hide(Known(shown, fit, dim, seed), statistics, gate).gate if report else hidden.gate
    assert fitted is not None
    before = [entry.pseudonym for entry in gate.record.people] if gate else []
    warnings = [
        f"{name} seems to be {whose}: a candidate of the plan, who is not spared." for name, whose in same.items()
    ]
    warnings += _warnings(usable, fit, hidden)
    return Plan(people, strangers, hidden, hidden.gate, report, fitted, before, templates, warnings)


def near(planned: Plan) -> list[str]:
    """The strangers who come near a cone of the plan, if any of their photographs at hand does."""
    if planned.strangers is None:
        return []
    members = [each.member for each in planned.hidden.chosen if each.member is not None]
    directions = np.concatenate([member.directions for member in members]).astype(np.float64)
    begins = np.concatenate(
        [np.full(len(each.member.directions), each.offset) for each in planned.hidden.chosen if each.member is not None]
    )
    heights = (planned.strangers.units @ directions.T - begins).max(axis=1)
    codes = np.unique(planned.strangers.codes[heights > -NEAR])
    return [planned.strangers.names[code] for code in codes]


def why_unusable(person: Person) -> str:
    """Why no photograph of a person can be used."""
    if not person.left_out:
        return "no image in the folder"
    reasons = list(dict.fromkeys(each.reason for each in person.left_out))
    return f"none of {len(person.left_out)} images can be used ({'; '.join(reasons[:3])})"


def _without_own_templates(
    people: Sequence[Person], strangers: Strangers | None, aliases: Sequence[str] | None
) -> tuple[Strangers | None, dict[str, list[str]]]:
    """A gallery may hold the very people to forget, under their own names: these are no strangers."""
    if strangers is None:
        return None, {}
    own = {f"{GALLERY}/{person.name}": person.name for person in people}
    if aliases is not None:  # as the search for the person understands names
        wanted = Names([*(person.name for person in people), *aliases])
        inside = [name for name in strangers.names if name.startswith(f"{GALLERY}/") and name not in own]
        own |= {name: people[0].name for name in inside if wanted.match(name.removeprefix(f"{GALLERY}/")) is not None}
    found: dict[str, list[str]] = {}
    for name in strangers.names:
        if name in own:
            found.setdefault(own[name], []).append(name)
    return (_without(strangers, set(own)) if found else strangers), found


def _without(strangers: Strangers, names: set[str]) -> Strangers | None:
    """The strangers without those of these names; None if nobody is left."""
    return strangers.only(set(strangers.names) - names)


def _under_other_names(hidden: Hidden) -> dict[str, str]:
    """Names in galleries that seem to be a person to forget, and who it is."""
    inside = f"{GALLERY}/"
    return {name: each.name for each in hidden.chosen for name in each.same if name.startswith(inside)}


def _warnings(people: Sequence[Person], strangers: Strangers | None, hidden: Hidden) -> list[str]:
    """Where the strangers at hand are too few or too unlike to judge by."""
    if strangers is None:
        return [
            f"No strangers were at hand: widths rest on statistics ({hidden.statistics.source}), and nobody who looks "
            "alike could be found or spared."
        ]
    if len(strangers) < ENOUGH:
        return [
            f"{len(strangers)} strangers are too few to measure how strangers' scores lie ({ENOUGH} are needed): "
            f"widths rest on statistics ({hidden.statistics.source}). Look-alikes among these few were spared."
        ]
    mean, deviation = hidden.statistics.nonmated_mean, hidden.statistics.nonmated_deviation
    sums = np.stack([person.units.sum(axis=0) for person in people])
    counts = np.array([len(person.units) for person in people])
    to_strangers = float(sums.sum(axis=0) @ strangers.few[0].mean(axis=0)) / counts.sum()
    found = []
    if abs(to_strangers - mean) > UNLIKE * deviation:
        found.append(
            f"The people to forget score {to_strangers:.3f} with strangers on average, and strangers score {mean:.3f} "
            "with each other: RETAIN is unlike the people, so the share of strangers caught may be another than stated."
        )
    if len(people) > 1:
        pairs = float(counts.sum() ** 2 - np.square(counts).sum())
        across = float(np.square(sums.sum(axis=0)).sum() - np.square(sums).sum()) / pairs
        if across - to_strangers > UNLIKE * deviation:
            found.append(
                f"The people to forget are more alike to each other (mean score {across:.3f}) than to strangers "
                f"({to_strangers:.3f}): RETAIN is unlike the people, and whoever resembles them is more at risk than "
                "the report can show. --bystanders measures people of their own collection."
            )
    return found
