"""The verdict on an altered model: from what was measured of people and of strangers to sentences and an exit code.

The terminal, erasure.json, its page, the list of whom a file hides, the plan and the officer's page all take it from
here.

- forgotten: measured on photographs that the alteration was not fitted on. With 95 % confidence at most the share
  `PERSON` of the pairs of a person's own photographs is linked, and at most `ALL` of those of all who are called
  forgotten, taken together.
- hidden, not measured: the alteration concerns the person, and no measurement says how well.
- partly: measured to fall short, or the given photographs are linked more often than chance links strangers.
- not forgotten: the reason says why.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from damnatio.metrics.intervals import wilson
from damnatio.models.statistics import Held, Touched

Verdict = Literal["forgotten", "hidden, not measured", "partly", "not forgotten"]
FORGOTTEN: Verdict = "forgotten"
UNMEASURED: Verdict = "hidden, not measured"
PARTLY: Verdict = "partly"
NOT: Verdict = "not forgotten"

PERSON, ALL = 0.25, 0.05
"""the highest upper bound of the share of pairs that are still linked: of one person, and of all together"""
LINKED = 1e-4
"""Two photographs are linked if their score is one that this share of strangers exceeds."""
SURE = 0.99
"""More pairs are linked than chance explains if chance gives fewer with this probability."""
LEAST = 6
"""fewer held-out pairs of a person are no measurement"""
DONE, INCOMPLETE = 0, 3
"""exit codes"""
HELD = "photographs that the alteration was not fitted on"
HOLDS = {
    "GS": "Does the file still hold the people? Yes: it has a template of each person, and whoever cuts the gate off "
    "has everyone back.",
    "": "Does the file still hold the people? Not known: the network was trained, and nothing here can tell what is "
    "left in its weights.",
}
"""by the method; the last one is that of all methods which train"""


@dataclass(frozen=True)
class Judged:
    """The verdict on one person."""

    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class OnModel:
    """The verdict on a model. The sentence names nobody."""

    people: list[Judged]
    complete: bool
    """whether everybody was measured to be forgotten, and the share of strangers that is touched is known"""
    code: int
    sentence: str

    def said(self) -> dict[str, Any]:
        """As fields of erasure.json."""
        return {"complete": self.complete, "verdict": self.sentence, "exit_code": self.code}


def upper(count: int, of: int) -> float:
    """The upper end of the 95 % interval of a share (Wilson)."""
    return wilson(count, of)[1] if of else 1.0


def chance(pairs: int) -> int:
    """So many linked pairs may be chance: each pair is linked with the probability `LINKED`."""
    from scipy.special import pdtr  # Poisson's distribution; scipy.stats takes seconds to import

    found = 0
    while pdtr(found, LINKED * pairs) < SURE:
        found += 1
    return found


def on_person(held: Held | None, short: str = "", why_unmeasured: str = "") -> Judged:
    """The verdict on somebody whom the alteration concerns. `short`: what else was measured to fall short;
    `why_unmeasured`: why there are no pairs."""
    if held is not None:
        low, high = wilson(held.linked, held.pairs) if held.pairs else (0.0, 1.0)
        said = f"{held.linked} of {held.pairs} pairs of {HELD} are linked (95 %: at most {high:.3f})"
        if held.pairs >= LEAST and low > PERSON:
            return Judged(PARTLY if held.linked <= held.pairs / 2 else NOT, said)
        if held.pairs >= LEAST and held.photographs and upper(held.hidden, held.photographs) < held.goal:
            seen = f"{held.hidden} of {held.photographs} {HELD} are hidden, and the goal is {held.goal:.0%}"
            return Judged(PARTLY, seen)
        if held.given_linked > chance(held.given):
            short = f"{held.given_linked} of {held.given} pairs of the given photographs are still linked"
    if short:
        return Judged(PARTLY, short)
    if held is None or (why_unmeasured and not held.pairs):
        return Judged(UNMEASURED, why_unmeasured or "nothing was measured of this gate")
    if held.pairs < LEAST:
        return Judged(UNMEASURED, f"{held.pairs} pairs of {HELD} are too few to measure ({LEAST} are needed)")
    if high > PERSON:
        return Judged(UNMEASURED, f"{said}, and {PERSON:g} is the most: more photographs would tell")
    return Judged(FORGOTTEN)


def on_model(people: Sequence[tuple[Judged, Held | None]], touched: Touched, *, accept: bool = False) -> OnModel:
    """The verdict on everybody asked for. `accept`: the operator accepts what could not be measured."""
    measured = [held for judged, held in people if judged.verdict == FORGOTTEN and held is not None]
    linked, pairs = sum(held.linked for held in measured), sum(held.pairs for held in measured)
    high = upper(linked, pairs)
    judged = [each for each, _ in people]
    if high > ALL:
        reason = (
            f"together {linked} of {pairs} pairs of {HELD} are linked (95 %: at most {high:.3f}), and {ALL:g} is "
            "the most over all: more photographs would tell"
        )
        judged = [Judged(UNMEASURED, reason) if each.verdict == FORGOTTEN else each for each in judged]
    counts = {kind: sum(each.verdict == kind for each in judged) for kind in (FORGOTTEN, UNMEASURED, PARTLY, NOT)}
    known = touched.how != "unknown"
    complete = counts[FORGOTTEN] == len(judged) and known
    code = DONE if complete or (accept and not counts[PARTLY] + counts[NOT]) else INCOMPLETE
    if counts[FORGOTTEN] == len(judged):
        words = (
            f"Everyone asked for was forgotten ({len(judged)}): {linked} of {pairs} pairs of {HELD} are linked "
            f"(95 %: at most {high:.3f})."
        )
    else:
        rest = [f"{kind}: {counts[kind]}" for kind in (UNMEASURED, PARTLY, NOT) if counts[kind]]
        words = f"Measured to be forgotten: {counts[FORGOTTEN]} of {len(judged)}; {'; '.join(rest)}."
    if not known:
        words += " The share of strangers who are touched is unknown."
    if not complete and code == DONE:
        words += " What is not measured was accepted (--accept-unmeasured)."
    return OnModel(judged, complete, code, words)


def still_holds(held: Held | None, begins: Sequence[float]) -> Held | None:
    """What was measured, if the cones begin no higher now: more people in a gate make every cone narrower."""
    if held is None or any(now > then + 1e-6 for now, then in zip(begins, held.begins, strict=True)):
        return None
    return held
