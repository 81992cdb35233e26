"""How methods look: one order, one colour, one marker and one dash each, in every table, figure and page.

Twelve colours cannot all be told apart in grey print or with a colour deficiency. So each method has a marker that no
other has. There are six dashes, and the two methods that share one have colours of which one is dark and one light.
tests/reporting/test_looks.py simulates what people see.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.markers import MarkerStyle
from matplotlib.path import Path as Outline

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.methods import METHODS as REGISTRY

Marker = str | tuple[int, Literal[1], int]
Dash = tuple[float, ...]
SOLID: Dash = ()
DASHED: Dash = (3.5, 1.5)
DOTTED: Dash = (1.0, 1.2)
DASH_DOT: Dash = (5.0, 1.3, 1.0, 1.3)
LONG: Dash = (8.0, 1.6)
DASH_DOT_DOT: Dash = (3.5, 1.2, 1.0, 1.2, 1.0, 1.2)


@dataclass(frozen=True)
class Look:
    """How one method looks."""

    colour: str
    """on white"""
    dark: str
    """on the dark theme of a page"""
    marker: Marker
    """as matplotlib writes it: a letter, or a star of so many points (corners, 1, degrees it is turned by)"""
    dash: Dash
    """lengths of ink and gaps, in widths of the line; empty: a solid line"""
    tint: str = ""
    """of its rows in LaTeX; empty: none"""

    @property
    def line(self) -> dict[str, Any]:
        """Colour and dash, as matplotlib takes them for a line."""
        return {"color": self.colour, "ls": (0, self.dash) if self.dash else "-"}

    @property
    def size(self) -> float:
        """Of the marker, in points, so that all markers hold about as much ink."""
        if self.marker == "*" or not isinstance(self.marker, str):
            return 5.2
        return {"P": 4.2, "X": 4.2, "d": 4.4, "D": 3.1, "s": 3.3}.get(self.marker, 3.7)


METHODS = {
    ORIGINAL: Look("#1a1a1a", "#f2f2f2", "o", SOLID, "refrow"),
    "CURE": Look("#56561a", "#747701", "p", DOTTED, "genericrow"),
    "NG+": Look("#9d7000", "#fce812", "X", DASH_DOT_DOT, "genericrow"),
    "PD": Look("#cd7f4d", "#fcad63", "^", DASHED, "priorrow"),
    "HD": Look("#b83c41", "#eb695e", "s", SOLID, "priorrow"),
    "CP": Look("#6b0f3b", "#c14576", "v", DASH_DOT_DOT, "ourrow"),
    "EC": Look("#009bd1", "#97ccfd", "<", DOTTED, "ourrow"),
    "OF": Look("#2c45dc", "#476daa", "D", DASHED, "ourrow"),
    "FT": Look("#8e908c", "#a6b5b0", "h", LONG),
    "GA": Look("#4f2f1d", "#885e4b", ">", LONG),
    "BI": Look("#248869", "#5efbb8", "P", DASH_DOT, "newrow"),
    "GS": Look("#53227c", "#975af8", "*", DASH_DOT, "newrow"),
}
"""The look of each method, in the order of the tables: that of the paper, then the references, then ours. Warm colours
are confusers, blue ones hiders; the tints are the paper's, and one more for what the paper does not have."""
BLACK = METHODS[ORIGINAL].colour
OTHERS = (
    Look("#0b6d2c", "#c3e09d", "d", DASHED),
    Look("#c369fd", "#a69fc5", (4, 1, 0), LONG),
    Look("#5c0e0e", "#b34c01", (3, 1, 0), DASH_DOT),
    Look("#687097", "#0889e5", "8", DOTTED),
    Look("#878e0d", "#ffc42d", (3, 1, 180), DASH_DOT),
    Look("#442648", "#866076", (6, 1, 0), SOLID),
    Look("#c57076", "#83f2ee", (4, 1, 45), SOLID),
    Look("#424741", "#7f846d", "H", DASH_DOT_DOT),
)
"""for variants of other names, in the order of their appearance, and for lines that stand for no method"""
FORGET, RETAIN, STRANGERS = "#9e1b16", "#3d8fd1", "#555555"
"""colours of distributions: mated forget scores, mated retain scores, and non-mated scores"""
DARK = {FORGET: "#ff9d8f", RETAIN: "#3a7fc8", STRANGERS: "#b8bcc4"}
"""the same on the dark theme of a page"""


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
    return METHODS[method_of(variant)].tint if method_of(variant) else ""


def looks_of(variants: Sequence[str]) -> dict[str, Look]:
    """The look of each variant. A method has its own in every figure; other variants get those of `OTHERS`, in order.
    So give all variants of a report, also to draw a few of them."""
    others = [variant for variant in variants if variant not in METHODS]
    rest = {variant: OTHERS[place % len(OTHERS)] for place, variant in enumerate(others)}
    return {variant: METHODS[variant] if variant in METHODS else rest[variant] for variant in variants}


def in_words(variant: str) -> str:
    """The plain name of a variant, to follow `The method is ...`: `orthonormal frame` of OF, `orthonormal frame
    (OF-wide)` of a variant of it. A variant of no method of the package has none but its own."""
    if variant == ORIGINAL:
        return "the model before forgetting"
    method = method_of(variant)
    if not method:
        return variant
    title = REGISTRY.get(method).title
    word = title.split()[0]
    words = title if word[1:] != word[1:].lower() else title[0].lower() + title[1:]  # CURE and NegGrad+ stay
    return words if variant == method else f"{words} ({variant})"


def in_full(variant: str, title: str) -> str:
    """The plain name of a variant with its title in the tables behind it: `orthonormal frame (OF)`."""
    words = in_words(variant)
    return words if words == variant or f"({title})" in words else f"{words} ({title})"


def for_a_page(variants: Sequence[str]) -> list[dict[str, Any]]:
    """The looks of a report's variants in the order of its tables, for JSON: the name in tables and in words, the
    colours of both themes, the marker as `shape_of` draws it, and the dash in widths of the line (empty: solid)."""
    looks = looks_of(variants)
    return [
        {
            "name": variant,
            "words": in_words(variant),
            "colour": looks[variant].colour,
            "dark": looks[variant].dark,
            "marker": shape_of(looks[variant].marker),
            "dash": list(looks[variant].dash),
        }
        for variant in in_order(variants)
    ]


def shape_of(marker: Marker) -> str:
    """A marker as the path of an SVG, about as wide and high as 1, with its centre at (0, 0). There y points down."""
    style = MarkerStyle(marker)
    letters = {Outline.MOVETO: "M", Outline.LINETO: "L", Outline.CURVE3: "Q", Outline.CURVE4: "C"}
    parts = []
    for points, code in style.get_path().transformed(style.get_transform()).iter_segments(simplify=False):
        if letter := letters.get(Outline.code_type(code)):
            flipped = [value if place % 2 == 0 else -value for place, value in enumerate(points.tolist())]
            parts.append(letter + " ".join(f"{round(value, 3) + 0.0:g}" for value in flipped))
        else:
            parts.append("Z")
    return "".join(parts)
