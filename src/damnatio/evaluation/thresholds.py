"""The thresholds of one model: one for each task, calibration set and target."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from damnatio.evaluation.calibrating import Calibrated
from damnatio.metrics.verification import Scores
from damnatio.support.tables import Table


@dataclass(frozen=True)
class Threshold:
    value: float
    replicates: Scores | None = None
    """its value in each replicate of the bootstrap; None without replicates"""

    @property
    def lowest(self) -> float:
        """The lowest of all these values."""
        return self.value if self.replicates is None else min(self.value, float(self.replicates.min()))


class Thresholds:
    """`of` gives the threshold of a task ("1:1", "1:N"), calibrated on a set ("D", "Dev") at a target rate."""

    def __init__(self, found: Mapping[tuple[str, str, float], Threshold]) -> None:
        self._found = dict(found)

    def __len__(self) -> int:
        return len(self._found)

    def of(self, task: str, calibration: str, target: float) -> Threshold:
        return self._found[task, calibration, target]

    def fixed(self, replicates: int) -> "Thresholds":
        """The same thresholds, with one value in all replicates."""
        return Thresholds(
            {
                key: Threshold(threshold.value, np.full(replicates, threshold.value) if replicates else None)
                for key, threshold in self._found.items()
            }
        )

    @staticmethod
    def calibrated(calibrations: Iterable[Calibrated]) -> "Thresholds":
        return Thresholds(
            {
                (c.task, c.name, point.target): Threshold(point.threshold, c.replicates.get(point.target))
                for c in calibrations
                for point in c.points
            }
        )

    @staticmethod
    def of_results(results: Table) -> "Thresholds":
        """The thresholds that a table of results holds; it holds none of the replicates."""
        rows = results.where(results["metric"] == "threshold").rows()
        return Thresholds({(r["task"], r["group"], r["operating_point"]): Threshold(r["value"]) for r in rows})
