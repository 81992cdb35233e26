"""The line of each person of an erasure by a gate: before the file is written, and after it was verified."""

from collections.abc import Sequence

import numpy as np

from damnatio.erasure.gating import Plan, why_unusable
from damnatio.erasure.people import LeftOut, Person
from damnatio.erasure.record import Alike, Line, Pairs, Unusable
from damnatio.erasure.verdict import FORGOTTEN, NOT, Judged, OnModel, on_model, on_person, upper
from damnatio.erasure.verifying import Links, Verified
from damnatio.methods.gate_widths import Chosen
from damnatio.methods.strangers import mean_direction
from damnatio.models.gate import Gate
from damnatio.models.statistics import Held, Touched

LISTED, NAMED = 5, 20
"""the most look-alikes, and files of one reason, that a terminal shows of a person; erasure.json has all"""
GIVEN, ASSUMED = "given", "given (at an assumed score)"
UNCALIBRATED = "too few strangers at hand to say from which score on two photographs are linked"


def lines_of(plan: Plan, gate: Gate, verified: Verified | None = None) -> list[Line]:
    """One line per person, by what was measured of the gate. The last verdicts are those of `judged_together`."""
    held = {entry.pseudonym: entry.held for entry in gate.record.people}
    return [_line(person, plan, held, verified.links.get(person.name) if verified else None) for person in plan.people]


def _line(person: Person, plan: Plan, held: dict[str, Held | None], links: Links | None) -> Line:
    chosen = plan.chosen(person.name)
    if chosen is None or chosen.member is None:
        reason = why_unusable(person)
        missing = unusable(person.left_out)
        return Line(name=person.name, verdict=NOT, reason=reason, given=person.given, unusable=missing)
    mine = held[chosen.member.entry.pseudonym]
    calibrated = plan.hidden.statistics.people > 0
    judged = on_person(mine, why_unmeasured="" if calibrated else UNCALIBRATED)
    return Line(
        name=person.name,
        verdict=judged.verdict,
        reason=judged.reason,
        pseudonym=chosen.member.entry.pseudonym,
        given=person.given,
        used=len(chosen.used),
        copies=len(person.images) - len(person.places),
        suspects=chosen.suspects,
        unusable=unusable(person.left_out),
        held=mine,
        begins=chosen.offset,
        unspared=chosen.unspared_offset,
        lost=chosen.lost,
        prototypes=len(chosen.member.directions),
        template=_nearness(person, chosen),
        linked=[_pairs(links, GIVEN if calibrated else ASSUMED)] if links else [],
        alike=[
            Alike(name=a.name, images=a.images, would=a.would, caught=a.caught, highest=a.highest) for a in chosen.alike
        ],
        templates=plan.templates.get(person.name, []),
    )


def _pairs(links: Links, which: str) -> Pairs:
    return Pairs(photographs=which, pairs=links.pairs, before=links.before, after=links.after)


def unusable(left_out: Sequence[LeftOut]) -> list[Unusable]:
    return [Unusable(image=each.image, reason=each.reason) for each in left_out]


def judged_together(lines: list[Line], touched: Touched, accept: bool) -> tuple[list[Line], OnModel]:
    """The lines with their last verdicts, and the verdict on the model."""
    verdict = on_model([(Judged(line.verdict, line.reason), line.held) for line in lines], touched, accept=accept)
    return [
        line.model_copy(update={"verdict": judged.verdict, "reason": judged.reason})
        for line, judged in zip(lines, verdict.people, strict=True)
    ], verdict


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
        if line.alike:
            found.append(f"      {line.cost}")
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
    if line.held is None or not line.held.photographs:
        return f"{words}, new ones: not measured"
    return f"{words}, {line.held.hidden} of {line.held.photographs} hidden by a gate that was made of the other half"


def outcome(lines: list[Line]) -> list[str]:
    """The outcome for a terminal: one line per person."""
    found = []
    for line, title in zip(lines, _titles(lines), strict=True):
        words = [line.reason] if line.reason else []
        if line.used:
            words.append(f"{line.used} of {line.given} photographs used")
        if line.held is not None and line.held.pairs and line.verdict == FORGOTTEN:
            high = upper(line.held.linked, line.held.pairs)
            words.append(f"{line.held.linked} of {line.held.pairs} held-out pairs linked (95 %: at most {high:.3f})")
        for pairs in (each for each in line.linked if each.pairs):
            words.append(f"{pairs.after} of {pairs.pairs} pairs of {pairs.photographs} photographs linked")
        found.append(f"  {title}  {line.verdict}: {', '.join(words)}")
    return found


def _titles(lines: list[Line]) -> list[str]:
    width = min(max((len(line.name) for line in lines), default=0), 32)
    return [f"{line.name:<{width}}" for line in lines]
