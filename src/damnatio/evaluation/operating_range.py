"""Rates over the whole operating range: what a reader sees who turns the threshold.

The rate of each group at each target of the curves, with its counts, so that whoever divides them gets the same number
as here. The interval of a mated group or of searches is that of the bootstrap over subjects, with the threshold held;
where it says nothing, because all or none is accepted, and for non-mated pairs, it is Wilson's.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from damnatio.evaluation.calibrating import Calibrated
from damnatio.evaluation.chance import LINKED, linked_people
from damnatio.evaluation.nonmated import Spread
from damnatio.evaluation.protocol import FALSE_MATCHES, SEARCH_GROUPS, SINGLE_GROUPS, Comparisons
from damnatio.evaluation.scanning import Scores
from damnatio.evaluation.scored import Mated
from damnatio.metrics import intervals
from damnatio.metrics.verification import Calibration
from damnatio.support.tables import codes_of

UNLINKED = "weakly_forgotten"
"""the metric of the share of identities none of whose pairs is accepted"""
Drawn = Callable[[str, int], intervals.Draws]
"""the draws of so many subjects, by the name of their group"""


@dataclass(frozen=True)
class CurvePoint:
    """The rate of a group at one threshold of the operating range, and the rate that the calibration set has there."""

    task: str
    group: str
    metric: str
    target: float
    threshold: float
    attained: float
    errors: int
    """comparisons of the calibration set that the threshold accepts"""
    accepted: int
    count: int
    rate: float
    low: float
    high: float


def curves(
    c: Comparisons, calibrations: Sequence[Calibrated], spreads: dict[str, Spread], drawn: Drawn | None
) -> Iterator[CurvePoint]:
    """Every group at every target of the curves. Without `drawn` all intervals are Wilson's."""
    for calibration in calibrations:
        points = calibration.curve
        if calibration.task == "1:N":
            for group in [group for group, gallery in SEARCH_GROUPS.items() if gallery == calibration.name]:
                searches = c.searches[group]
                won = Mated(searches.won, searches.subjects)
                yield from _shares("1:N", group, "TPIR", won, points, f"search {group}", drawn)
            continue
        for group, mated in c.mated.items():
            yield from _shares("1:1", group, "TMR", mated, points, group, drawn)
        yield from _unlinked(c, points, drawn)
        for group, name in FALSE_MATCHES.items():
            yield from _false_matches(name, spreads[group], c.nonmated[group].count, points)


def false_match_thresholds(calibrations: Sequence[Calibrated]) -> list[float]:
    """The thresholds at which `curves` needs to know how many non-mated scores are accepted."""
    return [point.threshold for each in calibrations if each.task == "1:1" for point in each.curve]


def _shares(
    task: str, group: str, metric: str, mated: Mated, points: Sequence[Calibration], name: str, drawn: Drawn | None
) -> Iterator[CurvePoint]:
    codes, people = codes_of(mated.subjects)
    thresholds = np.array([point.threshold for point in points])
    accepted, sizes = intervals.counted(mated.scores, codes, len(people), thresholds)
    totals, count = accepted.sum(axis=0).tolist(), len(mated.scores)
    ends = _ends(accepted, sizes, drawn(name, len(people)) if drawn and count else None, totals, count)
    for point, total, each in zip(points, totals, ends, strict=True):
        yield _point(task, group, metric, point, total, count, each)


def _ends(
    accepted: intervals.Places, sizes: intervals.Places, draws: intervals.Draws | None, totals: list[int], count: int
) -> list[tuple[float, float]]:
    if draws is None:
        return [intervals.wilson(total, count) for total in totals]
    rates: Scores = (draws @ accepted.astype(np.float32)) / np.maximum(draws @ sizes.astype(np.float32), 1)[:, None]
    ends = [intervals.interval(column) for column in rates.T]
    return [
        each if 0 < total < count else intervals.wilson(total, count) for each, total in zip(ends, totals, strict=True)
    ]


def _unlinked(c: Comparisons, points: Sequence[Calibration], drawn: Drawn | None) -> Iterator[CurvePoint]:
    """An identity is linked where its highest score is accepted: the others are counted, then who links beyond
    chance."""
    for group in (*SINGLE_GROUPS, "F"):
        for linked in _shares("1:1", group, UNLINKED, highest_scores(c, group), points, f"weakly {group}", drawn):
            unlinked = linked.count - linked.accepted
            rate = unlinked / linked.count if linked.count else math.nan
            yield replace(linked, accepted=unlinked, rate=rate, low=1 - linked.high, high=1 - linked.low)
    found, count = linked_people(c, [point.threshold for point in points], [point.target for point in points])
    for point, accepted in zip(points, found, strict=True):
        yield _point("1:1", "F", LINKED, point, accepted, count, intervals.wilson(accepted, count))


def highest_scores(c: Comparisons, group: str) -> Mated:
    """The highest score of each forget identity in one group, or in all groups of single images (`F`)."""
    members = [c.mated[name] for name in (SINGLE_GROUPS if group == "F" else (group,))]
    codes, everyone = codes_of(np.concatenate([m.subjects for m in members]))
    highest = np.full(len(everyone), -np.inf)
    np.maximum.at(highest, codes, np.concatenate([m.scores for m in members]))
    return Mated(highest, np.arange(len(everyone)))


def _false_matches(name: str, spread: Spread, count: int, points: Sequence[Calibration]) -> Iterator[CurvePoint]:
    for point in points:
        accepted = spread.accepted[point.threshold]
        yield _point("1:1", name, "FMR", point, accepted, count, intervals.wilson(accepted, count))


def _point(
    task: str, group: str, metric: str, point: Calibration, accepted: int, count: int, ends: tuple[float, float]
) -> CurvePoint:
    rate = accepted / count if count else math.nan
    place = point.target, point.threshold, point.rate, point.accepted
    return CurvePoint(task, group, metric, *place, accepted, count, rate, *ends)
