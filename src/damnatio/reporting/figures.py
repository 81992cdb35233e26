"""The paper's figures, drawn from the outputs of the evaluation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from damnatio.embedding import Example
from damnatio.evaluation.calibrating import MARKED
from damnatio.evaluation.protocol import AVERAGED
from damnatio.faces.base import Images
from damnatio.metrics.distributions import EDGES
from damnatio.reporting.looks import FORGET, RETAIN, STRANGERS, STYLE, colours_of, save
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
            for axis, (title, mated, nonmated) in zip(row, _COLUMNS, strict=True):
                colour = FORGET if "F" in mated else RETAIN
                for counts, style, tone in (
                    (model.sketches[f"non-mated/{nonmated}"], "--", STRANGERS),
                    (model.sketches[f"mated/{mated}"], "-", colour),
                ):
                    centres, density = density_of(counts)
                    axis.plot(centres, density, style, color=tone, lw=1.0)
                    if style == "-":
                        axis.fill_between(centres, density, color=tone, alpha=0.18, lw=0)
                axis.axvline(model.threshold, color="black", lw=0.7, ls=":")
                axis.set(yticks=[], xlim=(-0.75, 1.02), ylim=(0, None))
                if model is models[0]:
                    axis.set_title(title)
                    axis.set_ylim(0, 1.15 * axis.get_ylim()[1])
                    place = (model.threshold, 0.99)
                    fraction = ("data", "axes fraction")
                    axis.annotate("$\\tau$", place, (1, 0), fraction, "offset points", va="top")
                if model is models[-1]:
                    axis.set_xlabel("cosine similarity")
            row[0].set_ylabel(model.title, rotation=0, ha="right", va="center", fontsize=10)
        figure.suptitle(
            f"{models[0].scale}: mated (solid) and non-mated (dashed) scores; dotted: the threshold $\\tau$ of each "
            f"model at FMR {MARKED:g}",
            fontsize=9,
        )
        save(figure, folder, name)


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


def det(models: Sequence[Drawn], folder: Path) -> None:
    """Rates over the whole operating range: 1:1 above, 1:N below, one panel per group, one line style per scale."""
    panels = [
        ("1:1", ("R", "T", "Ftr-Ftr", "Ftr-Fev", "Fev-Fev"), "FMR", "TMR"),
        ("1:N", ("R", "T", "Ftr", "Fev"), "FPIR", "TPIR"),
    ]
    scales = list(dict.fromkeys(model.scale for model in models))
    titles = {model.variant: model.title for model in models}
    colours = colours_of(list(titles))
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
                        color=colours[model.variant],
                        lw=1.2,
                    )
                axis.set(xscale="log", ylim=(-0.02, 1.02), title=f"{task}  {group}", xlabel=across)
                axis.grid(color="#dddddd", lw=0.4)
            row[0].set_ylabel(up)
        lines = [Line2D([], [], color=colours[variant], label=title) for variant, title in titles.items()]
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
