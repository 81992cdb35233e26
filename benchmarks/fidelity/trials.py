"""The trials of `trials.yaml` and of the recipes that ask why, by the rules of `rules.py`."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fidelity.rules import BATCHES, BESIDE, DIFFERENT, FRAMES, FRAMES_OF_A_VIT, READINGS, RULES, YOUNG, Look

ORIGINAL = "original"
ROWS = (
    ("R", "TMR", 1e-4),
    ("R", "TMR", 1e-2),
    ("R", "TPIR", 1e-2),
    ("Ftr-Ftr", "TMR", 1e-4),
    ("Ftr-Ftr", "TMR", 1e-2),
    ("Fev-Fev", "TMR", 1e-2),
    ("FtrxFtr", "FMR", 1e-2),
    ("Ftr-Ftr", "W1", None),
    ("R", "deformation", None),
    ("RxR", "deformation", None),
)
"""what the paper's tables have of each"""

COLUMNS = ("scale", "method", "group", "metric", "operating_point", "value", "count")


@dataclass(frozen=True)
class Page:
    said: str
    readings: dict[str, dict[str, str]]
    """by method, its variants and what they are"""
    rows: tuple[tuple[str, str, float | None], ...]
    scale: str = "S1"

    def variants(self) -> list[str]:
        judged = [variant for readings in self.readings.values() for variant in readings]
        beside = [BESIDE[variant] for variant in judged if variant in BESIDE]
        return [ORIGINAL, *judged, *beside]


RULED = (
    "The rules (`benchmarks/fidelity/rules.py`) were written before the trials. The cells of the paper are those of "
    "its {} at S1.\n"
)
TRIALS = Page(
    "Made by `python benchmarks/fidelity trials` from a run of benchmarks/fidelity/trials.yaml: f* and schedule of "
    f"rendered.yaml, ten forget identities. {RULED.format('Tables III and IV')}",
    READINGS,
    ROWS,
)
WHY = Page(
    "Made by `python benchmarks/fidelity why` from a run of benchmarks/fidelity/why.yaml: a hundredth of the paper's "
    f"identities, fifty to forget, `iresnet-quick`. {RULED.format('Tables III and IV and of its text')}",
    DIFFERENT,
    (*ROWS, ("R", "std", None)),
    scale="5-percent",
)
YOUNGER = Page(
    "Made by `python benchmarks/fidelity why-young` from a run of benchmarks/fidelity/why-young.yaml: as why.yaml, "
    f"but f* had 3 epochs instead of 12. {RULED.format('Tables III and IV and of its text')}",
    YOUNG,
    WHY.rows,
    scale=WHY.scale,
)
BATCH = Page(
    "Made by `python benchmarks/fidelity why-batch` from a run of benchmarks/fidelity/why-batch.yaml: as why.yaml, "
    "with fewer photographs of each person in a forget batch of 64. "
    f"{RULED.format('Tables III and IV and of its text')}",
    BATCHES,
    WHY.rows,
    scale=WHY.scale,
)
FRAME = Page(
    "Made by `python benchmarks/fidelity why-frame` from a run of benchmarks/fidelity/why-frame.yaml: as why.yaml, OF "
    f"beside HD. {RULED.format('Table V')}",
    FRAMES,
    WHY.rows,
    scale=WHY.scale,
)
VIT = Page(
    "Made by `python benchmarks/fidelity why-vit` from a run of benchmarks/fidelity/why-vit.yaml: as why-frame.yaml, "
    f"on `vit-quick`. {RULED.format('Table V')}",
    FRAMES_OF_A_VIT,
    WHY.rows,
    scale=WHY.scale,
)
PAGES = {
    "trials": TRIALS,
    "why": WHY,
    "why-young": YOUNGER,
    "why-batch": BATCH,
    "why-frame": FRAME,
    "why-vit": VIT,
}
"""by the name of the recipe"""


def keep(page: Page, file: Path, out: Path) -> None:
    """Copy what the page shows from a run's `results.csv`, so that the page can be made again."""
    shown = {(group, metric, "" if point is None else str(point)) for group, metric, point in page.rows}
    with file.open() as lines, out.open("w", newline="") as kept:
        writer = csv.DictWriter(kept, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in csv.DictReader(lines):
            of_page = row["scale"] == page.scale and row["method"] in page.variants()
            if of_page and (row["group"], row["metric"], row["operating_point"]) in shown:
                writer.writerow(row)


class Results:
    """The numbers of a run's `results.csv` at one scale."""

    def __init__(self, file: Path, scale: str) -> None:
        with file.open() as lines:
            self._values = {
                (row["method"], row["group"], row["metric"], row["operating_point"]): float(row["value"])
                for row in csv.DictReader(lines)
                if row["scale"] == scale
            }

    def value(self, variant: str, group: str, metric: str, point: float | None = None) -> float:
        """Of f*, a deformation is zero, and no run holds it."""
        if variant == ORIGINAL and metric == "deformation":
            return 0.0
        return self._values[variant, group, metric, "" if point is None else str(point)]

    def look(self, variant: str) -> Look:
        def look(
            group: str, metric: str, point: float | None = None, *, star: bool = False, beside: bool = False
        ) -> float:
            return self.value(ORIGINAL if star else BESIDE[variant] if beside else variant, group, metric, point)

        return look


def pages(page: Page, file: Path) -> Iterator[str]:
    results = Results(file, page.scale)
    yield page.said
    for method, readings in page.readings.items():
        rules = RULES[method]
        yield f"### {method}\n"
        yield _line(["the paper's behaviour", "the paper", *readings.values()])
        yield _line(["---"] * (2 + len(readings)))
        met = dict.fromkeys(readings, 0)
        for rule in rules:
            cells = []
            for variant in readings:
                holds = rule.holds(results.look(variant))
                met[variant] += holds
                cells.append(f"{'**yes**' if holds else 'no'}: {rule.shown(results.look(variant))}")
            yield _line([rule.text, rule.paper, *cells])
        yield _line(["rules that hold", "", *(f"{count} of {len(rules)}" for count in met.values())])
        yield ""
    yield "### All numbers\n"
    variants = page.variants()
    yield _line(["", *("f*" if variant == ORIGINAL else variant for variant in variants)])
    yield _line(["---"] * (len(variants) + 1))
    for group, metric, point in page.rows:
        name = f"{group} {metric}" + (f" at {point:g}" if point else "")
        yield _line([name, *(f"{results.value(variant, group, metric, point):.3f}" for variant in variants)])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
