"""Which items of a plan are deleted: the sure ones, the candidates that somebody accepted, and what follows these.

The plan is sealed, so decisions are no edits of it: they are words of the purge, and its journal and record keep them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from damnatio.erasure.planning.plan import Plan, PlannedItem
from damnatio.support.errors import DamnatioError

ALL = "all"
RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


@dataclass(frozen=True)
class Decisions:
    """Numbers of items, ascending."""

    accepted: list[int]
    rejected: list[int]
    deleted: list[int]


def decide(plan: Plan, accept: Sequence[str], reject: Sequence[str], confirm: int) -> Decisions:
    """Check the words of the purge against the plan. `confirm` must be the number of items that go."""
    accepted, rejected = _numbers(plan, accept, "--accept"), _numbers(plan, reject, "--reject")
    if both := accepted & rejected:
        raise DamnatioError(f"Item {min(both)} is both accepted and rejected: leave one of them out.")
    candidates = {item.number for item in plan.of_standing("candidate")}
    if undecided := candidates - accepted - rejected:
        raise DamnatioError(
            f"{len(undecided)} candidates are not decided ({_shown(undecided)}): look at each in the plan, then name "
            "it with --accept or --reject. Nothing was deleted."
        )
    gone = {item.number for item in plan.items if _goes(item, accepted, rejected)}
    for item in plan.of_standing("follows"):
        if item.number not in accepted | rejected and gone & set(item.follows):
            gone.add(item.number)
    if confirm != len(gone):
        raise DamnatioError(
            f"--confirm {confirm}: the plan deletes {len(gone)} items with these decisions. Read it again, then "
            "confirm that number. Nothing was deleted."
        )
    return Decisions(sorted(accepted), sorted(rejected), sorted(gone))


def _goes(item: PlannedItem, accepted: set[int], rejected: set[int]) -> bool:
    return item.number in accepted or (item.standing == "sure" and item.number not in rejected)


def _numbers(plan: Plan, words: Sequence[str], option: str) -> set[int]:
    """The numbers in words such as `13,15-18`, or `all` candidates."""
    known, found = {item.number for item in plan.items}, set[int]()
    for word in (part.strip() for text in words for part in text.split(",")):
        if word == ALL:
            found |= {item.number for item in plan.of_standing("candidate")}
            continue
        match = RANGE.fullmatch(word)
        if match is None:
            raise DamnatioError(f"{option} {word}: numbers of items are expected, as in 3,5-8, or `all`.")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or not {first, last} <= known:
            raise DamnatioError(f"{option} {word}: the plan has the items 1 to {len(known)}.")
        found |= set(range(first, last + 1))
    return found


def _shown(numbers: set[int], most: int = 8) -> str:
    first = ", ".join(str(number) for number in sorted(numbers)[:most])
    return first + (" ..." if len(numbers) > most else "")
