"""The tables of the studies: a CSV file with every column, and a short one in markdown for the documents."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
TMR = {
    "test": ("test 0.0001", "test 0.01"),
    "ev-ev": ("ev-ev 0.0001", "ev-ev 0.01"),
    "averaged": ("averaged 0.0001", "averaged 0.01"),
}
"""Columns of the short tables that hold two rates, at the false match rates 1e-4 and 1e-2."""
Columns = dict[str, str | tuple[str, ...]]
SET = ("used", "people", "share", "bound", "bandwidth", "waves", "bursts")
"""columns of what was set, not measured"""
NAMES = ("forgotten", "must stay")
WORLDS = {"rendered": "rendered faces", "lfw-mobilefacenet": "LFW"}

SHORT: dict[str, Columns] = {
    "photographs": {
        "photographs used": "used",
        "at hand": "at hand",
        "caught, expected": "expected",
        "caught, measured": "caught",
        **TMR,
        "test photographs caught": "test caught",
    },
    "shares": {
        "share forgotten": "share",
        "people": "people",
        "model": "model",
        "cones begin at": "offset",
        "caught": "caught",
        "strangers caught": "strangers caught",
        "bound": "bound",
        **TMR,
        "footprint": "footprint",
    },
    "widths": {
        "bound": "bound",
        "cones begin at": "offset",
        "caught": "caught",
        "strangers caught": "strangers caught",
        "strangers caught, ten other sets of people": "strangers caught, all draws",
        **TMR,
        "footprint": "footprint",
    },
    "scatter": {
        "bandwidth w": "bandwidth",
        "waves m": "waves",
        "ev-ev": TMR["ev-ev"],
        "averaged": TMR["averaged"],
        "W1 ev-ev": "W1 ev-ev",
        "bursts": "bursts",
        "bursts linked": ("burst 0.0001", "burst 0.01"),
        "JPEG 75 copies linked": ("JPEG 75 0.0001", "JPEG 75 0.01"),
        "brighter copies linked": ("5 % brighter 0.0001", "5 % brighter 0.01"),
        "shifted copies linked": ("shifted by 1 % 0.0001", "shifted by 1 % 0.01"),
    },
    "degraded": {
        "degraded by": "degraded by",
        "caught": "caught",
        "f\\*: to the clean template": ("f*: template 0.0001", "f*: template 0.01"),
        "f: to the clean template": ("f: template 0.0001", "f: template 0.01"),
        "f\\*: among themselves": ("f*: pair 0.0001", "f*: pair 0.01"),
        "f: among themselves": ("f: pair 0.0001", "f: pair 0.01"),
        "f\\*: different people": ("f*: different people 0.0001", "f*: different people 0.01"),
        "test photographs caught": "test caught",
    },
    "precision": {
        "precision": "precision",
        "caught": "caught",
        "ev-ev": TMR["ev-ev"],
        "averaged": TMR["averaged"],
        "test": TMR["test"],
        "largest difference outside the gate": "largest difference outside",
        "least cosine to float32, forgotten": "least cosine, forgotten",
        "changed side": "other side of the gate",
    },
    "alike": {
        "forgotten": "forgotten",
        "must stay": "must stay",
        "other's highest score": "highest score",
        "cone begins at, other unknown": "offset, unknown",
        "other caught": "other caught, unknown",
        "own caught": "caught, unknown",
        "cone begins at, other spared": "offset, spared",
        "other caught then": "other caught, spared",
        "own caught then": "caught, spared",
        "taken for one person": "taken for one, spared",
    },
    "attacks": {
        "attack": "attack",
        "mean score": "mean score",
        "linked": ("linked 0.0001", "linked 0.01"),
        "area under the curve": "AUC",
    },
}


def write(study: str, rows: Sequence[Row], folder: Path) -> None:
    """`<study>.csv`, and `<study>.md` made of it. Rows of worlds that were not studied this time stay."""
    folder.mkdir(parents=True, exist_ok=True)
    studied = {row["world"] for row in rows}
    before = [row for row in read(study, folder) if row["world"] not in studied]
    rows = sorted([*rows, *before], key=lambda row: str(row["world"]))
    names = list(dict.fromkeys(name for row in rows for name in row))
    with (folder / f"{study}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows([{name: _stored(row.get(name)) for name in names} for row in rows])
    (folder / f"{study}.md").write_text(markdown(study, read(study, folder)))


def _stored(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


def read(study: str, folder: Path) -> list[dict[str, str]]:
    if not (folder / f"{study}.csv").exists():
        return []
    with (folder / f"{study}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def markdown(study: str, rows: Sequence[Mapping[str, str]]) -> str:
    """One table for each world. A column that a world has nothing for is left out."""
    parts = []
    for world in dict.fromkeys(row["world"] for row in rows):
        here = [row for row in rows if row["world"] == world]
        columns = {
            title: names
            for title, names in SHORT[study].items()
            if any(row.get(name) for row in here for name in _names(names))
        }
        lines = [list(columns), ["---"] * len(columns)]
        lines += [[_cell(row, _names(names)) for names in columns.values()] for row in here]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"**{WORLDS.get(world, world)}**\n\n{table}\n")
    return "\n".join(parts)


def _names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _cell(row: Mapping[str, str], names: tuple[str, ...]) -> str:
    return " / ".join(filter(None, (_shown(name, row.get(name) or "") for name in names)))


def _shown(name: str, text: str) -> str:
    """Rates with three places, and more if they are very small; counts and settings as they are; names of people
    without underscores."""
    try:
        value = float("nan" if name in NAMES else text)
    except ValueError:
        return {"True": "yes", "False": "no"}.get(text, text.replace("*", "\\*"))
    if name in NAMES:
        return text.replace("_", " ")
    if name in SET:
        return f"{value:g}"
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.001 else f"{value:.1g}"
