"""The course of a contest: the settings of every contestant on draw 0, the choice, and the reported draws."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from contest.rules import (
    AVERAGED,
    FORGETTING,
    NEW,
    RECOGNITION,
    REPORTED,
    TUNING,
    Contestant,
    World,
    harm,
    settings_of,
)
from contest.runs import Run, base_of, original, run, value_of
from contest.worlds import Place, say
from damnatio.support.tables import Table


@dataclass(frozen=True)
class Tried:
    """A setting on draw 0."""

    run: Run
    harm: float
    footprint: float


@dataclass(frozen=True)
class Entry:
    """A contestant after the contest."""

    contestant: Contestant
    tried: list[Tried]
    chosen: Tried
    reported: list[Run]


@dataclass(frozen=True)
class Contest:
    world: World
    originals: dict[int, Table]
    """rates of f* by draw"""
    entries: list[Entry]


def hold(place: Place, contestants: Sequence[Contestant], draws: Sequence[int] = REPORTED) -> Contest:
    """The whole contest; what is on disk is not computed again."""
    clock = _Clock(len(contestants) * (4 + len(draws)))
    tried: dict[str, list[Tried]] = {}
    before = original(place, TUNING)
    for contestant in contestants:
        settings = settings_of(contestant, base_of(place.recipe(TUNING), contestant))
        runs = [clock.timed(place, TUNING, contestant, setting) for setting in settings]
        tried[contestant.name] = [_judged(each, before) for each in runs]
    chosen = {name: min(each, key=lambda one: (one.harm, one.footprint)) for name, each in tried.items()}
    reported: dict[str, list[Run]] = {contestant.name: [] for contestant in contestants}
    originals = {}
    for number in draws:
        originals[number] = original(place, number)
        for contestant in contestants:
            setting = chosen[contestant.name].run.setting
            reported[contestant.name].append(clock.timed(place, number, contestant, setting))
    entries = [Entry(each, tried[each.name], chosen[each.name], reported[each.name]) for each in contestants]
    return Contest(place.world, originals, entries)


def _judged(found: Run, before: Table) -> Tried:
    if found.results is None:
        return Tried(found, math.inf, math.inf)
    return Tried(found, harm(_rates(found.results), _rates(before)), found.value("R", "footprint"))


def _rates(results: Table) -> dict[tuple[str, float], float]:
    asked = ((NEW, FORGETTING), (AVERAGED, FORGETTING), ("T", RECOGNITION))
    return {(group, point): value_of(results, group, "TMR", point) for group, point in asked}


class _Clock:
    """One line per run: its cost, its rates, and the time that is left."""

    def __init__(self, runs: int) -> None:
        self._left, self._taken = runs, [0.0]

    def timed(self, place: Place, number: int, contestant: Contestant, setting: dict[str, float]) -> Run:
        place.draw(number)
        started = time.monotonic()
        found = run(place, number, contestant, setting)
        taken = time.monotonic() - started
        self._left -= 1
        if taken > 1:  # it was computed now
            self._taken.append(taken)
        ahead = sum(self._taken) / max(len(self._taken) - 1, 1) * self._left / 60
        words = found.error or "  ".join(_words(found))
        knobs = " ".join(f"{name} {value:.3g}" for name, value in setting.items())
        cost = f"{found.seconds:5.1f} s"
        say(f"draw {number}  {contestant.name:<10} {knobs:<32} {cost}  {words}  | {self._left} left, {ahead:.0f} min")
        return found


def _words(found: Run) -> Iterator[str]:
    yield f"T {found.value('T', 'TMR', RECOGNITION):.3f}"
    yield f"new {found.value(NEW, 'TMR', FORGETTING):.3f}"
    yield f"avg {found.value(AVERAGED, 'TMR', FORGETTING):.3f}"
    yield f"footprint {found.value('R', 'footprint'):.4f}"
