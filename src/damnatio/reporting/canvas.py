"""What all figures share: the width of a column of the paper, fonts that can be read there, legends that cover nothing,
and the files."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

WIDTH = 3.5
"""inches: a column of the paper"""
SMALL, NORMAL = 6.5, 7.0
"""sizes of fonts in points. Nothing is smaller, so no text has mathematical subscripts."""
Where = Literal["lower", "upper"]
GRID: Any = {"color": "#e2e2e2", "lw": 0.4}
STYLE: Any = {
    "font.size": NORMAL,
    "axes.titlesize": NORMAL,
    "axes.labelsize": NORMAL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "figure.titlesize": NORMAL,
    "axes.titlepad": 3,
    "axes.labelpad": 2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.pad": 2,
    "ytick.major.pad": 2,
    "lines.markersize": 3.2,
    "legend.frameon": False,
    "legend.handletextpad": 0.4,
    "legend.columnspacing": 1.0,
    "legend.labelspacing": 0.3,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    "svg.fonttype": "path",  # a page must not depend on the fonts of its reader
    "svg.hashsalt": "damnatio",  # equal runs write equal files
    "pdf.fonttype": 42,  # publishers refuse fonts of type 3
}
FORMATS: dict[str, dict[str, Any]] = {
    "png": {"dpi": 300, "metadata": {"Software": None}},
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
}


def column(height: float) -> Figure:
    """An empty figure as wide as a column."""
    return Figure(figsize=(WIDTH, height), layout="constrained")


def decades(axis: Any) -> None:
    """Powers of ten on a logarithmic axis, at most four of them, written as 1e-4: an exponent would be too small."""
    axis.set_major_locator(LogLocator(numticks=4))
    axis.set_major_formatter(lambda value, _: f"1e{round(math.log10(value))}" if value < 1 else f"{value:g}")
    axis.set_minor_locator(NullLocator())


def drawn_in(axes: Iterable[Any]) -> dict[str, Artist]:
    """What has a label in any of the panels, by label. Of equal labels the first counts."""
    found: dict[str, Artist] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return found


def legend(figure: Figure, entries: Mapping[str, Artist], where: Where = "lower", handle: float = 2.8) -> None:
    """A legend outside all panels, in as many columns as fit. `handle` is the length of a line in it, in ems."""
    for columns in range(min(len(entries), 6), 0, -1):
        drawn = figure.legend(
            handles=list(entries.values()),
            labels=list(entries),
            loc="outside lower center" if where == "lower" else "outside upper center",
            ncols=math.ceil(len(entries) / math.ceil(len(entries) / columns)),
            handlelength=handle,
        )
        if columns == 1 or drawn.get_window_extent().width <= figure.bbox.width:
            return
        drawn.remove()


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure in all formats. None of them holds a date, so equal figures are equal files."""
    for ending, options in FORMATS.items():
        figure.savefig(folder / f"{name}.{ending}", **options)
