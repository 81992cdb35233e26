"""The paper's Fig. 7: weak and strong forgetting against their costs, with the Pareto front of each panel."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.lines import Line2D

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.reporting.canvas import GRID, STYLE, column, drawn_in, legend, save
from damnatio.reporting.looks import BLACK, Look, in_order, looks_of
from damnatio.reporting.lookup import Measured, Quantity
from damnatio.reporting.panels import Panel
from damnatio.reporting.pareto import dominated

NAME = "trade-off"
HOLLOW = "none"  # what lies behind a marker stays visible
LINEAR = 0.02
"""Costs and distances up to here are drawn in proportion and larger ones by their logarithm: a model that was destroyed
costs a hundred times what a good one does."""
CAPTION = (
    "Left: by how much the TMR between two new photographs of a forgotten person fell, against the TMR of strangers "
    "that was lost, both at the threshold where the retain comparisons of the model have equal errors. Right: how far "
    "the scores of seen photographs stay from those of strangers, against the footprint. A filled marker is on the "
    "Pareto front of its panel: no other method forgets more at no greater cost. Costs and distances above 0.02 are "
    "drawn by their logarithm."
)


@dataclass(frozen=True)
class Spot:
    """Where a method stands: its cost, and what forgetting it reached."""

    cost: Measured
    forgotten: Measured


Spots = dict[str, Spot]
"""by variant"""


def weak(panel: Panel) -> Spots:
    """The loss in test TMR, and the reduction of the TMR between new photographs of the forgotten."""
    return {
        variant: Spot(_lost(panel, variant, "T"), _lost(panel, variant, "Fev-Fev"))
        for variant in panel.variants
        if variant != ORIGINAL
    }


def strong(panel: Panel) -> Spots:
    """The footprint, and the distance of seen photographs' scores to those of strangers."""
    return {
        variant: Spot(
            panel.results[Quantity(panel.scale, variant, "1:1", "R", "footprint")],
            panel.results[Quantity(panel.scale, variant, "1:1", "Ftr-Ftr", "W1")],
        )
        for variant in panel.variants
        if variant != ORIGINAL
    }


def _lost(panel: Panel, variant: str, group: str) -> Measured:
    """By how much the TMR of a group fell, at each model's own equal-error threshold of R."""
    before, after = (
        panel.results[Quantity(panel.scale, name, "1:1", group, "TMR_eer")] for name in (ORIGINAL, variant)
    )
    return Measured(before.value - after.value, spread=after.spread)


def front(spots: Spots, higher: bool) -> dict[str, bool]:
    """Whether each variant is on the front; `higher` says that more of what is forgotten is better, not less."""
    sign = -1 if higher else 1
    points = [(spot.cost.value, sign * spot.forgotten.value) for spot in spots.values()]
    return {variant: not below for variant, below in zip(spots, dominated(points), strict=True)}


def trade_off(panels: Sequence[Panel], folder: Path) -> None:
    """One row per experiment and scale: weak forgetting on the left, strong forgetting on the right."""
    looks = looks_of(_variants(panels))
    with mpl.rc_context(STYLE):
        figure = column(0.5 + 1.75 * len(panels))
        axes = figure.subplots(len(panels), 2, squeeze=False)
        for (left, right), panel in zip(axes, panels, strict=True):
            _draw(left, panel, weak(panel), looks, higher=True)
            left.set(
                title=f"{panel.title}\nweak forgetting",
                xlabel="test TMR lost (← better)",
                ylabel="Fev-Fev TMR lost\n(better →)",
            )
            before = panel.results[Quantity(panel.scale, ORIGINAL, "1:1", "Ftr-Ftr", "W1")].value
            right.axhline(before, color=BLACK, lw=0.7, ls=":", label="under f*")
            _draw(right, panel, strong(panel), looks, higher=False)
            right.set(
                title=f"{panel.title}\nstrong forgetting",
                xlabel="footprint (← better)",
                ylabel="W1 of Ftr-Ftr\n(← better)",
            )
        legend(figure, _legend(panels, looks, axes.ravel()), handle=1.5)
        save(figure, folder, NAME)


def _draw(axis: Any, panel: Panel, spots: Spots, looks: Mapping[str, Look], *, higher: bool) -> None:
    costs, heights = [0.0], list[float]()
    filled = front(spots, higher)
    for variant, spot in spots.items():
        if math.isnan(spot.cost.value) or math.isnan(spot.forgotten.value):
            continue
        axis.errorbar(
            spot.cost.value,
            spot.forgotten.value,
            xerr=None if math.isnan(spot.cost.spread) else spot.cost.spread,
            yerr=None if math.isnan(spot.forgotten.spread) else spot.forgotten.spread,
            **_point(looks[variant], filled[variant]),
            elinewidth=0.6,
            gid=variant,
            zorder=3,
        )
        costs.append(spot.cost.value)
        heights.append(spot.forgotten.value)
    axis.set_xscale("symlog", linthresh=LINEAR, linscale=1.2)
    axis.set_xlim(*_ticked(axis.xaxis, costs))
    if not higher:
        axis.set_yscale("symlog", linthresh=LINEAR, linscale=1.2)
        axis.set_ylim(*_ticked(axis.yaxis, [0.0, *heights, *_levels(axis)]))
    elif heights:
        low, high = min(0.0, *heights), max(0.1, *heights)
        axis.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    axis.grid(**GRID)


def _point(look: Look, filled: bool) -> dict[str, Any]:
    """A marker as matplotlib takes it: filled on the front, hollow elsewhere."""
    return {
        "marker": look.marker,
        "ms": 1.4 * look.size,
        "color": look.colour,
        "mfc": look.colour if filled else HOLLOW,
        "mew": 0.9,
        "ls": "",
    }


def _ticked(axis: Any, values: Sequence[float]) -> tuple[float, float]:
    """Set the ticks of an axis that is proportional up to `LINEAR` and logarithmic beyond; the limits for it."""
    smallest, largest = min(values), max(values)
    beyond = (0.02,) if largest <= 0.03 else (0.05,) if largest <= 0.07 else (0.1, 1.0)
    below = [tick for tick in (-1.0, -0.1, -0.05, -0.02, -0.01) if tick >= smallest - 0.004][:1]
    ticks = (*below, 0.0, *(() if below else (0.01,)), *beyond)  # as many as have room in half a column
    axis.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axis.set_ticks([0.02, 0.05, 0.2, 0.5], minor=True)
    return min(-0.004, smallest - 0.004, 1.45 * smallest), max(1.45 * largest, 1.2 * LINEAR)


def _levels(axis: Any) -> list[float]:
    """The heights of the dotted lines."""
    return [float(line.get_ydata()[0]) for line in axis.lines if line.get_linestyle() == ":"]


def _variants(panels: Sequence[Panel]) -> list[str]:
    """All variants but f*, in the order of the tables."""
    every = dict.fromkeys(variant for panel in panels for variant in panel.variants)
    return in_order([variant for variant in every if variant != ORIGINAL])


def _legend(panels: Sequence[Panel], looks: Mapping[str, Look], axes: Iterable[Any]) -> dict[str, Artist]:
    """What is drawn: the methods in the order of the tables, then what the filling says, then the line of f*."""
    titles = {variant: title for panel in panels for variant, title in panel.results.titles.items()}
    markers = [line for axis in axes for line in axis.lines if line.get_gid()]
    drawn = {line.get_gid() for line in markers}
    entries: dict[str, Artist] = {
        titles[variant]: Line2D([], [], **_point(looks[variant], filled=True)) for variant in looks if variant in drawn
    }
    hollow = {line.get_markerfacecolor() == HOLLOW for line in markers}
    for label, is_hollow in (("on the front", False), ("dominated", True)):
        if is_hollow in hollow:
            look = Look("#777777", "#777777", "o", ())
            entries[label] = Line2D([], [], **_point(look, filled=not is_hollow))
    return entries | drawn_in(axes)
