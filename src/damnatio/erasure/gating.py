"""The plan of an erasure by a gate: who is hidden how well, who looks alike, and the gate. Nothing is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from damnatio.erasure import refusals
from damnatio.erasure.people import Person
from damnatio.erasure.questions import Ask, Settled, questions, settled
from damnatio.erasure.request import GALLERY, Request
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
    spared: Strangers
    """those of them for whom cones were made narrower"""
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
    aliases: Sequence[str] = (),
    answers: Settled | None = None,
) -> Plan:
    """Decide everything. What cannot work is an error. Without answers nobody is spared. Templates in a gallery under a
    person's own name, an alias, or a name that was said to be the person are no strangers."""
    usable = [person for person in people if person.kept]
    if not usable:
        reasons = "; ".join(f"{person.name}: {why_unusable(person)}" for person in people[:5])
        raise DamnatioError(f"Nobody can be hidden, so nothing is written: {reasons}.")
    refusals.need_dimension(dim)
    refusals.need_cosine(usable, strangers)
    same = answers.same if answers else {}
    templates = _own_templates(usable, strangers, aliases, same)
    everyone, strangers = strangers, _without(strangers, {name for names in templates.values() for name in names})
    fit, report = parted(strangers) if strangers is not None else (None, None)
    assumed = fit is None or len(fit) < ENOUGH
    spread = refusals.need_assumed_spread(usable, statistics or COSINE) if assumed else ""
    refusals.need_different_prototypes(usable)
    if gate is not None:
        refusals.need_nobody_twice(usable, gate)
    shown = []
    for person in usable:
        more = everyone.only({name for name, whose in same.items() if whose == person.name}) if everyone else None
        shown.append(Photographs(person.name, person.units, person.kept, more.units if more else None))
    nobody = Strangers(np.zeros((0, dim)), np.zeros(0, np.int64), [])

    def hide(spared: Strangers) -> Hidden:
        return method.hide(Known(shown, fit, dim, seed, spared), statistics, gate)

    unasked = set(answers.open) if answers else set()
    spared = (_without(strangers, unasked) if answers else None) or nobody
    hidden = hide(spared)
    refusals.need_one_person_each(hidden.chosen)
    assert hidden.gate is not None  # everybody has a cone
    refusals.need_different_people(usable, hidden.chosen, hidden.gate)
    fitted = hide(_without(fit, unasked) or nobody).gate if answers and report else hidden.gate
    assert fitted is not None
    before = [entry.pseudonym for entry in gate.record.people] if gate else []
    warnings = [*([spread] if spread else []), *_warnings(usable, fit, hidden), *_unasked(sorted(unasked))]
    return Plan(people, strangers, spared, hidden, hidden.gate, report, fitted, before, templates, warnings)


def settle(request: Request, planned: Plan, ask: Ask | None) -> Settled:
    """The answers to whoever may be a person to forget, by a plan that spares nobody."""
    found = questions(planned.people, planned.hidden.chosen, planned.strangers, planned.hidden.statistics)
    return settled(found, planned.strangers, [person.name for person in planned.people], request, ask)


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


def _own_templates(
    people: Sequence[Person], strangers: Strangers | None, aliases: Sequence[str], same: Mapping[str, str]
) -> dict[str, list[str]]:
    """By person: the names in galleries that are the person's, as the search for the person understands names."""
    own = [(person.name, Names([person.name])) for person in people] + [(people[0].name, Names(aliases))]
    anybody = Names([*(person.name for person in people), *aliases])
    found: dict[str, list[str]] = {}
    for name in strangers.names if strangers is not None else []:
        bare = name.removeprefix(f"{GALLERY}/")
        if name in same:
            found.setdefault(same[name], []).append(name)
        elif bare != name and anybody.match(bare) is not None:
            found.setdefault(next(whose for whose, names in own if names.match(bare) is not None), []).append(name)
    return found


def _without(strangers: Strangers | None, names: set[str]) -> Strangers | None:
    """The strangers without those of these names; None if nobody is left."""
    return strangers.only(set(strangers.names) - names) if strangers is not None and names else strangers


def _unasked(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    few = f"{', '.join(names[:5])}{' and others' if len(names) > 5 else ''}"
    return [
        f"{len(names)} of RETAIN or the bystanders resemble a person to forget as 1 in 10,000 strangers does, and less "
        f"than photographs of one person do: they are not spared ({few}). --not-same NAME spares them."
    ]


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
