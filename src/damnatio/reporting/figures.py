"""The paper's figures, drawn from the outputs of the evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from damnatio.embedding import Example
from damnatio.evaluation.calibrating import MARKED
from damnatio.evaluation.protocol import AVERAGED
from damnatio.faces.base import Images
from damnatio.metrics.distributions import EDGES
from damnatio.reporting.canvas import GRID, NORMAL, SMALL, STYLE, WIDTH, column, decades, drawn_in, legend, save
from damnatio.reporting.looks import BLACK, FORGET, RETAIN, STRANGERS, Look
from damnatio.support.tables import Table


@dataclass(frozen=True)
class Drawn:
    """The data of one evaluated model that figures show."""

    scale: str
    variant: str
    title: str
    sketches: dict[str, NDArray[np.int64]]
    curves: Table
    threshold: float
    """of 1:1, at `MARKED`"""


WORDS = {"R": "retain", "T": "test", AVERAGED: "averaged Ftr-Fev"}
"""titles of groups whose names say less"""
COLUMNS = {
    "R": "R",
    "T": "T",
    "Fev-Fev": "FevxFev",
    "Ftr-Ftr": "FtrxFtr",
    "Ftr-Fev": "FtrxFev",
    AVERAGED: AVERAGED,
}
"""of the distributions: the names of the mated and of the non-mated scores"""


def distributions(models: Sequence[Drawn], folder: Path, name: str) -> None:
    """Mated (solid) and non-mated (dashed) scores: one row per model, one column per group."""
    with mpl.rc_context(STYLE):
        figure = column(0.75 + 0.42 * len(models))
        axes = figure.subplots(len(models), len(COLUMNS), sharex=True, squeeze=False)
        for row, model in zip(axes, models, strict=True):
            for axis, (mated, nonmated) in zip(row, COLUMNS.items(), strict=True):
                kind, colour = ("forget", FORGET) if "F" in mated else ("others", RETAIN)
                draw_density(axis, model.sketches[f"non-mated/{nonmated}"], "non-mated", STRANGERS, "--")
                draw_density(axis, model.sketches[f"mated/{mated}"], f"mated, {kind}", colour)
                axis.axvline(model.threshold, color=BLACK, lw=0.7, ls=":", label=f"threshold τ at FMR {MARKED:g}")
                axis.set(yticks=[], xlim=(-0.75, 1.05), ylim=(0, None))
                axis.set_xticks([0, 1], minor=False)
                axis.set_xticks([-0.5, 0.5], minor=True)
            row[0].set_ylabel(model.title, rotation=0, ha="right", va="center")
        for axis, group in zip(axes[0], COLUMNS, strict=True):
            axis.set_title(WORDS.get(group, group).replace(" ", "\n"))
        figure.supxlabel("cosine similarity", fontsize=NORMAL)
        legend(figure, drawn_in(axes.flat), "upper", handle=2.0)
        save(figure, folder, name)


def draw_density(axis: Any, counts: NDArray[np.int64], label: str, colour: str, style: str = "-") -> None:
    """A density, filled if its line is solid. Nothing is drawn of no comparisons."""
    if counts.sum() == 0:
        return
    centres, density = density_of(counts)
    shown = np.flatnonzero(density > 1e-3 * density.max())  # the rest lies on the axis
    x, y = centres[shown[0] : shown[-1] + 1], density[shown[0] : shown[-1] + 1]
    axis.plot(x, y, style, color=colour, lw=0.9, label=label)
    if style == "-":
        axis.fill([x[0], *x, x[-1]], [0, *y, 0], color=colour, alpha=0.18, lw=0)


def density_of(counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Counts as a density, smoothed by the normal reference rule: so few comparisons do not look like a comb, and many
    are drawn as they are."""
    centres, bin_ = (EDGES[1:] + EDGES[:-1]) / 2, EDGES[1] - EDGES[0]
    total = counts.sum()
    if total == 0:
        return centres, np.zeros(len(centres))
    mean = np.average(centres, weights=counts)
    deviation = float(np.sqrt(np.average(np.square(centres - mean), weights=counts)))
    width = float(np.clip(0.9 * deviation * total**-0.2 / bin_, 1.5, 12))
    reach = np.arange(-int(4 * width), int(4 * width) + 1)
    kernel = np.exp(-0.5 * np.square(reach / width))
    return centres, np.convolve(counts / total, kernel / kernel.sum(), mode="same") / bin_


PANELS = [
    ("1:1", "R"),
    ("1:N", "R"),
    ("1:1", "T"),
    ("1:N", "T"),
    ("1:1", "Ftr-Ftr"),
    ("1:N", "Ftr"),
    ("1:1", "Fev-Fev"),
    ("1:N", "Fev"),
    ("1:1", "Ftr-Fev"),
    ("1:1", AVERAGED),
]
"""of the rates, two in a row: the task and the group"""
RATES = {"1:1": ("FMR", "TMR"), "1:N": ("FPIR", "TPIR")}


def det(models: Sequence[Drawn], looks: Mapping[str, Look], folder: Path, name: str) -> None:
    """Rates over the whole operating range at one scale: 1:1 on the left, 1:N on the right, one panel per group."""
    with mpl.rc_context(STYLE):
        figure = column(6.6)
        axes = figure.subplots(5, 2, sharey=True).ravel()
        lowest = {task: _lowest(models, task) for task in RATES}
        for axis, (task, group) in zip(axes, PANELS, strict=True):
            for place, model in enumerate(models):
                here = (model.curves["metric"] == RATES[task][1]) & (model.curves["group"] == group)
                curve = model.curves.where(here.astype(bool))
                rates = curve["rate"].astype(float)
                if np.isfinite(rates).any():
                    look, apart = looks[model.variant], max(len(rates) // 3, 1)
                    axis.plot(
                        curve["target"].astype(float),
                        rates,
                        **look.line,
                        lw=0.9,
                        marker=look.marker,
                        ms=look.size,
                        markevery=(place * apart // len(models), apart),  # markers of equal curves lie side by side
                        mec="white",
                        mew=0.2,
                        label=model.title,
                    )
            across, up = RATES[task]
            axis.set(ylim=(-0.04, 1.04), title=f"{task}  {WORDS.get(group, group)}", xlabel=across, ylabel=up)
            axis.set(xscale="log", yticks=[0, 0.5, 1], xlim=(lowest[task] / 1.4, 1.4))
            decades(axis.xaxis)
            axis.grid(**GRID)
        found = drawn_in(axes)
        legend(figure, {model.title: found[model.title] for model in models if model.title in found})
        save(figure, folder, name)


def _lowest(models: Sequence[Drawn], task: str) -> float:
    """The lowest rate of a task that any model resolves."""
    targets = [model.curves["target"][model.curves["task"] == task].astype(float) for model in models]
    return min((float(rates.min()) for rates in targets if len(rates)), default=0.1)


def capture_pairs(pairs: Sequence[Example], threshold: float, folder: Path) -> None:
    """Within- and across-instance pairs of single identities, with pixel distance and embedding similarity."""
    kinds = list(dict.fromkeys(pair.kind for pair in pairs))
    columns = max(sum(pair.kind == kind for pair in pairs) for kind in kinds)
    with mpl.rc_context(STYLE):
        figure = column(0.2 + (0.2 + 0.48 * WIDTH / columns) * len(kinds))
        axes = figure.subplots(len(kinds), columns, squeeze=False)
        for axis in axes.flat:
            axis.set_axis_off()
        for row, kind in zip(axes, kinds, strict=True):
            for axis, pair in zip(row, [pair for pair in pairs if pair.kind == kind], strict=False):
                first, second = pair.images
                gap = np.full((len(first), max(first.shape[1] // 16, 1), 3), 255, np.uint8)
                axis.imshow(np.concatenate([first, gap, second], axis=1), interpolation="nearest")
                axis.text(
                    *(0.5, -0.05, f"δ={pair.distance:.0f}, s={pair.similarity:.2f}"),
                    **{"ha": "center", "va": "top", "fontsize": SMALL, "transform": axis.transAxes},
                )
            row[0].text(-0.06, 0.5, kind, rotation=90, ha="right", va="center", transform=row[0].transAxes)
        figure.suptitle(f"One capture instance is closer than δ = {threshold:g}")
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
