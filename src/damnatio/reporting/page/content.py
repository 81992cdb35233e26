"""What the page knows: all numbers of a run as one JSON object, which the page's script draws and looks up.

Rates are given as counts, so that the page divides the same whole numbers as Python does.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from damnatio.evaluation.chance import FEWEST, LEVEL, LINKED, unlinked
from damnatio.evaluation.measuring import ORIGINAL
from damnatio.evaluation.operating_range import UNLINKED
from damnatio.evaluation.plane import FILE as PLANE
from damnatio.evaluation.protocol import SINGLE_GROUPS
from damnatio.metrics.distributions import EDGES
from damnatio.reporting import answers
from damnatio.reporting.drawing import Evaluated
from damnatio.reporting.looks import in_full, method_of
from damnatio.reporting.lookup import Quantity, Results
from damnatio.reporting.naming import Naming
from damnatio.reporting.page.words import COLUMNS, SCORES
from damnatio.reporting.ranges import Range, first_choice
from damnatio.support.manifests import checked
from damnatio.support.tables import Table

LINKS, LOSSES, PEOPLE = 40, 40, 200
"""pairs of each forget group, people of each kept group, and forgotten people that the page lists for a model"""
KEPT = ("T", "R", "B")

Json = dict[str, Any]


def panel_of(
    scale: str, evaluated: Sequence[Evaluated], results: Results, points: Sequence[float], title: str, naming: Naming
) -> Json:
    """One scale of a run: f* and every altered model. People bear the names that `naming` gives them."""
    mine = {each.variant: each.path for each in evaluated if each.scale == scale}
    ranges = {variant: Range.read(path) for variant, path in mine.items()}
    star = ranges.get(ORIGINAL)
    targets = sorted({target for each in ranges.values() for target in each.targets})
    planes = {variant: Table.read(path / PLANE).rows() for variant, path in mine.items()}
    images = _images(planes.values(), naming)
    reach = max((abs(row[axis]) for rows in planes.values() for row in rows for axis in "xy"), default=0) or 1.0
    before = _people(mine[ORIGINAL]) if ORIGINAL in mine else {}
    pairs = _pairs(next(iter(mine.values())))
    unmeasured = [naming.person(who) for who in naming.forgotten(scale) if pairs.get(who, 0) < FEWEST]
    said: dict[str, list[list[answers.Answer]]] = {}
    models: Json = {}
    for variant, path in mine.items():
        models[variant] = {
            **_rates(ranges[variant], targets),
            "behind": variant in results.maps,
            "distances": _distances(results, scale, variant),
            "scores": _scores(path),
            "plane": _places(planes[variant], images, reach, naming),
            "links": _links(path, naming),
            "forgotten": _forgotten(path, naming),
        }
        if variant != ORIGINAL and star is not None:
            model = answers.Model(scale, variant, star, ranges[variant], results, points, unmeasured)
            said[variant] = [model.answers(target) for target in targets]
            models[variant]["answers"] = [[[answers.MARKS.index(a.mark), a.text] for a in at] for at in said[variant]]
            models[variant]["losses"] = _losses(before, _people(path), naming)
    names = {variant: in_full(variant, results.titles[variant]) for variant in said}
    control = next((variant for variant in said if method_of(variant) == "FT"), None)
    chosen = [
        answers.recommend({variant: its[place] for variant, its in said.items()}, names, control)
        for place in range(len(targets))
    ]
    return {
        "title": title,
        "scale": scale,
        "targets": targets,
        "points": list(points),
        "first": targets.index(first_choice(points, targets)),
        "columns": [column.key for column in COLUMNS if _has(ranges, column.metric, column.group)],
        "chance": _chance(targets, list(pairs.values())),
        "recommended": [[each.variant, each.text] if each else None for each in chosen],
        "images": images,
        "models": models,
    }


def _has(ranges: Mapping[str, Range], metric: str, group: str) -> bool:
    return any((metric, group) in each.series for each in ranges.values())


def _rates(its: Range, targets: Sequence[float]) -> Json:
    rates, thresholds = {}, {}
    for column in COLUMNS:
        series = its.series.get((column.metric, column.group))
        if series is None:
            continue
        found = [series.get(target) for target in targets]
        rates[column.key] = {
            "count": next(iter(series.values())).count,
            "accepted": [rate.accepted if rate else None for rate in found],
            "low": [_short(rate.low) if rate else None for rate in found],
            "high": [_short(rate.high) if rate else None for rate in found],
        }
        place = f"{column.task} {column.calibration}"
        thresholds[place] = {
            "threshold": [rate.threshold if rate else None for rate in found],
            "errors": [rate.errors if rate else None for rate in found],
        }
    return {"rates": rates, "thresholds": thresholds}


def _short(value: float) -> float | None:
    """An end of an interval, which is no number that anybody compares bit for bit; also where it is tiny."""
    return None if math.isnan(value) else float(f"{value:.4g}")


def _distances(results: Results, scale: str, variant: str) -> Json:
    wanted = {
        "W1": ("Ftr-Ftr", "W1"),
        "W1 new": ("Fev-Fev", "W1"),
        "footprint": ("R", "footprint"),
        "retained": ("R", "TMR_eer"),
        "test": ("T", "TMR_eer"),
        "new": ("Fev-Fev", "TMR_eer"),
    }
    found = {
        name: results[Quantity(scale, variant, "1:1", group, metric)].value for name, (group, metric) in wanted.items()
    }
    return {name: None if math.isnan(value) else value for name, value in found.items()}


def _scores(path: Path) -> Json:
    """Histograms: the number of the first bin that is not empty, and the counts from there on."""
    sketches = load_file(checked(path / "sketches.safetensors"))
    found: Json = {}
    for name in SCORES:
        counts = sketches.get(name)
        if counts is not None and counts.any():
            filled = np.flatnonzero(counts)
            found[name] = [int(filled[0]), counts[filled[0] : filled[-1] + 1].tolist()]
    return found


BINS = {"low": float(EDGES[0]), "width": float(EDGES[1] - EDGES[0])}


# --- people ---------------------------------------------------------------------------------------------------------


def _images(planes: Iterable[Sequence[Json]], naming: Naming) -> list[list[str]]:
    """The images that any model has a place for: name, person, and what it is (`seen`, `unseen`, `retain`, `test`)."""
    found = {row["image"]: (row["identity"], row["kind"]) for rows in planes for row in rows}
    return [[naming.image(image), naming.person(who), kind] for image, (who, kind) in found.items()]


def _places(
    plane: Sequence[Json], images: Sequence[Sequence[str]], reach: float, naming: Naming
) -> list[list[float] | None]:
    """Where each image lies under a model. No model has anybody further out than 1: `reach` is the same for all."""
    rows = {naming.image(row["image"]): row for row in plane}
    return [[round(rows[i][axis] / reach, 3) for axis in "xy"] if i in rows else None for i, _, _ in images]


def _people(path: Path) -> dict[tuple[str, str], Json]:
    rows = Table.read(path / "people.parquet").rows()
    return {(row["group"], row["identity"]): row for row in rows}


def _pairs(path: Path) -> dict[str, int]:
    """The pairs of single images of each forget identity that has any."""
    found: dict[str, int] = {}
    for (group, identity), row in _people(path).items():
        if group in SINGLE_GROUPS:
            found[identity] = found.get(identity, 0) + row["count"]
    return found


def _chance(targets: Sequence[float], pairs: Sequence[int]) -> Json:
    """By column what chance gives at each target; what it gives at most where the heading says so."""
    found: Json = {column.key: list(targets) for column in COLUMNS}
    found[f"{LINKED} F"] = [LEVEL] * len(targets)
    found[f"{UNLINKED} F"] = [unlinked(np.array(pairs), target) if pairs else None for target in targets]
    return found


def _forgotten(path: Path, naming: Naming) -> list[list[Any]]:
    """The forgotten people whose single photographs link best, highest first: name, then of each group the pairs, the
    highest score and the two photographs."""
    found: dict[str, dict[str, Json]] = {}
    for (group, identity), row in _people(path).items():
        if group in SINGLE_GROUPS:
            found.setdefault(identity, {})[group] = row
    worst = sorted(found, key=lambda name: -max(row["highest"] for row in found[name].values()))
    return [
        [naming.person(name), [_highest(found[name].get(group), naming) for group in SINGLE_GROUPS]]
        for name in worst[:PEOPLE]
    ]


def _highest(row: Json | None, naming: Naming) -> list[Any] | None:
    return [row["count"], row["highest"], naming.image(row["first"]), naming.image(row["second"])] if row else None


def _links(path: Path, naming: Naming) -> Json:
    """The highest pairs of each forget group: who, both photographs, score."""
    found: dict[str, list[list[Any]]] = {}
    for row in Table.read(path / "links.parquet").rows():
        mine = found.setdefault(row["group"], [])
        if len(mine) < LINKS:
            pair = [naming.image(row["first"]), naming.image(row["second"])]
            mine.append([naming.person(row["identity"]), *pair, row["score"]])
    return found


def _losses(before: Mapping[tuple[str, str], Json], after: Mapping[tuple[str, str], Json], naming: Naming) -> Json:
    """Of each kept group the people whose mean score fell most: name, comparisons, mean before and after, lowest."""
    found: Json = {}
    for group in KEPT:
        mine = [
            [naming.person(identity), row["count"], before[group, identity]["mean"], row["mean"], row["lowest"]]
            for (at, identity), row in after.items()
            if at == group and (group, identity) in before
        ]
        if mine:
            mine.sort(key=lambda row: row[3] - row[2])
            found[group] = [[row[0], row[1], *(round(value, 4) for value in row[2:])] for row in mine[:LOSSES]]
    return found
