"""The paper's Table V as a figure: the rates of each group, across experiments."""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from damnatio.reporting.layouts import Panel
from damnatio.reporting.looks import COLOURS, STYLE, in_order, save
from damnatio.reporting.lookup import Quantity
from damnatio.reporting.trade_off import MARKERS

GROUPS = (
    *(("1:1", group, "TMR") for group in ("R", "T", "Ftr-Ftr", "Ftr-Fev", "Fev-Fev")),
    *(("1:N", group, "TPIR") for group in ("R", "T", "Ftr", "Fev")),
)


def rates_by_group(panels: Sequence[Panel], point: float, folder: Path) -> None:
    """Every rate of the paper's Table V as a dot: one plot per group, one column per method, one marker per panel."""
    titles = in_order(list(dict.fromkeys(variant for panel in panels for variant in panel.variants)))
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
