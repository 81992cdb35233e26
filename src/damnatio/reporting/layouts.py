"""The paper's tables, from the long results of a run."""

import math
from collections.abc import Iterable, Mapping, Sequence

from damnatio.evaluation.protocol import CROSS_GROUPS, FORGET_GROUPS, SEARCH_GROUPS
from damnatio.metrics.verification import ENOUGH_ERRORS
from damnatio.reporting.grids import DOUBT, FEW, Cell, Grid, best_of
from damnatio.support.tables import Table

MARKS = (
    f"{DOUBT} The operating point rests on too few comparisons: see the warnings. {FEW} Fewer than {ENOUGH_ERRORS} of "
    "the comparisons behind the rate fell on one of its sides."
)
HIGHER = {"R", "T"}
"""Groups whose rates must stay high; those of all others shall fall."""


class Results:
    """Long results, looked up by what names a number; `titles` are the headings of the models."""

    def __init__(
        self, results: Table, warnings: Iterable[tuple[str, str, str, str, float]], titles: Mapping[str, str]
    ) -> None:
        self.titles = titles
        names = ("scale", "method", "task", "group", "metric", "operating_point")
        keys = zip(*(results[name] for name in names), strict=True)
        numbers = zip(*(results[name].tolist() for name in ("value", "count", "low", "high")), strict=True)
        self._numbers = {_key(*key): number for key, number in zip(keys, numbers, strict=True)}
        self._doubts = set(warnings)

    def __call__(self, scale: str, method: str, task: str, group: str, metric: str, point: float = math.nan) -> float:
        return float(self._number(scale, method, task, group, metric, point)[0])

    def count(self, scale: str, method: str, task: str, group: str, metric: str, point: float) -> int:
        """What the number rests on: comparisons, searches or identities."""
        return int(self._number(scale, method, task, group, metric, point)[1])

    def interval(self, scale: str, method: str, task: str, group: str, metric: str, point: float) -> str:
        """The ends of the bootstrap interval."""
        low, high = self._number(scale, method, task, group, metric, point)[2:]
        return "" if math.isnan(low) else f"[{low:.3f}, {high:.3f}]"

    def marks(self, scale: str, method: str, task: str, group: str, metric: str, point: float) -> str:
        calibration = "D" if task == "1:1" else SEARCH_GROUPS.get(group, "D")
        value, count, *_ = self._number(scale, method, task, group, metric, point)
        few = not math.isnan(value) and min(value, 1 - value) * count < ENOUGH_ERRORS - 0.5
        return (DOUBT if (scale, method, task, calibration, point) in self._doubts else "") + (FEW if few else "")

    def _number(
        self, scale: str, method: str, task: str, group: str, metric: str, point: float
    ) -> tuple[float, int, float, float]:
        return self._numbers.get(_key(scale, method, task, group, metric, point), (math.nan, 0, math.nan, math.nan))


def _key(scale: str, method: str, task: str, group: str, metric: str, point: float) -> tuple[str, ...]:
    return scale, method, task, group, metric, "" if math.isnan(point) else f"{point:g}"


def _footnotes(results: Results) -> list[str]:
    rebuilt = [title for title in results.titles.values() if title.endswith("‡")]
    return ["‡ A reconstruction: the original's code and full text are not public."] if rebuilt else []


def rates(
    results: Results,
    scales: Sequence[str],
    methods: Sequence[str],
    points: Sequence[float],
    fixed: bool = False,
    intervals: bool = False,
) -> Grid:
    """The paper's Table III: every rate at every operating point, a column a model. `fixed` takes f*'s thresholds,
    `intervals` shows how far each rate can be trusted."""
    suffix = "_fixed" if fixed else ""
    sections = [
        ("Verification (TMR@FMR)", "1:1", f"TMR{suffix}", ("R", "T", *FORGET_GROUPS)),
        ("Cross-forget verification (FMR)", "1:1", f"FMR{suffix}", CROSS_GROUPS),
        ("Identification (TPIR@FPIR)", "1:N", f"TPIR{suffix}", tuple(SEARCH_GROUPS)),
    ]
    if not fixed:
        sections.append(("Identities weakly forgotten", "1:1", "weakly_forgotten", ("F", "Ftr-Ftr", "Fev-Fev")))
    rows: list[list[Cell]] = []
    breaks: dict[int, str] = {}
    for title, task, metric, groups in sections:
        breaks[len(rows)] = title
        for point in points:
            for group in groups:
                up = group in HIGHER or metric == "weakly_forgotten"
                row = [Cell(f"{point:g}  {group} {'↑' if up else '↓'}")]
                for scale in scales:
                    values = [results(scale, method, task, group, metric, point) for method in methods]
                    best = [False, *best_of(values[1:], up)]
                    for method, value, good in zip(methods, values, best, strict=True):
                        key = scale, method, task, group, metric, point
                        row.append(
                            Cell(results.interval(*key)) if intervals else Cell(value, good, results.marks(*key))
                        )
                    row.append(Cell(results.count(scale, methods[0], task, group, metric, point)))
                rows.append(row)
    whose = "at the thresholds of f*" if fixed else "at each model's own thresholds"
    what = "95 % intervals (bootstrap over subjects) of the rates" if intervals else "Verification and identification"
    notes = [
        "Best values within 0.002 in bold, f* excluded. ↑ shall stay high, ↓ shall fall. n counts the comparisons, "
        "searches or identities behind each rate.",
        MARKS,
    ]
    if intervals:
        notes = [
            "Thresholds are calibrated anew in each replicate; the gallery is fixed. results.csv has Wilson's as well."
        ]
    return Grid(
        name="rates-intervals" if intervals else "rates-fixed" if fixed else "rates",
        caption=f"{what} of each partition, {whose}",
        header=["", *[*[results.titles[method] for method in methods], "n"] * len(scales)],
        rows=rows,
        spans=[("", 1), *[(scale, len(methods) + 1) for scale in scales]],
        breaks=breaks,
        notes=[*notes, *_footnotes(results)],
    )


def distances(results: Results, scales: Sequence[str], methods: Sequence[str]) -> Grid:
    """The paper's Table IV: how near the forget scores come to those of strangers, and what moved in the retain set."""
    wanted = [(f"W1 {group}", group, "W1") for group in FORGET_GROUPS]
    wanted += [("mated", "R", "deformation"), ("non-mated", "RxR", "deformation"), ("footprint", "R", "footprint")]
    rows = [[Cell(results.titles[method])] for method in methods]
    for scale in scales:
        for _, group, metric in wanted:
            values = [results(scale, method, "1:1", group, metric) for method in methods]
            best = [False, *best_of(values[1:], higher=False)]
            for row, value, good in zip(rows, values, best, strict=True):
                row.append(Cell(value, good))
    return Grid(
        name="distances",
        caption="Wasserstein-1 distances: forget scores to the non-mated test scores, retain scores to those of f*",
        header=["Method", *[title for _ in scales for title, _, _ in wanted]],
        rows=rows,
        spans=[("", 1), *[(scale, len(wanted)) for scale in scales]],
        notes=[
            "In units of the cosine. The footprint is the sum of the two deformations. Best within 0.002 in bold.",
            *_footnotes(results),
        ],
    )


def protocol(counts: Table) -> Grid:
    """The paper's Table II: identities and mated comparisons, a column a scale."""
    names = [name for name in counts.columns if name != "scale"]
    split = next(number for number, name in enumerate(names) if name.startswith("mated"))
    rows = [[Cell(name), *[Cell(int(value)) for value in counts[name]]] for name in names]
    return Grid(
        name="protocol",
        caption="Identities and mated comparisons of the protocols",
        header=["", *counts["scale"].tolist()],
        rows=rows,
        breaks={0: "Identities", split: "Mated comparisons and images"},
        notes=["F train only: forget identities with too few capture instances to fill both partitions."],
    )
