"""The time that a run still takes: what is expected of each part, corrected by what finished work took.

    factor = seconds that work took / seconds that were expected of it       of finished parts, and of trainings so far
    left   = expected x factor                                               of a part that has not begun

A part is corrected by parts of its own kind; as long as none of them is finished, by those of its family: what f* takes
says how fast the methods will train. A training that is running goes on at its own speed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from damnatio.running.planning.plan import packed

ENOUGH = 1.0
"""seconds that must have been expected of finished work before it corrects anything"""


@dataclass(frozen=True)
class Part:
    """One output of a run."""

    key: str
    needs: Sequence[str]
    kind: str
    """parts of one kind take about as long as each other"""
    family: str
    """parts of one family are wrongly expected by about the same factor"""
    expected: float | None = None
    """seconds; None if they are not known"""
    spent: float = 0.0
    """seconds so far"""
    share: float | None = None
    """of it that is done: 1 if it is finished; None if it is not known, as before it has begun"""
    sure: bool = True
    """whether `expected` may be used before anything has corrected it"""
    counts: bool = True
    """whether what it took says something of the others"""


@dataclass(frozen=True)
class Left:
    """The seconds of each part that is not finished; None if they are not known."""

    parts: Mapping[str, float | None]
    needs: Mapping[str, Sequence[str]]

    @property
    def unknown(self) -> int:
        return sum(seconds is None for seconds in self.parts.values())

    def seconds(self, slots: int) -> float:
        """Of all parts that are known, if so many are made at one time."""
        known = {key: seconds or 0.0 for key, seconds in self.parts.items()}
        needs = {key: [need for need in self.needs[key] if need in known] for key in known}
        return packed(known, needs, max(slots, 1))


def left_of(parts: Sequence[Part]) -> Left:
    """What is left of a run. Each part comes after those that it needs."""
    sums: dict[tuple[str, str], tuple[float, float]] = {}
    alike: dict[str, list[float]] = {}
    for part in parts:
        if part.share == 1:
            alike.setdefault(part.kind, []).append(part.spent)
        if part.counts and part.expected and part.share:
            for group in _groups(part):
                taken, expected = sums.get(group, (0.0, 0.0))
                sums[group] = taken + part.spent, expected + part.share * part.expected
    finished = {("kind", part.kind) for part in parts if part.share == 1 and part.counts}
    factors = {
        group: taken / expected
        for group, (taken, expected) in sums.items()
        if expected >= ENOUGH and (group[0] == "family" or group in finished)
    }
    open_ = [part for part in parts if part.share != 1]
    return Left(
        {part.key: _left(part, factors, alike.get(part.kind, [])) for part in open_},
        {part.key: part.needs for part in open_},
    )


def _groups(part: Part) -> list[tuple[str, str]]:
    return [("kind", part.kind), ("family", part.family)]


def _left(part: Part, factors: Mapping[tuple[str, str], float], alike: Sequence[float]) -> float | None:
    if part.share:
        return part.spent * (1 - part.share) / part.share
    factor = next((factors[group] for group in _groups(part) if group in factors), 1.0 if part.sure else None)
    if part.expected is not None and factor is not None:
        return max(part.expected * factor - part.spent, 0.0)
    if alike:
        return max(sum(alike) / len(alike) - part.spent, 0.0)
    return None
