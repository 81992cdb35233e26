"""The numbers of a run, looked up by what they measure."""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from damnatio.evaluation.calibrating import MARKED
from damnatio.evaluation.measuring import ABOVE, ORIGINAL
from damnatio.evaluation.protocol import SEARCH_GROUPS
from damnatio.metrics.verification import ENOUGH_ERRORS
from damnatio.reporting.grids import DOUBT, FEW
from damnatio.support.tables import Table

REACHED = (ABOVE, "TMR_eer")
"""shares of comparisons at a threshold of no operating point"""
LEGACY, PERSON = "_legacy", "_person"
"""endings of metrics: rates at the thresholds and templates of f*, and means over people"""


@dataclass(frozen=True)
class Quantity:
    """What one number of the results measures. A distance has no operating point."""

    scale: str
    variant: str
    task: str
    group: str
    metric: str
    point: float | None = None


@dataclass(frozen=True)
class Measured:
    """One number of the results, with its bootstrap interval."""

    value: float = math.nan
    count: int = 0
    """how many comparisons, searches or identities the value rests on"""
    low: float = math.nan
    high: float = math.nan
    spread: float = math.nan
    """the standard deviation over seeds, of a mean over them"""

    @property
    def interval(self) -> str:
        return "" if math.isnan(self.low) else f"[{self.low:.3f}, {self.high:.3f}]"

    @property
    def few(self) -> bool:
        """Whether too few comparisons fell on one side of the rate."""
        return min(self.value, 1 - self.value) * self.count < ENOUGH_ERRORS - 0.5  # False for NaN


class Results:
    """The long results and the warnings of a run; `titles` holds the heading of each variant, `maps` the variants that
    are maps behind a network which stays as it is."""

    def __init__(self, results: Table, warnings: Table, titles: Mapping[str, str], maps: Collection[str] = ()) -> None:
        self.titles, self.maps = titles, maps
        self._measured = {
            quantity_of(row): Measured(row["value"], row["count"], row["low"], row["high"]) for row in results.rows()
        }
        self._held = {(q.task, q.group, q.metric) for q in self._measured}
        self._doubts = {
            (row["scale"], row["method"], row["task"], row["group"], row["operating_point"]) for row in warnings.rows()
        }

    def __getitem__(self, quantity: Quantity) -> Measured:
        """The number of this quantity; NaN if it was not measured."""
        return self._measured.get(quantity, Measured())

    def has(self, task: str, group: str, metric: str) -> bool:
        """Whether any model has such a number."""
        return (task, group, metric) in self._held

    def marks(self, q: Quantity) -> str:
        """The marks of doubt that a rate gets. A mean over people is no share of comparisons, of which there could be
        too few."""
        calibration = "D" if q.task == "1:1" else SEARCH_GROUPS.get(q.group, "D")
        calibrated = ORIGINAL if q.metric.endswith(LEGACY) else q.variant
        point = MARKED if q.metric == ABOVE else q.point
        doubtful = (q.scale, calibrated, q.task, calibration, point) in self._doubts
        few = self[q].few and (q.point is not None or q.metric in REACHED) and not q.metric.endswith(PERSON)
        return (DOUBT if doubtful else "") + (FEW if few else "")


class Averaged(Results):
    """The means of runs that differ in their seeds alone. A number that one of them lacks has no mean; a mark of doubt
    on one of them is a mark on the mean. Counts are added up."""

    def __init__(self, runs: Sequence[Results]) -> None:
        self.titles = {variant: title for run in runs for variant, title in run.titles.items()}
        self.maps = {variant for run in runs for variant in run.maps}
        self._runs = runs
        common = set.intersection(*(set(run._measured) for run in runs))
        self._measured = {quantity: _mean([run[quantity] for run in runs]) for quantity in common}
        self._held = {(q.task, q.group, q.metric) for q in self._measured}

    def marks(self, q: Quantity) -> str:
        marks = "".join(run.marks(q) for run in self._runs)
        return "".join(mark for mark in (DOUBT, FEW) if mark in marks)


def _mean(measured: Sequence[Measured]) -> Measured:
    if len(measured) == 1:
        return measured[0]
    values = [each.value for each in measured]
    spread = math.nan if any(map(math.isnan, values)) else statistics.stdev(values)
    return Measured(statistics.fmean(values), sum(each.count for each in measured), spread=spread)


def quantity_of(row: Mapping[str, Any]) -> Quantity:
    """What the number in this row of the long results measures."""
    point = row["operating_point"]
    return Quantity(
        scale=row["scale"],
        variant=row["method"],
        task=row["task"],
        group=row["group"],
        metric=row["metric"],
        point=None if math.isnan(point) else point,
    )
