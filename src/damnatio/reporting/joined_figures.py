"""The paper's Table V as a figure: the rates of each group, across experiments."""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.lines import Line2D

from damnatio.reporting.canvas import GRID, STYLE, WIDTH, column, legend, save
from damnatio.reporting.figures import PANELS, RATES, WORDS
from damnatio.reporting.looks import OTHERS, in_order
from damnatio.reporting.lookup import Quantity
from damnatio.reporting.panels import Panel


def rates_by_group(panels: Sequence[Panel], point: float, folder: Path) -> None:
    """Every rate of the paper's Table V as a dot: one plot per group, one column per method, one marker per panel."""
    titles = {variant: title for panel in panels for variant, title in panel.results.titles.items()}
    variants = in_order(list(dict.fromkeys(variant for panel in panels for variant in panel.variants)))
    entries: dict[str, Artist] = {}
    with mpl.rc_context(STYLE):
        figure = column(7.8)
        axes = figure.subplots(len(PANELS), 1, sharex=True, sharey=True)
        for axis, (task, group) in zip(axes, sorted(PANELS, key=lambda panel: panel[0]), strict=True):
            across, up = RATES[task]
            for number, panel in enumerate(panels):
                look, aside = OTHERS[number % len(OTHERS)], 0.8 * ((number + 0.5) / len(panels) - 0.5)
                dot: dict[str, Any] = {"marker": look.marker, "color": look.colour, "ms": 0.75 * look.size, "ls": ""}
                entries[panel.title] = Line2D([], [], **dot)
                for variant in panel.variants:
                    found = panel.results[Quantity(panel.scale, variant, task, group, up, point)]
                    spread = None if math.isnan(found.spread) else found.spread
                    axis.errorbar(variants.index(variant) + aside, found.value, yerr=spread, elinewidth=0.6, **dot)
            axis.set(title=f"{task}  {WORDS.get(group, group)}: {up} at {across} {point:g}")
            axis.set(ylim=(-0.1, 1.1), yticks=[0, 1], xlim=(-0.5, len(variants) - 0.5))
            axis.set_yticks([0.5], minor=True)
            axis.grid(**GRID, axis="y", which="both")
            for between in range(1, len(variants)):
                axis.axvline(between - 0.5, **GRID, zorder=0)
        names = [titles[variant] for variant in variants]
        longest = max((len(one) + len(two) for one, two in pairwise(names)), default=0) / 2
        axes[-1].set_xticks(range(len(names)), names, rotation=0 if 0.06 * longest * len(names) < WIDTH else 90)
        legend(figure, entries, handle=1.0)
        save(figure, folder, "rates-by-group")
