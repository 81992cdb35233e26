"""The rates of one model over the operating range, as its evaluation left them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from damnatio.metrics.verification import ENOUGH_ERRORS
from damnatio.support.tables import Table

WIDEST = 0.1
"""the highest false match rate that a reader can choose"""


@dataclass(frozen=True)
class Rate:
    """The share of accepted comparisons, searches or identities at one threshold."""

    accepted: int
    count: int
    low: float = math.nan
    high: float = math.nan
    threshold: float = math.nan
    errors: int = 0
    """of the calibration set at this threshold"""

    @property
    def value(self) -> float:
        return self.accepted / self.count if self.count else math.nan

    @property
    def thin(self) -> bool:
        """Whether there is nothing to judge by, or the threshold rests on too few errors."""
        return not self.count or self.errors < ENOUGH_ERRORS


NOTHING = Rate(0, 0)
Series = Mapping[float, Rate]
"""rates by target"""


class Range:
    """By metric and group the rate at each target."""

    def __init__(self, curves: Table) -> None:
        self.series: dict[tuple[str, str], dict[float, Rate]] = {}
        rows = curves.rows()
        lowest = min((row["target"] for row in rows if row["task"] == "1:1"), default=WIDEST)
        for row in rows:
            if row["target"] <= max(WIDEST, lowest):  # a development set of a few pairs has no rate below WIDEST
                mine = self.series.setdefault((row["metric"], row["group"]), {})
                mine[row["target"]] = _rate(row)

    @staticmethod
    def read(evaluation: Path) -> "Range":
        return Range(Table.read(evaluation / "curves.parquet"))

    @property
    def targets(self) -> list[float]:
        """Those of 1:1, ascending."""
        return sorted({target for (metric, _), series in self.series.items() if metric == "TMR" for target in series})

    def at(self, metric: str, group: str, target: float) -> Rate:
        return self.series.get((metric, group), {}).get(target, NOTHING)


def _rate(row: Mapping[str, Any]) -> Rate:
    return Rate(row["accepted"], row["count"], row["low"], row["high"], row["threshold"], row["errors"])


def first_choice(points: Sequence[float], targets: Sequence[float]) -> float:
    """The target that a reader sees first: the loosest operating point of the recipe, where forgetting is hardest, or
    the nearest below it that the curves have."""
    below = [target for target in targets if target <= points[-1]]
    return below[-1] if below else targets[0]
