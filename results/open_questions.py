"""One page for an open question of the paper, from the results of the recipe that asks it: how each method does under
each head or with each share of people forgotten, and whether the methods keep their order.

usage: python results/open_questions.py results/open-question-heads
       reads results.csv there, and writes README.md beside it
"""

import csv
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from collect import operating_points

from damnatio.methods import METHODS
from damnatio.reporting.against_paper import spearman

QUESTIONS = {
    "open-question-heads": (
        "Do the mechanisms carry over to other heads?",
        "f\\* was trained under each head, then made to forget by each method.",
        "experiment",
    ),
    "open-question-fractions": (
        "What if 20 or 50 % are to be forgotten?",
        "The share is that of the forget identities to the retain identities. A larger forget set holds the smaller. "
        "All have the same number of steps, as in the paper: a photograph of a larger set is visited less often.",
        "scale",
    ),
}
"""the title of the page of each recipe, what was done, and the column of the results that is varied"""
NUMBERS = {
    ("T", "TMR"): "Strangers still recognised (T, TMR) ↑",
    ("Fev-Fev", "TMR"): "Forgotten people linked by new photographs (Fev-Fev, TMR) ↓",
    ("avg(Ftr)-Fev", "TMR"): "Re-linked by averaging (avg(Ftr)-Fev, TMR) ↓",
    ("FtrxFtr", "FMR"): "Different forgotten people taken for one another (FtrxFtr, FMR) ↓",
    ("R", "footprint"): "Footprint: how far the scores of retained people moved ↓",
}
BEFORE = "original"

Rows = Sequence[Mapping[str, str]]


def page(name: str, rows: Rows) -> str:
    """The page. The first head or share is the one that the others are compared with."""
    title, done, column = QUESTIONS[name]
    point = operating_points([dict(row) for row in rows])[0]
    panels = list(dict.fromkeys(row[column] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    found = {
        (row[column], row["method"], row["group"], row["metric"]): float(row["value"])
        for row in rows
        if row["operating_point"] in (point, "")
    }
    parts = [
        f"# {title}",
        f"{done} Rates are at a false match rate of 1 in {1 / float(point):,.0f}. {MADE.format(name)}",
    ]
    order, correlations = [], list[tuple[float, str]]()
    for (group, metric), words in NUMBERS.items():
        values = {panel: {m: found.get((panel, m, group, metric)) for m in methods} for panel in panels}
        digits = 5 if metric == "FMR" else 3
        chance = "" if group == "R" else f"{float(point):g}"
        parts.append(f"## {words}\n\n{_table(['', *panels], _lines(values, methods, digits, chance))}")
        measured = words.split(" (")[0].split(":")[0]
        orders = _orders(values, [m for m in methods if m != BEFORE], digits)
        order.append([measured, *("-" if math.isnan(value) else f"{value:.2f}" for value in orders)])
        correlations += [
            (value, f"{measured[0].lower()}{measured[1:]}, {panel}")
            for panel, value in zip(panels[1:], orders, strict=True)
            if not math.isnan(value)
        ]
    if correlations:
        parts.insert(2, SHORT.format(panels[0], max(correlations)[0], *min(correlations)))
    parts.append(
        f"## Do the methods keep their order?\n\n{ORDER.format(panels[0])}\n\n{_table(['', *panels[1:]], order)}"
    )
    return "\n\n".join(parts) + "\n"


MADE = "`make open-questions` makes this page from `damnatio run {}`."
SHORT = (
    "**In short:** the order of the methods has a rank correlation with that of {0} of {1:.2f} at most and {2:.2f} at "
    "least ({3})."
)
ORDER = (
    "The rank correlation over the methods with {}, Spearman's: 1 is the same order, -1 the reverse; a dash means that "
    "all methods have one value, or fewer than three were measured."
)


def _orders(values: Mapping[str, Mapping[str, float | None]], methods: Sequence[str], decimals: int) -> list[float]:
    """The rank correlation of each panel but the first with the first, over the methods that both have, of the values
    as they are shown."""
    first, *others = values.values()
    found = []
    for other in others:
        pairs = [(first[m], other[m]) for m in methods]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        found.append(spearman([a for a, _ in both], [b for _, b in both], decimals))
    return found


def _lines(
    values: Mapping[str, Mapping[str, float | None]], methods: Sequence[str], digits: int, chance: str
) -> list[list[str]]:
    lines = []
    maps = [method for method in methods if method in METHODS.names() and METHODS.get(method).behind]
    for method in [*(m for m in methods if m not in maps), *maps]:
        if method in maps[:1]:
            lines.append(["*maps behind f\\*, which stays in the file:*", *[""] * len(values)])
        cells = [panel[method] for panel in values.values()]
        if any(cell is not None for cell in cells):
            shown = ["" if cell is None else f"{cell:.{digits}f}" for cell in cells]
            lines.append(["f\\*" if method == BEFORE else method, *shown])
    return [*lines, ["chance", *[chance] * len(values)]] if chance else lines


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *lines])


def main(folder: Path) -> None:
    with (folder / "results.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["task"] == "1:1"]
    target = folder / "README.md"
    target.write_text(page(folder.name, rows))
    print(f"{target} is written")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
