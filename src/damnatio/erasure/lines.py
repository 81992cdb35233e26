"""The line of each person of an erasure by a gate: before the file is written, and after it was verified."""

from collections.abc import Sequence

import numpy as np

from damnatio.erasure.gating import LEAST_KNOWN, Plan, why_unusable
from damnatio.erasure.people import LeftOut, Person
from damnatio.erasure.record import Alike, Line, Pairs, Unusable
from damnatio.erasure.verifying import Links, Verified
from damnatio.methods.gate_widths import Chosen
from damnatio.methods.strangers import mean_direction

LISTED, NAMED = 5, 20
"""the most look-alikes, and files of one reason, that a terminal shows of a person; erasure.json has all"""
STATISTICS = "statistics alone"


def lines_of(plan: Plan, goal: float, verified: Verified | None = None) -> list[Line]:
    """One line per person. Without a verified file the verdict is what is expected."""
    return [_line(person, plan, goal, verified.links.get(person.name) if verified else None) for person in plan.people]


def _line(person: Person, plan: Plan, goal: float, links: Links | None) -> Line:
    chosen = plan.chosen(person.name)
    if chosen is None or chosen.member is None:
        reason = why_unusable(person)
        return Line(
            name=person.name,
            verdict="not forgotten",
            reason=reason,
            given=person.given,
            unusable=unusable(person.left_out),
        )
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
        unusable=unusable(person.left_out),
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


def unusable(left_out: Sequence[LeftOut]) -> list[Unusable]:
    return [Unusable(image=each.image, reason=each.reason) for each in left_out]


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
    return f"{STATISTICS}, since {len(chosen.used)} moment is too few to judge by ({statistics.source})"


def _nearness(person: Person, chosen: Chosen) -> float:
    assert chosen.member is not None
    template = mean_direction(person.units[np.isin(person.kept, chosen.used)])
    return float((chosen.member.directions.astype(np.float64) @ template).max())


def planned(lines: list[Line]) -> list[str]:
    """The plan for a terminal: one line per person, and below it what concerns that person."""
    found: list[str] = []
    for line, title in zip(lines, _titles(lines), strict=True):
        found.append(f"  {title}  {_expectation(line) if line.used else f'{line.verdict}: {line.reason}'}")
        found += [f"      left out, seems to show somebody else: {image}" for image in line.suspects]
        found += left_out(line)
        for other in line.alike[:LISTED]:
            spared = f"{other.caught} still would" if other.caught else "all are spared"
            found.append(
                f"      looks alike: {other.name}, {other.would} of {other.images} images would be hidden, {spared}"
            )
        if len(line.alike) > LISTED:
            found.append(f"      and {len(line.alike) - LISTED} more who look alike")
        if line.alike and line.unspared is not None and line.expected is not None:
            found.append(f"      sparing them costs {line.unspared - line.expected:.1%} of new photographs")
        if line.templates:
            found.append(f"      delete from the gallery: {', '.join(line.templates)}")
    return found


def left_out(line: Line) -> list[str]:
    """The files of a person that cannot be used, one line per reason."""
    images: dict[str, list[str]] = {}
    for each in line.unusable:
        images.setdefault(each.reason, []).append(each.image)
    return [
        f"      left out, {reason}: {', '.join(some[:NAMED])}"
        + (f" and {len(some) - NAMED} more" if len(some) > NAMED else "")
        for reason, some in images.items()
    ]


def _expectation(line: Line) -> str:
    words = f"{line.pseudonym}  {line.used} of {line.given} photographs used"
    words += f" ({line.copies} of the same moment as another)" if line.copies else ""
    words += f", {line.expected:.1%} of new ones expected to be hidden"
    return f"{words}, by {line.rests_on}" if line.rests_on.startswith(STATISTICS) else words


def outcome(lines: list[Line]) -> list[str]:
    """The outcome for a terminal: one line per person."""
    found = []
    for line, title in zip(lines, _titles(lines), strict=True):
        words = [line.reason] if line.reason else []
        if line.used:
            words.append(f"{line.used} of {line.given} photographs used")
        for pairs in (each for each in line.linked if each.pairs):
            words.append(f"{pairs.after} of {pairs.pairs} pairs of {pairs.photographs} photographs linked")
        found.append(f"  {title}  {line.verdict}: {', '.join(words)}")
    return found


def _titles(lines: list[Line]) -> list[str]:
    width = min(max((len(line.name) for line in lines), default=0), 32)
    return [f"{line.name:<{width}}" for line in lines]
