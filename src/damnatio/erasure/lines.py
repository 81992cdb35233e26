"""The line of each person of an erasure by a gate: before the file is written, and after it was verified."""

import numpy as np

from damnatio.erasure.gating import Plan, why_unusable
from damnatio.erasure.people import Person
from damnatio.erasure.record import Alike, Line, Pairs, Unusable
from damnatio.erasure.verdict import FORGOTTEN, NOT, Judged, OnModel, on_model, on_person, upper
from damnatio.erasure.verifying import Links, Verified
from damnatio.methods.gate_widths import Chosen
from damnatio.methods.strangers import mean_direction
from damnatio.models.gate import Gate
from damnatio.models.statistics import Held, Touched

LISTED = 5
"""the most that a terminal shows of a kind below one person; the page and erasure.json have all"""
GIVEN, ASSUMED = "given", "given (at an assumed score)"
UNCALIBRATED = "too few strangers at hand to say from which score on two photographs are linked"


def lines_of(plan: Plan, gate: Gate, verified: Verified | None = None) -> list[Line]:
    """One line per person, by what was measured of the gate. The last verdicts are those of `judged_together`."""
    held = {entry.pseudonym: entry.held for entry in gate.record.people}
    return [_line(person, plan, held, verified.links.get(person.name) if verified else None) for person in plan.people]


def _line(person: Person, plan: Plan, held: dict[str, Held | None], links: Links | None) -> Line:
    unusable = [Unusable(image=each.image, reason=each.reason) for each in person.left_out]
    chosen = plan.chosen(person.name)
    if chosen is None or chosen.member is None:
        reason = why_unusable(person)
        return Line(name=person.name, verdict=NOT, reason=reason, given=person.given, unusable=unusable)
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
        unusable=unusable,
        held=mine,
        begins=chosen.offset,
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
        if line.used:
            found += [f"      left out, {each.reason}: {each.image}" for each in line.unusable[:LISTED]]
        if line.used and len(line.unusable) > LISTED:
            found.append(f"      and {len(line.unusable) - LISTED} more that cannot be used")
        for other in line.alike[:LISTED]:
            spared = f"{other.caught} still would" if other.caught else "all are spared"
            found.append(
                f"      looks alike: {other.name}, {other.would} of {other.images} images would be hidden, {spared}"
            )
        if len(line.alike) > LISTED:
            found.append(f"      and {len(line.alike) - LISTED} more who look alike")
        if line.templates:
            found.append(f"      delete from the gallery: {', '.join(line.templates)}")
    return found


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
