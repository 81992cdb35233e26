"""The paper's tables, from the long results of a run."""

from collections.abc import Sequence

from damnatio.evaluation.protocol import CROSS_GROUPS, FORGET_GROUPS, SEARCH_GROUPS
from damnatio.metrics.verification import ENOUGH_ERRORS
from damnatio.reporting.grids import DOUBT, FEW, Cell, Grid, best_of
from damnatio.reporting.lookup import Quantity, Results
from damnatio.support.tables import Table

MARKS = (
    f"{DOUBT} The operating point rests on too few comparisons: see the warnings. {FEW} Fewer than {ENOUGH_ERRORS} of "
    "the comparisons behind the rate fell on one of its sides."
)
HIGHER = {"R", "T"}
"""Groups whose rates must stay high; the rates of all other groups shall fall."""


def _footnotes(results: Results) -> list[str]:
    rebuilt = [title for title in results.titles.values() if title.endswith("‡")]
    return ["‡ A reconstruction: the original's code and full text are not public."] if rebuilt else []


def rates(
    results: Results,
    scales: Sequence[str],
    variants: Sequence[str],
    points: Sequence[float],
    fixed: bool = False,
    intervals: bool = False,
) -> Grid:
    """The paper's Table III: every rate at every operating point, one column per variant. `fixed` takes the
    thresholds of f*; `intervals` shows the interval of each rate in place of the rate."""
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
                    quantities = [Quantity(scale, variant, task, group, metric, point) for variant in variants]
                    measured = [results[quantity] for quantity in quantities]
                    if intervals:
                        row += [Cell(each.interval) for each in measured]
                    else:
                        best = [False, *best_of([each.value for each in measured[1:]], up)]
                        marks = [results.marks(quantity) for quantity in quantities]
                        row += [Cell(m.value, good, mark) for m, good, mark in zip(measured, best, marks, strict=True)]
                    row.append(Cell(measured[0].count))
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
        header=["", *[*[results.titles[variant] for variant in variants], "n"] * len(scales)],
        rows=rows,
        spans=[("", 1), *[(scale, len(variants) + 1) for scale in scales]],
        breaks=breaks,
        notes=[*notes, *_footnotes(results)],
    )


def distances(results: Results, scales: Sequence[str], variants: Sequence[str]) -> Grid:
    """The paper's Table IV: how near the forget scores come to those of strangers, and how far the retain
    scores moved."""
    wanted = [(f"W1 {group}", group, "W1") for group in FORGET_GROUPS]
    wanted += [("mated", "R", "deformation"), ("non-mated", "RxR", "deformation"), ("footprint", "R", "footprint")]
    rows = [[Cell(results.titles[variant])] for variant in variants]
    for scale in scales:
        for _, group, metric in wanted:
            values = [results[Quantity(scale, variant, "1:1", group, metric)].value for variant in variants]
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
    """The paper's Table II: identities and mated comparisons, one column per scale."""
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
