"""The paper's tables, from the long results of a run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from damnatio.evaluation.calibrating import MARKED
from damnatio.evaluation.chance import CHANCE as ENDING
from damnatio.evaluation.chance import FEWEST, LEVEL, LINKED
from damnatio.evaluation.legacy import LEGACY_SEARCHES
from damnatio.evaluation.measuring import ABOVE, ORIGINAL
from damnatio.evaluation.operating_range import UNLINKED
from damnatio.evaluation.protocol import AVERAGED, CROSS_GROUPS, FORGET_GROUPS, KEPT_GROUPS, SEARCH_GROUPS
from damnatio.metrics.verification import ENOUGH_ERRORS
from damnatio.reporting.grids import DOUBT, FEW, Cell, Grid, best_of
from damnatio.reporting.lookup import LEGACY, Measured, Quantity
from damnatio.reporting.panels import Panel, footnotes, kinds_of
from damnatio.support.tables import Table

MARKS = (
    f"{DOUBT} The operating point rests on too few comparisons: see the warnings. {FEW} Fewer than {ENOUGH_ERRORS} of "
    "the comparisons behind the rate fell on one of its sides."
)
CHANCE = (
    "Chance: two strangers match at the false match rate, and a search finds one at most at the rate of false alarms."
)
HIGHER = set(KEPT_GROUPS)
"""Groups whose rates must stay high; the rates of all other groups shall fall."""
MOVED = ("drift_cosine", "unchanged")
"""Metrics of how far embeddings moved; f* itself has not moved."""


@dataclass(frozen=True)
class Section:
    """Rows of a table: one for each group, at every operating point if the metric has one."""

    title: str
    task: str
    metric: str
    groups: Sequence[str]


@dataclass(frozen=True)
class _Row:
    """The numbers of one row at one scale, f* first."""

    measured: list[Measured]
    marks: list[str]
    count: int


def rates(panels: Sequence[Panel], points: Sequence[float], fixed: bool = False, intervals: bool = False) -> Grid:
    """The paper's Table IV: every rate at every operating point, one column per variant. `fixed` takes the
    thresholds of f*; `intervals` shows the interval of each rate in place of the rate."""
    number = "" if fixed or intervals else " (the paper's Table IV)"
    suffix = "_fixed" if fixed else ""
    sections = [
        Section("Verification (TMR@FMR)", "1:1", f"TMR{suffix}", (*KEPT_GROUPS, *FORGET_GROUPS)),
        Section("Cross-forget verification (FMR)", "1:1", f"FMR{suffix}", CROSS_GROUPS),
        Section("Identification (TPIR@FPIR)", "1:N", f"TPIR{suffix}", tuple(SEARCH_GROUPS)),
    ]
    if not fixed:
        groups = ("F", "Ftr-Ftr", "Fev-Fev")
        sections.insert(0, Section("People who still link beyond chance", "1:1", LINKED, ("F",)))
        sections.append(Section("Identities weakly forgotten", "1:1", UNLINKED, groups))
    whose = "at the thresholds of f*" if fixed else "at each model's own thresholds"
    what = "95 % intervals (bootstrap over subjects) of the rates" if intervals else "Verification and identification"
    notes = [
        "Best values within 0.002 in bold, f* excluded. ↑ shall stay high, ↓ shall fall. R, T and avg(Ftr)-Fev are "
        "probes against templates; in T single, B (bystanders) and the other forget groups, single images meet single "
        "images.",
        "n counts the comparisons, searches or identities behind each rate.",
        CHANCE,
        f"A person links beyond chance if so many pairs link as chance links of one stranger in {1 / LEVEL:g} at most; "
        f"who has fewer than {FEWEST} pairs is not measured.",
        MARKS,
    ]
    if intervals:
        notes = [
            "Thresholds are calibrated anew in each replicate; the gallery is fixed. results.csv has Wilson's as well."
        ]
    return _grid(
        panels,
        points,
        sections,
        name="rates-intervals" if intervals else "rates-fixed" if fixed else "rates",
        caption=f"{what} of each partition{number}, {whose}",
        notes=notes,
        intervals=intervals,
    )


def legacy(panels: Sequence[Panel], points: Sequence[float]) -> Grid:
    """Rates of probes against what f* has enrolled, and how far the embeddings moved. The column of f* holds its
    ordinary rates."""
    kept = ("R", "T", "T single", "B")
    drifting = ("R", "T", "B", "F", "Ftr", "Fev")
    return _grid(
        panels,
        points,
        [
            Section("Verification with old templates (TMR)", "1:1", "TMR_legacy", (*kept, *FORGET_GROUPS)),
            Section("False matches with old templates (FMR)", "1:1", "FMR_legacy", ("TxT",)),
            Section("Identification in the old gallery (TPIR)", "1:N", "TPIR_legacy", LEGACY_SEARCHES),
            Section("False alarms of strangers in the old gallery (FPIR)", "1:N", "FPIR_legacy", ("D",)),
            Section("Drift: mean cosine of an embedding to the original one", "1:1", "drift_cosine", drifting),
            Section("Share of embeddings unchanged, bit for bit", "1:1", "unchanged", drifting),
        ],
        name="legacy",
        caption="Who must be enrolled again: templates enrolled under f*, probes under f, at the thresholds of f*",
        notes=[
            "The column of f* holds its ordinary rates. Where R and T keep them, nobody must be enrolled again; where "
            "the forget groups keep theirs, old templates still find the forgotten. Of two images of T single, B and "
            "Ftr-Ftr, either may be the enrolled one. Best values within 0.002 in bold, f* excluded.",
            CHANCE,
            MARKS,
        ],
    )


def people(panels: Sequence[Panel], points: Sequence[float]) -> Grid:
    """Rates as means over people, so that nobody with many images carries them."""
    return _grid(
        panels,
        points,
        [
            Section("Verification (TMR@FMR)", "1:1", "TMR_person", (*KEPT_GROUPS, *FORGET_GROUPS)),
            Section("Identification (TPIR@FPIR)", "1:N", "TPIR_person", ("R", "T")),
        ],
        name="people",
        caption="Every person counts once: the mean over people of their own rates, at each model's own thresholds",
        notes=[
            "Best values within 0.002 in bold, f* excluded. ↑ shall stay high, ↓ shall fall.",
            "n counts people.",
            CHANCE,
            f"{DOUBT} The operating point rests on too few comparisons: see the warnings.",
        ],
    )


def _grid(
    panels: Sequence[Panel],
    points: Sequence[float],
    sections: Sequence[Section],
    name: str,
    caption: str,
    notes: Sequence[str],
    intervals: bool = False,
) -> Grid:
    """A table of sections, one column per variant and one for the count. Groups without a number are left out."""
    rows: list[list[Cell]] = []
    at: list[float | None] = []
    breaks: dict[int, str] = {}
    for section in sections:
        task, metric = section.task, section.metric
        groups = [g for g in section.groups if any(panel.results.has(task, g, metric) for panel in panels)]
        if groups:
            breaks[len(rows)] = section.title
        for point in [None] if metric in MOVED else points:
            for group in groups:
                up, arrow = _direction(metric, group)
                row = [Cell(f"{'' if point is None else f'{point:g}  '}{group} {arrow}".strip())]
                at.append(point)
                for panel in panels:
                    found = _row(panel, section, group, point)
                    if intervals:
                        row += [Cell(each.interval) for each in found.measured]
                    else:
                        best = best_of([each.value for each in found.measured[1 : panel.split]], up) if arrow else []
                        good = [False, *best]
                        good += [False] * (len(found.measured) - len(good))
                        each = zip(found.measured, good, found.marks, strict=True)
                        row += [Cell(m.value, bold, mark, m.spread) for m, bold, mark in each]
                    behind = row[len(row) - len(panel.maps) :] if panel.maps else []
                    row = [*row[: len(row) - len(behind)], _chance(panel, section, group, point)]
                    row += [Cell(found.count), *behind]
                rows.append(row)
    return Grid(
        name=name,
        caption=caption,
        header=["", *[title for panel in panels for title in panel.around(panel.titles, "chance", "n")]],
        rows=rows,
        spans=[("", 1), *[span for panel in panels for span in panel.spans]],
        breaks=breaks,
        notes=[*notes, *footnotes(panels)],
        points=at,
        column_variants=["", *[variant for panel in panels for variant in panel.around(panel.variants, "", "")]],
    )


def _chance(panel: Panel, section: Section, group: str, point: float | None) -> Cell:
    """What chance alone gives: of people without a link it was computed with the results."""
    if point is None:
        return Cell("")
    if section.metric == LINKED:
        return Cell(f"≤{LEVEL:.3f}")
    if section.metric == UNLINKED:
        return Cell(panel.results[Quantity(panel.scale, ORIGINAL, "1:1", group, UNLINKED + ENDING, point)].value)
    return Cell(f"{'≤' if section.task == '1:N' else ''}{point:g}")


def _direction(metric: str, group: str) -> tuple[bool, str]:
    """Whether the number shall stay high, and its arrow. How far the embeddings of the forgotten moved is no aim."""
    if metric in MOVED and group not in HIGHER:
        return False, ""
    up = group in HIGHER or metric == UNLINKED
    return up, "↑" if up else "↓"


def _row(panel: Panel, section: Section, group: str, point: float | None) -> _Row:
    """f* has no gallery older than its own: its ordinary rates stand there, and it has not moved."""
    results = panel.results
    wanted = [Quantity(panel.scale, variant, section.task, group, section.metric, point) for variant in panel.variants]
    legacy = section.metric.endswith(LEGACY)
    if legacy:
        wanted[0] = replace(wanted[0], metric=section.metric.removesuffix(LEGACY))
    measured = [results[quantity] for quantity in wanted]
    count = next((each.count for each in measured[legacy:] if each.count), 0)  # both orders count, but not for f*
    if section.metric in MOVED:
        return _Row([Measured(1.0), *measured[1:]], [""] * len(measured), count)
    return _Row(measured, [results.marks(quantity) for quantity in wanted], count)


def distances(panels: Sequence[Panel]) -> Grid:
    """The paper's Table III: how near the forget scores come to those of strangers, and how far the retain
    scores moved."""
    wanted = [Column(f"W1 {group}", "1:1", group, "W1", DOWN) for group in FORGET_GROUPS]
    wanted.append(Column("mated", "1:1", "R", "deformation", DOWN))
    wanted.append(Column("non-mated", "1:1", "RxR", "deformation", DOWN))
    wanted.append(Column("footprint", "1:1", "R", "footprint", DOWN))
    return _by_method(
        panels,
        wanted,
        None,
        name="distances",
        caption="Wasserstein-1 distances (the paper's Table III): forget scores to the non-mated test scores, retain "
        "scores to those of f*",
        notes=["In units of the cosine. The footprint is the sum of the two deformations. Best within 0.002 in bold."],
    )


def comparison(panels: Sequence[Panel], point: float) -> list[Grid]:
    """The paper's Table V: the same methods side by side in several experiments, at one operating point. One table of
    verification and one of identification."""
    groups = {
        "1:1": ("R", "T", "Ftr-Ftr", "Ftr-Fev", "Fev-Fev"),
        "1:N": ("R", "T", "Ftr", "Fev"),
    }
    grids = []
    for task, metric, rate, name in (("1:1", "TMR", "FMR", "verification"), ("1:N", "TPIR", "FPIR", "identification")):
        ways = {group: _direction(metric, group) for group in groups[task]}
        columns = [Column(f"{group} {arrow}", task, group, metric, up) for group, (up, arrow) in ways.items()]
        grids.append(
            _by_method(
                panels,
                columns,
                point,
                name=name,
                caption=f"{name.capitalize()} (the paper's Table V): {metric} at {rate} {point:g}",
                notes=[
                    "Best values of a column within 0.002 in bold, f* excluded.",
                    f"By chance {'at most ' if task == '1:N' else ''}{point:g}. {CHANCE}",
                    MARKS,
                ],
            )
        )
    return grids


def text(panels: Sequence[Panel]) -> Grid:
    """The numbers that the paper gives in its text alone."""
    return _by_method(
        panels,
        [
            Column("EER R ↓", "1:1", "R", "EER", DOWN),
            Column("std R", "1:1", "R", "std"),
            Column("0.1% R", "1:1", "R", "quantile_0.001"),
            Column("single ↓", "1:1", "Ftr-Fev", ABOVE, DOWN),
            Column("averaged ↓", "1:1", AVERAGED, ABOVE, DOWN),
            Column("W1 to R ↓", "1:1", "Ftr-Fev", "W1_retain", DOWN),
            Column("T ↑", "1:1", "T", "TMR_eer", UP),
            Column("Fev-Fev ↓", "1:1", "Fev-Fev", "TMR_eer", DOWN),
        ],
        None,
        name="text",
        caption="The numbers of the paper's text (V-D to V-H)",
        notes=[
            "EER, standard deviation and 0.1 % quantile of the mated retain scores. Single and averaged: the share of "
            f"Ftr-Fev and of avg(Ftr)-Fev above the threshold at FMR {MARKED:g}. W1 to R: of Ftr-Fev to the non-mated "
            "retain scores. The last two: TMR at the threshold where the retain comparisons of the model have equal "
            "errors, as in the paper's Fig. 7. Best within 0.002 in bold, f* excluded. By chance single and "
            f"averaged are {MARKED:g}, the last two the EER.",
            MARKS,
        ],
    )


UP, DOWN = True, False


@dataclass(frozen=True)
class Column:
    """A column of a table that has one row per method. `higher` says whether higher or lower values are better; None:
    neither."""

    title: str
    task: str
    group: str
    metric: str
    higher: bool | None = None


def _by_method(
    panels: Sequence[Panel],
    columns: Sequence[Column],
    point: float | None,
    name: str,
    caption: str,
    notes: Sequence[str],
) -> Grid:
    """A table of one row per method, f* first, and the same columns in every panel."""
    titles = {variant: panel.results.titles[variant] for panel in panels for variant in panel.variants}
    maps = {variant for panel in panels for variant in panel.maps}
    titles = {variant: titles[variant] for variant in sorted(titles, key=maps.__contains__)}
    split = len(titles) - len(maps)
    rows = [[Cell(title)] for title in titles.values()]
    for panel in panels:
        for column in columns:
            wanted = [
                Quantity(panel.scale, variant, column.task, column.group, column.metric, point) for variant in titles
            ]
            found = [panel.results[quantity] for quantity in wanted]
            best = [False] * len(found)
            if column.higher is not None:
                best[1:split] = best_of([each.value for each in found[1:split]], column.higher)
            for row, quantity, each, good in zip(rows, wanted, found, best, strict=True):
                row.append(Cell(each.value, good, panel.results.marks(quantity), each.spread))
    return Grid(
        name=name,
        caption=caption,
        header=["Method", *[column.title for _ in panels for column in columns]],
        rows=rows,
        spans=[("", 1), *[(panel.title, len(columns)) for panel in panels]],
        breaks=kinds_of(list(titles), maps),
        notes=[*notes, *footnotes(panels)],
        row_variants=list(titles),
    )


def protocol(counts: Table) -> Grid:
    """The paper's Table II: identities and mated comparisons, one column per scale."""
    names = [name for name in counts.columns if name != "scale"]
    split = next(number for number, name in enumerate(names) if name.startswith("mated"))
    rows = [[Cell(name), *[Cell(int(value)) for value in counts[name]]] for name in names]
    return Grid(
        name="protocol",
        caption="Identities and mated comparisons of the protocols (the paper's Table II)",
        header=["", *counts["scale"].tolist()],
        rows=rows,
        breaks={0: "Identities", split: "Mated comparisons and images"},
        notes=["F train only: forget identities with too few capture instances to fill both partitions."],
    )
