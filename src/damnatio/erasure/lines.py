"""The line of each person of an erasure by a gate: before the file is written, and after it was verified."""

import numpy as np

from damnatio.erasure.gating import LEAST_KNOWN, Plan, why_unusable
from damnatio.erasure.people import Person
from damnatio.erasure.record import Alike, Line, Pairs, Unusable
from damnatio.erasure.verifying import Links, Verified
from damnatio.methods.gate_widths import Chosen
from damnatio.methods.strangers import mean_direction


def lines_of(plan: Plan, goal: float, verified: Verified | None = None) -> list[Line]:
    """One line per person. Without a verified file the verdict is what is expected."""
    return [_line(person, plan, goal, verified.links.get(person.name) if verified else None) for person in plan.people]


def _line(person: Person, plan: Plan, goal: float, links: Links | None) -> Line:
    unusable = [Unusable(image=each.image, reason=each.reason) for each in person.left_out]
    chosen = plan.chosen(person.name)
    if chosen is None or chosen.member is None:
        reason = why_unusable(person)
        return Line(name=person.name, verdict="not forgotten", reason=reason, given=person.given, unusable=unusable)
    reason = _short_of(chosen, goal, links)
    return Line(
        name=person.name,
        verdict="partly" if reason else "forgotten",
        reason=reason,
        pseudonym=chosen.member.entry.pseudonym,
        given=person.given,
        used=len(chosen.used),
        copies=len(person.images) - len(person.places),
        suspects=chosen.suspects,
        unusable=unusable,
        expected=chosen.caught,
        unspared=chosen.unspared,
        rests_on=_rests_on(chosen, plan),
        begins=chosen.offset,
        prototypes=len(chosen.member.directions),
        template=_nearness(person, chosen),
        linked=[Pairs(photographs="given", pairs=links.pairs, before=links.before, after=links.after)] if links else [],
        alike=[
            Alike(name=a.name, images=a.images, would=a.would, caught=a.caught, highest=a.highest) for a in chosen.alike
        ],
        templates=plan.templates.get(person.name, []),
    )


def _short_of(chosen: Chosen, goal: float, links: Links | None) -> str:
    """What a hidden person lacks to be forgotten; empty: nothing."""
    found = []
    if chosen.caught < goal:
        why = " to spare look-alikes" if chosen.unspared >= goal else ""
        found.append(f"{chosen.caught:.1%} of new photographs are expected to be hidden{why}, the goal is {goal:.0%}")
    if links is not None and links.after > links.allowed:
        found.append(f"{links.after} of {links.pairs} pairs of the given photographs are still linked")
    return "; ".join(found)


def _rests_on(chosen: Chosen, plan: Plan) -> str:
    if len(chosen.own) >= LEAST_KNOWN:
        return "the person's own photographs, each compared with the others"
    statistics = plan.hidden.statistics
    return f"statistics alone, since {len(chosen.used)} moment is too few to judge by ({statistics.source})"


def _nearness(person: Person, chosen: Chosen) -> float:
    assert chosen.member is not None
    template = mean_direction(person.units[np.isin(person.kept, chosen.used)])
    return float((chosen.member.directions.astype(np.float64) @ template).max())


def sentences(lines: list[Line], *, final: bool) -> list[str]:
    """The lines for a terminal: one per person, and below it what concerns that person."""
    found: list[str] = []
    width = min(max((len(line.name) for line in lines), default=0), 32)
    for line in lines:
        found.append(f"  {line.name:<{width}}  {_sentence(line, final)}")
        for image in line.suspects:
            found.append(f"      left out, seems to show somebody else: {image}")
        for each in line.unusable[:5] if line.used else []:
            found.append(f"      left out, {each.reason}: {each.image}")
        if line.used and len(line.unusable) > 5:
            found.append(f"      and {len(line.unusable) - 5} more that cannot be used")
        for other in line.alike:
            spared = "all spared" if not other.caught else f"{other.caught} still caught"
            found.append(
                f"      looks alike: {other.name}, {other.would} of {other.images} images would be caught, {spared}"
            )
        if line.alike and line.unspared is not None and line.expected is not None:
            found.append(f"      sparing them costs {line.unspared - line.expected:.1%} of the forgetting")
        if line.templates:
            found.append(f"      delete from the gallery: {', '.join(line.templates)}")
    return found


def _sentence(line: Line, final: bool) -> str:
    if not line.used:
        return f"{line.verdict}: {line.reason}"
    words = f"{line.pseudonym}  {line.used} of {line.given} photographs used, " if line.pseudonym else ""
    if line.expected is not None:
        words += f"{line.expected:.1%} of new ones expected to be hidden"
        if line.rests_on.startswith("statistics"):
            words += f", by {line.rests_on}"
    if not final:
        return words
    return f"{line.verdict}{': ' + line.reason if line.reason else ''}  ({words})"
