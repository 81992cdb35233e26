"""A run beside the paper: every cell, the order of the methods in each row, and every difference that the text names.

A run's backbone is compared with the paper's of the same name, else a transformer with ViT-S and a convolutional one
with the iResNet-34. Its first scale stands for S1 and any other for S2, unless it is called so. A cell is compared at
the same operating point. A difference is looked up at the point that the text means, or, if the run cannot resolve it,
at the lowest that it can.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from scipy.stats import rankdata

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.reporting.findings.averaging import ABOVE
from damnatio.reporting.findings.claims import Finding
from damnatio.reporting.findings.evidence import AT_A_POINT, Evidence, Number
from damnatio.reporting.findings.verdict import EQUAL_ERRORS
from damnatio.reporting.grids import DOUBT
from damnatio.reporting.paper import facts
from damnatio.support.files import write_atomically
from damnatio.support.tables import Table

NAME = "against-paper"
METHODS = (ORIGINAL, "CURE", "NG+", "PD", "HD", "CP", "EC", "OF")
"""the order of the paper's tables"""
FEWEST = 3
"""methods that a rank correlation needs"""
AS_IN_THE_PAPER, REVERSED, NOISE, ABSENT = "as in the paper", "the other way round", "within the noise", "not measured"


@dataclass(frozen=True)
class Row:
    """What one row of a table of the paper measures, at one scale of one backbone."""

    title: str
    backbone: str
    scale: str
    task: str
    group: str
    metric: str
    point: float | None
    """the operating point; None for a distance"""


@dataclass(frozen=True)
class Cell:
    """One number of the paper and ours. A range of the paper has ends and no value; ours is NaN where there is none."""

    row: Row
    place: str
    method: str
    ours: Number
    paper: float
    low: float
    high: float
    doubtful: bool = False
    """whether the run has too few comparisons for this operating point"""

    @property
    def papers(self) -> str:
        """The paper's number as it prints it."""
        if not math.isnan(self.paper):
            return f"{self.paper:.3f}"
        if math.isnan(self.low):
            return f"≤ {self.high:.3f}"
        return f"≥ {self.low:.3f}" if math.isnan(self.high) else f"{self.low:.3f} to {self.high:.3f}"


@dataclass(frozen=True)
class Sign:
    """A difference that the text names, and whether the run has it."""

    difference: facts.Difference
    title: str
    point: float | None
    """where it was looked up; None for a distance"""
    higher: Number
    lower: Number
    outcome: str


@dataclass(frozen=True)
class Comparison:
    cells: list[Cell]
    signs: list[Sign]
    findings: Mapping[str, Sequence[Finding]]

    def correlations(self) -> dict[Row, tuple[int, float]]:
        """For each row: the methods that both have a number for, and the rank correlation over them."""
        rows: dict[Row, list[Cell]] = {}
        for cell in self.cells:
            rows.setdefault(cell.row, [])
            if cell.method != ORIGINAL and not (cell.ours.missing or math.isnan(cell.paper)):
                rows[cell.row].append(cell)
        return {
            row: (len(both), spearman([cell.ours.value for cell in both], [cell.paper for cell in both]))
            for row, both in rows.items()
        }

    def distinct(self) -> list[Sign]:
        """Each difference once, with all its places: the text names some of them several times."""
        found: dict[tuple[str, float | None, facts.Difference], Sign] = {}
        for sign in self.signs:
            key = sign.title, sign.point, replace(sign.difference, place="", point=0)
            places = [found[key].difference.place] if key in found else []
            place = ", ".join(dict.fromkeys([*", ".join(places).split(", "), sign.difference.place]))
            found[key] = replace(sign, difference=replace(sign.difference, place=place.removeprefix(", ")))
        return list(found.values())

    def write(self, folder: Path) -> None:
        """The page, and its three tables as CSV: cells, rows and signs."""
        write_atomically(folder / f"{NAME}.md", self.markdown())
        self._cells().write_csv(folder / f"{NAME}.csv")
        rows = [[*_row(row), *found] for row, found in self.correlations().items()]
        Table.of_rows([*_ROW, "methods", "rank_correlation"], rows).write_csv(folder / f"{NAME}-rows.csv")
        self._signs().write_csv(folder / f"{NAME}-signs.csv")

    def _cells(self) -> Table:
        names = [*_ROW, "place", "method", "ours", "ours_low", "ours_high", "paper", "paper_low", "paper_high"]
        rows = []
        for cell in self.cells:
            ours = [cell.ours.value, cell.ours.low, cell.ours.high]
            rows.append([*_row(cell.row), cell.place, cell.method, *ours, cell.paper, cell.low, cell.high])
        return Table.of_rows(names, rows)

    def _signs(self) -> Table:
        rows = []
        for sign in self.signs:
            d = sign.difference
            sides = [value for s in (d.higher, d.lower) for value in (s.backbone, s.scale, s.method, s.group)]
            values = [_or_nan(sign.point), sign.higher.value, sign.lower.value, sign.outcome]
            rows.append([d.place, sign.title, d.metric, *sides, *values])
        side = ["backbone", "scale", "method", "group"]
        names = ["place", "title", "metric", *(f"higher_{n}" for n in side), *(f"lower_{n}" for n in side)]
        return Table.of_rows([*names, "operating_point", "ours_higher", "ours_lower", "outcome"], rows)

    def markdown(self) -> str:
        lines = ["**This run beside the paper**", "", *self._summary(), ""]
        for title, found in self.findings.items():
            lines += [f"*Findings{', ' + title if title else ''}*", "", "| finding | verdict |", "| --- | --- |"]
            lines += [f"| {finding.number}. {finding.text} | {finding.verdict} |" for finding in found] + [""]
        correlations = self.correlations()
        for panel in dict.fromkeys((row.title, row.scale) for row in correlations):
            lines += [*self._panel(panel, correlations), ""]
        lines += ["*Differences that the paper's text names and this run does not have*", ""]
        lines += ["| place | the paper: higher | lower | ours | ours | |", "| --- " * 6 + "|"]
        lines += [_sign(sign) for sign in self.distinct() if sign.outcome in (REVERSED, NOISE)]
        return "\n".join(lines) + "\n"

    def _summary(self) -> Iterator[str]:
        counts = dict.fromkeys((AS_IN_THE_PAPER, REVERSED, NOISE, ABSENT), 0)
        signs = self.distinct()
        for sign in signs:
            counts[sign.outcome] += 1
        listed = ", ".join(f"{count} {what}" for what, count in counts.items())
        yield f"Of the {len(signs)} distinct differences that the text names: {listed}."
        known = [rank for _, rank in self.correlations().values() if not math.isnan(rank)]
        if known:
            yield f"The rank correlation over the methods has the median {median(known):.2f} over {len(known)} rows."
        doubts = any(cell.doubtful for cell in self.cells)
        note = f" {DOUBT} This run has too few comparisons for that operating point." if doubts else ""
        yield f"A cell is ours, then the paper's in brackets.{note}"

    def _panel(self, panel: tuple[str, str], correlations: Mapping[Row, tuple[int, float]]) -> Iterator[str]:
        """The table of one backbone and scale."""
        cells = {(cell.row, cell.method): cell for cell in self.cells}
        rows = [row for row in correlations if (row.title, row.scale) == panel]
        title = f"{panel[0]}, " if panel[0] else ""
        yield f"*{title}{panel[1]}, beside {facts.TITLES[rows[0].backbone]}*"
        yield ""
        names = ["f*" if method == ORIGINAL else method for method in METHODS]
        yield f"| task | group | rate | at | {' | '.join(names)} | rank correlation |"
        yield "| --- " * (len(METHODS) + 5) + "|"
        for row in rows:
            at = "" if row.point is None else f"{row.point:g}"
            shown = [_beside(cells.get((row, method))) for method in METHODS]
            rank = correlations[row][1]
            last = "" if math.isnan(rank) else f"{rank:.2f}"
            yield f"| {row.task} | {row.group} | {row.metric} | {at} | {' | '.join(shown)} | {last} |"


_ROW = ["title", "paper_backbone", "scale", "task", "group", "metric", "operating_point"]


def _row(row: Row) -> list[Any]:
    return [row.title, row.backbone, row.scale, row.task, row.group, row.metric, _or_nan(row.point)]


def _or_nan(point: float | None) -> float:
    return math.nan if point is None else point


def compare(evidence: Mapping[str, Evidence], found: Mapping[str, Sequence[Finding]]) -> Comparison:
    """The evidence of each experiment or backbone, by title, beside the paper."""
    cells = [cell for title, n in evidence.items() for scale in n.scales for cell in _cells(title, n, scale)]
    signs = [sign for difference in facts.differences() for sign in _signs(difference, evidence)]
    return Comparison(cells, signs, found)


def _cells(title: str, n: Evidence, scale: str) -> Iterator[Cell]:
    table, places = facts.results(), facts.places()
    backbone, papers = facts.like(n.backbone), "S2" if n.larger(scale) else "S1"
    printed = table.where((table["backbone"] == backbone) & (table["scale"] == papers))
    for number in printed.rows():
        point = None if math.isnan(number["operating_point"]) else number["operating_point"]
        row = Row(title, backbone, scale, number["task"], number["group"], number["metric"], point)
        ours = _number(n, number["method"], row.group, row.metric, scale, row.point)
        ranged = not (math.isnan(number["low"]) and math.isnan(number["high"]))
        value = math.nan if ranged else number["value"]
        place = places[backbone, papers, number["method"], row.group, row.metric]
        doubtful = row.metric in AT_A_POINT and point not in n.sound[row.task]
        yield Cell(row, place, number["method"], ours, value, number["low"], number["high"], doubtful)


def _number(n: Evidence, method: str, group: str, metric: str, scale: str, point: float | None) -> Number:
    """Our number for one of the paper's; two of its numbers are differences of ours."""
    if metric == "regained":
        return n.number(method, "avg(Ftr)-Fev", ABOVE, scale).minus(n.number(method, "Ftr-Fev", ABOVE, scale))
    if metric == f"{EQUAL_ERRORS}_loss":
        return n.number(ORIGINAL, group, EQUAL_ERRORS, scale).minus(n.number(method, group, EQUAL_ERRORS, scale))
    return n.number(method, group, metric, scale, point)


def _signs(difference: facts.Difference, evidence: Mapping[str, Evidence]) -> Iterator[Sign]:
    """The difference in each experiment that has its backbone; between two backbones, in the first of each."""
    higher, lower = (_having(side.backbone, evidence) for side in (difference.higher, difference.lower))
    if difference.higher.backbone == difference.lower.backbone:
        pairs = [(title, evidence[title], evidence[title]) for title in higher]
    elif set(higher) & set(lower):
        pairs = []
    else:
        pairs = [(f"{a}, {b}", evidence[a], evidence[b]) for a in higher[:1] for b in lower[:1]]
    for title, one, other in pairs:
        sound = [point for point in one.sound[difference.task] if point in other.sound[difference.task]]
        point = difference.point if difference.point in sound else next(iter(sound), None)
        a, b = (
            _number(n, side.method, side.group, difference.metric, _scale(n, side.scale), point)
            for n, side in ((one, difference.higher), (other, difference.lower))
        )
        at = point if difference.metric in AT_A_POINT else None
        yield Sign(difference, title, at, a, b, _outcome(one, a, b))
    if not pairs:
        nothing = Number(math.nan, math.nan, math.nan)
        yield Sign(difference, "", None, nothing, nothing, ABSENT)


def _having(backbone: str, evidence: Mapping[str, Evidence]) -> list[str]:
    """The experiments that stand for a backbone of the paper: of its name, else of its type."""
    named = [title for title, n in evidence.items() if n.backbone == backbone]
    kind = facts.is_transformer(backbone)
    return named or [title for title, n in evidence.items() if n.transformer == kind]


def _scale(n: Evidence, papers: str) -> str:
    """The run's scale that stands for one of the paper's; one that it does not have if there is none."""
    return next((scale for scale in n.scales if n.larger(scale) == (papers == "S2")), "")


def _outcome(n: Evidence, higher: Number, lower: Number) -> str:
    if higher.missing or lower.missing:
        return ABSENT
    if n.exceeds(higher, lower):
        return AS_IN_THE_PAPER
    return REVERSED if n.exceeds(lower, higher) else NOISE


def spearman(first: Sequence[float], second: Sequence[float], decimals: int = 3) -> float:
    """Spearman's rank correlation. Values that are equal to so many decimals share their rank: three, as the paper
    prints them. NaN for fewer than three pairs, or where all are equal."""
    if len(first) < FEWEST:
        return math.nan
    ranks = [rankdata(np.round(values, decimals)) for values in (first, second)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return math.nan
    return float(np.corrcoef(*ranks)[0, 1])


def mean_of(tables: Sequence[Table]) -> Table:
    """The means over runs that differ in their seeds alone, of the rows that all of them have. Ends of intervals are
    averaged as well, which makes them wide rather than narrow; counts and subjects are added up."""
    if len(tables) == 1:
        return tables[0]
    names = ("backbone", "scale", "method", "task", "group", "operating_point", "metric")
    keyed = [{tuple(str(row[name]) for name in names): row for row in table.rows()} for table in tables]
    rows = []
    for key, row in keyed[0].items():
        mine = [table[key] for table in keyed if key in table]
        if len(mine) == len(keyed):
            means = {n: fmean(each[n] for each in mine) for n in ("value", "low", "high", "wilson_low", "wilson_high")}
            rows.append({**row, **means, **{n: sum(each[n] for each in mine) for n in ("count", "subjects")}})
    return Table({name: [row[name] for row in rows] for name in tables[0].columns})


def _beside(cell: Cell | None) -> str:
    if cell is None:
        return ""
    ours = "-" if cell.ours.missing else f"{cell.ours.value:.3f}"
    return f"{ours}{DOUBT * cell.doubtful} ({cell.papers})"


def _sign(sign: Sign) -> str:
    d = sign.difference
    at = "" if sign.point is None else f" at {sign.point:g}"
    sides = []
    for side, other in ((d.higher, d.lower), (d.lower, d.higher)):
        parts = ["f*" if side.method == ORIGINAL else side.method, d.metric, side.group + at]
        parts += [side.scale] + ([facts.TITLES[side.backbone]] if side.backbone != other.backbone else [])
        sides.append(" ".join(parts))
    values = f"{sign.higher.value:.4g} | {sign.lower.value:.4g}"
    return (
        f"| {d.place} | {sides[0]} | {sides[1]} | {values} | {sign.outcome}{', ' + sign.title if sign.title else ''} |"
    )
