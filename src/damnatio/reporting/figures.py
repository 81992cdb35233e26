"""The paper's figures, drawn from the outputs of the evaluation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from damnatio.embedding import Example
from damnatio.evaluation.protocol import AVERAGED
from damnatio.faces.base import Images
from damnatio.metrics.distributions import EDGES
from damnatio.support.tables import Table

FIGURE_FMR = 1e-3
"""The figure of distributions shows the threshold of this operating point, as the paper's figure does."""

STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "svg.fonttype": "path",  # a page must not depend on the fonts of its reader
    "svg.hashsalt": "damnatio",  # equal runs write equal files
}
COLOURS = [
    *("#222222", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#7f3c8d", "#777777"),
    *("#c1121f", "#7cb518", "#1b3a8f", "#f4a6c0"),
]
"""more than there are methods, so that no two lines of a figure look alike"""


@dataclass(frozen=True)
class Drawn:
    """The data of one evaluated model that figures show."""

    scale: str
    title: str
    sketches: dict[str, NDArray[np.int64]]
    curves: Table


_COLUMNS = [
    ("Retain $\\mathcal{R}$", "R", "R"),
    ("Test $\\mathcal{T}$", "T", "T"),
    ("$\\mathcal{F}_{ev}$ – $\\mathcal{F}_{ev}$", "Fev-Fev", "FevxFev"),
    ("$\\mathcal{F}_{tr}$ – $\\mathcal{F}_{tr}$", "Ftr-Ftr", "FtrxFtr"),
    ("$\\mathcal{F}_{tr}$ – $\\mathcal{F}_{ev}$", "Ftr-Fev", "FtrxFev"),
    ("averaged $\\mathcal{F}_{tr}$ – $\\mathcal{F}_{ev}$", AVERAGED, AVERAGED),
]


def distributions(models: Sequence[Drawn], folder: Path, name: str) -> None:
    """Mated (solid) and non-mated (dashed) scores: one row per model, one column per group."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 0.6 + 1.25 * len(models)), layout="constrained")
        axes = figure.subplots(len(models), len(_COLUMNS), sharex=True, squeeze=False)
        for row, model in zip(axes, models, strict=True):
            threshold = _threshold(model.curves)
            for axis, (title, mated, nonmated) in zip(row, _COLUMNS, strict=True):
                colour = "#b3392f" if "F" in mated else "#2f6db3"
                for counts, style, tone in (
                    (model.sketches[f"non-mated/{nonmated}"], "--", "#555555"),
                    (model.sketches[f"mated/{mated}"], "-", colour),
                ):
                    centres, density = _density(counts)
                    axis.plot(centres, density, style, color=tone, lw=1.0)
                    if style == "-":
                        axis.fill_between(centres, density, color=tone, alpha=0.18, lw=0)
                if threshold is not None:
                    axis.axvline(threshold, color="black", lw=0.7, ls=":")
                axis.set(yticks=[], xlim=(-0.75, 1.02), ylim=(0, None))
                if model is models[0]:
                    axis.set_title(title)
                if model is models[-1]:
                    axis.set_xlabel("cosine similarity")
            row[0].set_ylabel(model.title, rotation=0, ha="right", va="center", fontsize=10)
        figure.suptitle(
            f"{models[0].scale}: mated (solid) and non-mated (dashed) scores; dotted: threshold at FMR {FIGURE_FMR:g}",
            fontsize=9,
        )
        save(figure, folder, name)


def _threshold(curves: Table) -> float | None:
    at = (curves["task"] == "1:1") & (curves["group"] == "R") & np.isclose(curves["target"].astype(float), FIGURE_FMR)
    found = curves["threshold"][at]
    return float(found[0]) if len(found) else None


def _density(counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Counts as a density. It is smoothed over some bins, so that few comparisons do not look like a comb."""
    centres = (EDGES[1:] + EDGES[:-1]) / 2
    total = counts.sum()
    if total == 0:
        return centres, np.zeros(len(centres))
    width = float(np.clip(40 / np.sqrt(total), 1.5, 10))
    reach = np.arange(-int(4 * width), int(4 * width) + 1)
    kernel = np.exp(-0.5 * np.square(reach / width))
    return centres, np.convolve(counts / total, kernel / kernel.sum(), mode="same") / (EDGES[1] - EDGES[0])


def det(models: Sequence[Drawn], folder: Path) -> None:
    """Rates over the whole operating range: 1:1 above, 1:N below, one panel per group, one line style per scale."""
    panels = [
        ("1:1", ("R", "T", "Ftr-Ftr", "Ftr-Fev", "Fev-Fev"), "FMR", "TMR"),
        ("1:N", ("R", "T", "Ftr", "Fev"), "FPIR", "TPIR"),
    ]
    scales = list(dict.fromkeys(model.scale for model in models))
    titles = list(dict.fromkeys(model.title for model in models))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 4.8), layout="constrained")
        axes = figure.subplots(2, 5, sharey=True)
        for row, (task, groups, across, up) in zip(axes, panels, strict=True):
            for axis in row[len(groups) :]:
                axis.set_axis_off()
            for axis, group in zip(row, groups, strict=False):
                for model in models:
                    here = (model.curves["task"] == task) & (model.curves["group"] == group)
                    curve = model.curves.where(here.astype(bool))
                    axis.plot(
                        curve["target"].astype(float),
                        curve["rate"].astype(float),
                        ["-", "--", ":", "-."][scales.index(model.scale) % 4],
                        color=COLOURS[titles.index(model.title) % len(COLOURS)],
                        lw=1.2,
                    )
                axis.set(xscale="log", ylim=(-0.02, 1.02), title=f"{task}  {group}", xlabel=across)
                axis.grid(color="#dddddd", lw=0.4)
            row[0].set_ylabel(up)
        lines = [Line2D([], [], color=COLOURS[i % len(COLOURS)], label=m) for i, m in enumerate(titles)]
        lines += [
            Line2D([], [], color="#888888", ls=["-", "--", ":", "-."][i % 4], label=scale)
            for i, scale in enumerate(scales)
            if len(scales) > 1
        ]
        axes[1][4].legend(handles=lines, loc="center", ncols=2)
        save(figure, folder, "det")


def capture_pairs(pairs: Sequence[Example], threshold: float, folder: Path) -> None:
    """Within- and across-instance pairs of single identities, with pixel distance and embedding similarity."""
    kinds = list(dict.fromkeys(pair.kind for pair in pairs))
    columns = max(sum(pair.kind == kind for pair in pairs) for kind in kinds)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.1 * columns, 1.4 * len(kinds)), layout="constrained")
        axes = figure.subplots(len(kinds), columns, squeeze=False)
        for axis in axes.flat:
            axis.set_axis_off()
        for row, kind in zip(axes, kinds, strict=True):
            for axis, pair in zip(row, [pair for pair in pairs if pair.kind == kind], strict=False):
                first, second = pair.images
                gap = np.full((len(first), max(first.shape[1] // 16, 1), 3), 255, np.uint8)
                axis.imshow(np.concatenate([first, gap, second], axis=1), interpolation="nearest")
                axis.set_title(f"$\\delta$={pair.distance:.0f}, $s$={pair.similarity:.2f}", y=-0.22)
            row[0].text(-0.04, 0.5, kind, rotation=90, ha="right", va="center", transform=row[0].transAxes)
        figure.suptitle(f"One capture instance is closer than $\\delta$ = {threshold:g}", fontsize=9)
        save(figure, folder, "captures")


def contact_sheet(rows: Sequence[tuple[str, Images]], path: Path) -> None:
    """One row per identity, one column per image."""
    from PIL import Image, ImageDraw

    size = rows[0][1].shape[1]
    zoom = max(1, round(112 / size))
    cell, gap, margin = size * zoom, 4, 110
    columns = max(len(images) for _, images in rows)
    sheet = Image.new("RGB", (margin + columns * (cell + gap), len(rows) * (cell + gap)), "white")
    draw = ImageDraw.Draw(sheet)
    for y, (name, images) in enumerate(rows):
        draw.text((6, y * (cell + gap) + cell // 2 - 6), name[:16], fill="black")
        for x, image in enumerate(images):
            tile = Image.fromarray(image).resize((cell, cell), Image.Resampling.NEAREST)
            sheet.paste(tile, (margin + x * (cell + gap), y * (cell + gap)))
    sheet.save(path, format="PNG")


def save(figure: Figure, folder: Path, name: str) -> None:
    figure.savefig(folder / f"{name}.png", dpi=170, metadata={"Software": None})
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
