"""The figures of a joined report: what forgetting costs, and the rates of each group, across experiments."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.reporting.figures import COLOURS, STYLE, save
from damnatio.reporting.layouts import Panel
from damnatio.reporting.lookup import Measured, Quantity

MARKERS = "osD^vP<>Xph"
GROUPS = (
    *(("1:1", group, "TMR") for group in ("R", "T", "Ftr-Ftr", "Ftr-Fev", "Fev-Fev")),
    *(("1:N", group, "TPIR") for group in ("R", "T", "Ftr", "Fev")),
)


def trade_off(panels: Sequence[Panel], point: float, folder: Path) -> None:
    """The paper's Fig. 7: weak and strong forgetting against their costs. One row per scale, one marker per experiment,
    one colour per method."""
    scales = list(dict.fromkeys(panel.scale for panel in panels))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.5, 3.6 * len(scales)), layout="constrained")
        axes = figure.subplots(len(scales), 2, squeeze=False)
        for row, scale in zip(axes, scales, strict=True):
            _weak(row[0], panels, scale, point)
            _strong(row[1], panels, scale)
            for axis, kind in zip(row, ("weak", "strong"), strict=True):
                axis.set(title=f"{scale}: {kind} forgetting", ylim=(min(0.0, axis.get_ylim()[0]), None))
                axis.grid(color="#dddddd", lw=0.4)
        figure.legend(handles=_legend(panels), loc="outside right center")
        save(figure, folder, "trade-off")


def _weak(axis: Any, panels: Sequence[Panel], scale: str, point: float) -> None:
    """New photographs of the forgotten that are still linked, against the test TMR that was lost."""
    for panel in panels:
        if panel.scale == scale:
            before = panel.results[Quantity(scale, ORIGINAL, "1:1", "T", "TMR", point)].value
            found = {}
            for variant in panel.variants:
                test = panel.results[Quantity(scale, variant, "1:1", "T", "TMR", point)]
                linked = panel.results[Quantity(scale, variant, "1:1", "Fev-Fev", "TMR", point)]
                found[variant] = Measured(before - test.value, spread=test.spread), linked
            _draw(axis, panels, panel, found)
    axis.set(xlabel=f"test TMR lost, at FMR {point:g}", ylabel=f"TMR of Fev-Fev at FMR {point:g}")


def _strong(axis: Any, panels: Sequence[Panel], scale: str) -> None:
    """How far the scores of seen photographs stay from those of strangers, against the footprint."""
    for panel in panels:
        if panel.scale == scale:
            found = {
                variant: (
                    panel.results[Quantity(scale, variant, "1:1", "R", "footprint")],
                    panel.results[Quantity(scale, variant, "1:1", "Ftr-Ftr", "W1")],
                )
                for variant in panel.variants
            }
            _draw(axis, panels, panel, found)
    axis.set(xlabel="footprint", ylabel="W1 of Ftr-Ftr to the non-mated test scores")


def _draw(axis: Any, panels: Sequence[Panel], panel: Panel, found: dict[str, tuple[Measured, Measured]]) -> None:
    """One marker per method of a panel, filled if no other method of the panel dominates it; f* is black."""
    altered = [variant for variant in panel.variants if variant != ORIGINAL]
    front = dict(
        zip(altered, undominated([(x.value, y.value) for x, y in map(found.__getitem__, altered)]), strict=True)
    )
    marker, titles = _marker(panels, panel), _titles(panels)
    for variant, (x, y) in found.items():
        colour = "#222222" if variant == ORIGINAL else COLOURS[1 + titles.index(variant) % (len(COLOURS) - 1)]
        axis.errorbar(
            x.value,
            y.value,
            xerr=None if math.isnan(x.spread) else x.spread,
            yerr=None if math.isnan(y.spread) else y.spread,
            marker=marker,
            ms=6,
            color=colour,
            mfc=colour if front.get(variant) else "white",
            elinewidth=0.6,
            ls="",
        )


def undominated(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Whether no other point is as low on both axes and lower on one. NaN is dominated by everything."""
    known = [(x, y) for x, y in points if not (math.isnan(x) or math.isnan(y))]
    return [(x, y) in known and not any(a <= x and b <= y and (a < x or b < y) for a, b in known) for x, y in points]


def rates_by_group(panels: Sequence[Panel], point: float, folder: Path) -> None:
    """Every rate of the paper's Table V as a dot: one plot per group, one column per method, one marker per panel."""
    titles = [ORIGINAL, *_titles(panels)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 5), layout="constrained")
        axes = figure.subplots(2, 5, sharey=True).ravel()
        for axis, (task, group, metric) in zip(axes, GROUPS, strict=False):
            for number, panel in enumerate(panels):
                aside = 0.6 * ((number + 0.5) / len(panels) - 0.5)
                for variant in panel.variants:
                    found = panel.results[Quantity(panel.scale, variant, task, group, metric, point)]
                    axis.errorbar(
                        titles.index(variant) + aside,
                        found.value,
                        yerr=None if math.isnan(found.spread) else found.spread,
                        marker=MARKERS[number % len(MARKERS)],
                        color=COLOURS[number % len(COLOURS)],
                        ms=3.5,
                        elinewidth=0.8,
                        ls="",
                    )
            axis.set(title=f"{task}  {group}", ylim=(-0.03, 1.03), xlim=(-0.6, len(titles) - 0.4))
            axis.set_xticks(range(len(titles)), ["f*", *titles[1:]], rotation=90)
            axis.grid(color="#dddddd", lw=0.4, axis="y")
        axes[0].set_ylabel(f"TMR at FMR {point:g}")
        axes[5].set_ylabel(f"TPIR at FPIR {point:g}")
        axes[9].set_axis_off()
        lines = [
            Line2D([], [], marker=MARKERS[i % len(MARKERS)], color=COLOURS[i % len(COLOURS)], ls="", label=panel.title)
            for i, panel in enumerate(panels)
        ]
        axes[9].legend(handles=lines, loc="center")
        save(figure, folder, "rates-by-group")


def _titles(panels: Sequence[Panel]) -> list[str]:
    """All variants but f*, in the order of the tables."""
    every = dict.fromkeys(variant for panel in panels for variant in panel.variants)
    return [variant for variant in every if variant != ORIGINAL]


def _marker(panels: Sequence[Panel], panel: Panel) -> str:
    """One marker per experiment: panels of one experiment share their results."""
    return MARKERS[_experiments(panels).index(panel.results) % len(MARKERS)]


def _experiments(panels: Sequence[Panel]) -> list[Any]:
    return list(dict.fromkeys(panel.results for panel in panels))


def _legend(panels: Sequence[Panel]) -> list[Line2D]:
    lines = [Line2D([], [], marker="o", color="#222222", mfc="white", ls="", label="f*")]
    for number, variant in enumerate(_titles(panels)):
        colour = COLOURS[1 + number % (len(COLOURS) - 1)]
        lines.append(Line2D([], [], marker="o", color=colour, ls="", label=variant))
    experiments = _experiments(panels)
    if len(experiments) > 1:
        for number, results in enumerate(experiments):
            title = next(panel.title for panel in panels if panel.results is results)
            mark = MARKERS[number % len(MARKERS)]
            lines.append(Line2D([], [], marker=mark, color="#777777", mfc="white", ls="", label=title))
    return lines
