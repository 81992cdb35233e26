"""How methods look: one order, one colour and one tint each, in every table and figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from damnatio.evaluation.measuring import ORIGINAL

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
FORGET, RETAIN, STRANGERS = "#b3392f", "#2f6db3", "#555555"
"""colours of distributions: mated forget scores, mated retain scores, and non-mated scores"""
BLACK = "#222222"
COLOURS = [
    *(BLACK, "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#7f3c8d", "#777777"),
    *("#c1121f", "#7cb518", "#1b3a8f", "#f4a6c0"),
]
"""for lines that stand for no method, such as experiments"""
METHODS = {
    ORIGINAL: (BLACK, "refrow"),
    "CURE": ("#8a8a2e", "genericrow"),
    "NG+": ("#c9b52c", "genericrow"),
    "PD": ("#f08a24", "priorrow"),
    "HD": ("#d1301f", "priorrow"),
    "CP": ("#8f1d4f", "ourrow"),
    "EC": ("#4ea8de", "ourrow"),
    "OF": ("#1f4aa5", "ourrow"),
    "FT": ("#a6a6a6", ""),
    "GA": ("#666666", ""),
    "BI": ("#2a9d5c", "newrow"),
    "GS": ("#7a3fa8", "newrow"),
}
"""Colour and tint of each method, in the order of the tables: that of the paper, then the references, then ours. Warm
colours are confusers, blue ones hiders; the tints are the paper's, and one more for what the paper does not have."""
_OTHERS = ("#00a0a0", "#e377c2", "#8c6d31", "#17becf", "#ff9896", "#5c4033", "#98df8a")


def in_order(variants: Sequence[str]) -> list[str]:
    """f*, then the variants by method, as all tables and figures show them. Unknown ones come last, as they are."""
    known = list(METHODS)
    places = {name: known.index(method_of(name)) if method_of(name) else len(known) for name in variants}
    return sorted(variants, key=places.__getitem__)


def method_of(variant: str) -> str:
    """The method that a variant's name begins with: `OF` of `OF-wide`. Empty if that is none of the package's."""
    return next((name for name in (variant, variant.split("-", maxsplit=1)[0]) if name in METHODS), "")


def tint_of(variant: str) -> str:
    """The tint of a variant in LaTeX; empty: none."""
    return METHODS[method_of(variant)][1] if method_of(variant) else ""


def colours_of(variants: Sequence[str]) -> dict[str, str]:
    """The colour of each variant. A method has its own in every figure; other variants get what is left, in order."""
    others = [variant for variant in variants if variant not in METHODS]
    rest = {variant: _OTHERS[place % len(_OTHERS)] for place, variant in enumerate(others)}
    return {variant: METHODS[variant][0] if variant in METHODS else rest[variant] for variant in variants}


def save(figure: Figure, folder: Path, name: str) -> None:
    figure.savefig(folder / f"{name}.png", dpi=170, metadata={"Software": None})
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
