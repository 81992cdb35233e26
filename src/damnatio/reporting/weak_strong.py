"""The paper's Fig. 3: four distributions of scores under f*, under weak and under strong forgetting. The paper sketches
them; here they are those of the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from damnatio.evaluation.measuring import ABOVE, ORIGINAL
from damnatio.reporting.figures import Drawn, density_of
from damnatio.reporting.looks import FORGET, METHODS, RETAIN, STYLE, in_order, method_of, save
from damnatio.reporting.lookup import Quantity, Results

SEEN = "Ftr-Ftr"
"""the mated forget scores: pairs of images that the method has seen"""
UNLINKED, KEPT = 0.5, 0.75
"""a method forgets weakly if at most this share of what f* links is linked still, and of the retain comparisons at
least that"""
ONTO = 0.1
"""and strongly, if W1 to the scores of strangers is at most this share of f*'s (the paper: 0.006 of 0.480)"""
LINES = {
    "mated retain": (("mated", "R"), "-", RETAIN),
    "non-mated retain": (("non-mated", "R"), "--", RETAIN),
    "mated forget": (("mated", SEEN), "-", FORGET),
    "non-mated forget": (("non-mated", "FtrxFtr"), "--", FORGET),
}


@dataclass(frozen=True)
class Chosen:
    """The variants that show weak and strong forgetting. `strong` may not reach its goal; then `reached` is False."""

    weak: str | None
    strong: str
    reached: bool


def choose(results: Results, scale: str, variants: Sequence[str]) -> Chosen | None:
    """Among the methods that unlink the seen images and leave the retain identities linked: the one nearest to the
    scores of strangers shows strong forgetting, and the one furthest from them weak forgetting. Where a method of the
    paper reaches the goal, the nearest of these is taken. None if there is no such method."""
    linked, kept = (
        {v: results[Quantity(scale, v, "1:1", group, ABOVE)].value for v in (ORIGINAL, *variants)}
        for group in (SEEN, "R")
    )
    far = {v: results[Quantity(scale, v, "1:1", SEEN, "W1")].value for v in (ORIGINAL, *variants)}
    able = [
        v
        for v in in_order(variants)
        if v != ORIGINAL and linked[v] <= UNLINKED * linked[ORIGINAL] and kept[v] >= KEPT * kept[ORIGINAL]
    ]
    if not able:
        return None
    goal = ONTO * far[ORIGINAL]
    known = list(METHODS)
    paper = [v for v in able if method_of(v) in known[: known.index("OF") + 1] and far[v] <= goal]
    strong = min(paper or able, key=far.__getitem__)
    weak = [v for v in able if v != strong and far[v] > goal]
    return Chosen(max(weak, key=far.__getitem__) if weak else None, strong, far[strong] <= goal)


def weak_and_strong(models: Sequence[Drawn], chosen: Chosen, folder: Path, name: str) -> None:
    """Draw f*, weak and strong forgetting at one scale, one panel each."""
    drawn = {model.variant: model for model in models}
    strong = "strong forgetting" if chosen.reached else "nearest to strong forgetting"
    panels = [
        ("before", ORIGINAL),
        *([("weak forgetting", chosen.weak)] if chosen.weak else []),
        (strong, chosen.strong),
    ]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.35 * len(panels), 2.2), layout="constrained")
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axis, letter, (what, variant) in zip(axes, "abc", panels, strict=False):
            _panel(axis, drawn[variant], None if variant == ORIGINAL else drawn[ORIGINAL])
            axis.set_title(f"({letter}) {drawn[variant].title}: {what}" if variant != ORIGINAL else f"({letter}) f*")
        lines = [Line2D([], [], color=colour, ls=style, label=title) for title, (_, style, colour) in LINES.items()]
        lines.append(Line2D([], [], color=FORGET, ls=":", label="mated forget under f*"))
        figure.legend(handles=lines, loc="outside lower center", ncols=5, handlelength=1.8, columnspacing=1.2)
        save(figure, folder, name)


def _panel(axis: Any, model: Drawn, before: Drawn | None) -> None:
    for (kind, group), style, colour in LINES.values():
        centres, density = density_of(model.sketches[f"{kind}/{group}"])
        axis.plot(centres, density, style, color=colour, lw=1.0)
        if style == "-":
            axis.fill_between(centres, density, color=colour, alpha=0.15, lw=0)
    if before is not None:
        axis.plot(*density_of(before.sketches[f"mated/{SEEN}"]), ":", color=FORGET, lw=1.0)
    axis.axvline(model.threshold, color="black", lw=0.8)
    axis.set(yticks=[], xlim=(-0.6, 1.0), xlabel="cosine similarity")
    axis.set_ylim(0, 1.12 * axis.get_ylim()[1])
    axis.annotate(
        "$\\tau$",
        (model.threshold, 0.98),
        (2, 0),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        va="top",
    )
