"""The paper's own numbers, read from two tables that lie beside this module.

`numbers.csv` has one row per number: every cell of Tables II to V, and the numbers that only the text states. `place`
is the table, or the section of the text. Names of backbones, groups and metrics are ours. Where the text gives a range
("between", "at least"), `value` is empty, and `low` and `high` hold the ends that it names.

`differences.csv` has one row per difference that the text names: the first side is the higher one. Most of them can be
read off the numbers as well; for some the paper gives a figure and no number.
"""

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from damnatio.support.tables import Table

HERE = Path(__file__).parent
TITLES = {"iresnet34": "iResNet-34", "vit-s": "ViT-S", "vit-b": "ViT-B"}
"""the paper's backbones, and how it calls them"""
SCALES = ("S1", "S2")
COLUMNS = ("backbone", "scale", "method", "task", "group", "operating_point", "metric", "value", "low", "high")


@dataclass(frozen=True)
class Side:
    """One of the two numbers that a difference is between."""

    backbone: str
    scale: str
    method: str
    group: str


@dataclass(frozen=True)
class Difference:
    """A difference that the text names: the number of `higher` is above that of `lower`."""

    place: str
    task: str
    metric: str
    point: float
    """the operating point; NaN for a distance"""
    higher: Side
    lower: Side


def numbers() -> list[dict[str, str]]:
    """The rows of `numbers.csv` as they are written."""
    with (HERE / "numbers.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def results() -> Table:
    """The paper's numbers on models, in the columns of a results table; each once. The footprint, which the paper
    defines as the sum of its two deformations, is added up."""
    found: dict[tuple[str, ...], list[float]] = {}
    for row in numbers():
        if row["method"] and row["task"]:
            low, high = _number(row["low"]), _number(row["high"])
            ends = [end for end in (low, high) if not math.isnan(end)]
            value = _number(row["value"]) if row["value"] else sum(ends) / len(ends)
            found[tuple(row[name] for name in COLUMNS[:7])] = [value, low, high]
    for (backbone, scale, method, task, group, point, metric), (value, *_) in list(found.items()):
        if (group, metric) == ("R", "deformation"):
            other = found[backbone, scale, method, task, "RxR", point, metric][0]
            key = (backbone, scale, method, task, "R", point, "footprint")
            found[key] = [round(value + other, 3), math.nan, math.nan]
    rows = [[*key[:5], _number(key[5]), key[6], *values] for key, values in found.items()]
    table = Table.of_rows(COLUMNS, rows)
    nothing = [math.nan] * len(table)
    return table.with_columns(
        count=[0] * len(table), subjects=[0] * len(table), wilson_low=nothing, wilson_high=nothing
    )


@cache
def places() -> dict[tuple[str, ...], str]:
    """The place of each number of `results`: the first that states it."""
    found = {}
    for row in reversed(numbers()):
        found[tuple(row[name] for name in ("backbone", "scale", "method", "group", "metric"))] = row["place"]
    for key, place in list(found.items()):
        if key[3:] == ("R", "deformation"):
            found[(*key[:4], "footprint")] = place
    return found


@cache
def differences() -> tuple[Difference, ...]:
    with (HERE / "differences.csv").open(newline="", encoding="utf-8") as file:
        return tuple(
            Difference(
                row["place"],
                row["task"],
                row["metric"],
                _number(row["operating_point"]),
                _side(row, ""),
                _side(row, "than_"),
            )
            for row in csv.DictReader(file)
        )


def is_transformer(backbone: str) -> bool:
    return backbone.startswith("vit")


def like(backbone: str) -> str:
    """The paper's backbone that one of ours is compared with: itself, else a transformer with ViT-S and a convolutional
    one with the iResNet-34."""
    if backbone in TITLES:
        return backbone
    return "vit-s" if is_transformer(backbone) else "iresnet34"


def _side(row: Mapping[str, str], prefix: str) -> Side:
    return Side(*(row[f"{prefix}{name}"] for name in ("backbone", "scale", "method", "group")))


def _number(text: str) -> float:
    return float(text) if text else math.nan
