"""The paper's Fig. 7: weak and strong forgetting against their costs, with the Pareto front of each panel."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.reporting.layouts import Panel
from damnatio.reporting.looks import BLACK, STYLE, colours_of, in_order, save
from damnatio.reporting.lookup import Measured, Quantity
from damnatio.reporting.pareto import dominated

NAME = "trade-off"
MARKERS = "osD^vP<>Xph"
LINEAR = 0.02
"""Costs and distances up to here are drawn in proportion and larger ones by their logarithm: a model that was destroyed
costs a hundred times what a good one does."""
CAPTION = (
    "Left: by how much the TMR between two new photographs of a forgotten person fell, against the TMR of strangers "
    "that was lost, both at the threshold where the retain comparisons of the model have equal errors. Right: how far "
    "the scores of seen photographs stay from those of strangers, against the footprint; dotted: under f*. A filled "
    "marker is on the Pareto front of its panel: no other method forgets more at no greater cost. Costs and distances "
    "above 0.02 are drawn by their logarithm."
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
    """One row per scale, one marker per experiment, one colour per method. With one experiment, methods are named at
    their markers; with several, in the legend."""
    scales = list(dict.fromkeys(panel.scale for panel in panels))
    named = len(_experiments(panels)) == 1
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 2.9 * len(scales) + (0 if named else 0.5)), layout="constrained")
        axes = figure.subplots(len(scales), 2, squeeze=False)
        for row, scale in zip(axes, scales, strict=True):
            mine = [panel for panel in panels if panel.scale == scale]
            _draw(row[0], panels, mine, weak, higher=True)
            row[0].set(
                title=f"{scale}: weak forgetting, at the retain EER threshold",
                xlabel="loss in test TMR  (← better)",
                ylabel="reduction of Fev-Fev TMR  (better →)",
            )
            for panel in mine:
                before = panel.results[Quantity(scale, ORIGINAL, "1:1", "Ftr-Ftr", "W1")].value
                row[1].axhline(before, color=BLACK, lw=0.7, ls=":")
            _draw(row[1], panels, mine, strong, higher=False)
            row[1].set(
                title=f"{scale}: strong forgetting",
                xlabel="footprint  (← better)",
                ylabel="$W_1$ of Ftr-Ftr to strangers  (← better)",
            )
        handles = _experiment_handles(panels)
        if not named:
            handles = _method_handles(panels) + handles
        handles += [
            Line2D([], [], marker="o", color="#777777", ls="", ms=5, label="on the front"),
            Line2D([], [], marker="o", color="#777777", mfc="white", ls="", ms=5, label="dominated"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 8), handletextpad=0.2)
        figure.canvas.draw()  # labels need to know where the markers are
        if named:
            for axis in axes.ravel():
                _name_markers(axis)
        save(figure, folder, NAME)


def _draw(
    axis: Any, every: Sequence[Panel], panels: Sequence[Panel], where: Callable[[Panel], Spots], *, higher: bool
) -> None:
    colours = colours_of(_variants(every))
    costs, heights = [0.0], list[float]()
    for panel in panels:
        spots = where(panel)
        filled, marker = front(spots, higher), _marker(every, panel)
        for variant, spot in spots.items():
            if math.isnan(spot.cost.value) or math.isnan(spot.forgotten.value):
                continue
            axis.errorbar(
                spot.cost.value,
                spot.forgotten.value,
                xerr=None if math.isnan(spot.cost.spread) else spot.cost.spread,
                yerr=None if math.isnan(spot.forgotten.spread) else spot.forgotten.spread,
                marker=marker,
                ms=5.5,
                color=colours[variant],
                mfc=colours[variant] if filled[variant] else "white",
                elinewidth=0.6,
                ls="",
                gid=f"{variant}:{panel.results.titles[variant]}",
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
        room = 0.12 * max(max(heights) - min(heights), 0.02)
        axis.set_ylim(min(heights) - room, max(heights) + room)
    axis.grid(color="#e2e2e2", lw=0.4)


def _ticked(axis: Any, values: Sequence[float]) -> tuple[float, float]:
    """Set the ticks of an axis that is proportional up to `LINEAR` and logarithmic beyond; the limits for it."""
    largest = max(values)
    ticks = [tick for tick in (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if tick <= max(1.3 * largest, LINEAR)]
    axis.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)
    return min(-0.004, min(values) - 0.004), max(1.45 * largest, 1.2 * LINEAR)


def _levels(axis: Any) -> list[float]:
    """The heights of the dotted lines."""
    return [float(line.get_ydata()[0]) for line in axis.lines if line.get_linestyle() == ":"]


def _name_markers(axis: Any) -> None:
    """Write the name of each method beside its marker, where it covers the fewest markers and names."""
    marked = [line for line in axis.lines if line.get_gid()]
    taken = [(*axis.transData.transform((line.get_xdata()[0], line.get_ydata()[0])), 5.0, 5.0) for line in marked]
    dots = axis.figure.dpi / 72
    low, high = axis.bbox.min, axis.bbox.max
    for line, (x, y, _, _) in zip(marked, list(taken), strict=True):
        title = line.get_gid().split(":", 1)[1]
        half, tall = 2.6 * len(title) * dots, 4.2 * dots
        places = []
        for reach in (1.0, 1.9, 2.8):
            for right, up in ((1, 0), (0, 1), (0, -1), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)):
                to = (x + right * (half + 5 * reach * dots), y + up * (tall + 3.5 * reach * dots))
                covered = sum(
                    abs(to[0] - other[0]) < half + other[2] and abs(to[1] - other[1]) < tall + other[3]
                    for other in taken
                )
                outside = not (low[0] < to[0] - half and to[0] + half < high[0] and low[1] < to[1] < high[1])
                places.append((covered + 3 * outside + 0.3 * reach, to))
        to = min(places)[1]
        taken.append((*to, half, tall))
        ahead = ((to[0] - x) / dots, (to[1] - y) / dots)
        axis.annotate(
            title,
            (line.get_xdata()[0], line.get_ydata()[0]),
            ahead,
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=7,
            color=line.get_color(),
        )


def _variants(panels: Sequence[Panel]) -> list[str]:
    """All variants but f*, in the order of the tables."""
    every = dict.fromkeys(variant for panel in panels for variant in panel.variants)
    return in_order([variant for variant in every if variant != ORIGINAL])


def _experiments(panels: Sequence[Panel]) -> list[Any]:
    """Panels of one experiment share their results."""
    return list(dict.fromkeys(panel.results for panel in panels))


def _marker(panels: Sequence[Panel], panel: Panel) -> str:
    return MARKERS[_experiments(panels).index(panel.results) % len(MARKERS)]


def _method_handles(panels: Sequence[Panel]) -> list[Line2D]:
    variants = _variants(panels)
    colours = colours_of(variants)
    titles = {variant: title for panel in panels for variant, title in panel.results.titles.items()}
    return [Line2D([], [], marker="o", color=colours[v], ls="", ms=5, label=titles[v]) for v in variants]


def _experiment_handles(panels: Sequence[Panel]) -> list[Line2D]:
    experiments = _experiments(panels)
    if len(experiments) == 1:
        return []
    handles = []
    for number, results in enumerate(experiments):
        title = next(panel.title for panel in panels if panel.results is results)
        mark = MARKERS[number % len(MARKERS)]
        handles.append(Line2D([], [], marker=mark, color="#777777", mfc="white", ls="", ms=5, label=title))
    return handles
