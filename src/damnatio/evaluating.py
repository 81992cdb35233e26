"""Stage 7: embeddings and partitions to every number of sections IV-D to IV-F of the paper.

`compare` makes the scores of all groups from unit vectors and the saved table of partitions; `measure` turns scores
into rows (task, group, operating_point, metric, value, count). docs/protocol.md states every reading behind them.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from damnatio.comparing import (
    Codes,
    Scores,
    Units,
    leave_one_out,
    mated_across,
    mated_pairs,
    nonmated_across,
    nonmated_pairs,
    pair_scores,
    search,
    templates,
)
from damnatio.metrics.distributions import histogram, wasserstein1
from damnatio.metrics.identification import identification_curve, true_positive_rate
from damnatio.metrics.verification import acceptance_curve, acceptance_rate, calibrate, operating_points
from damnatio.partitions import DEVELOPMENT, DISTRACTOR, FORGET, RETAIN, TEST, at_scale
from damnatio.tables import Table, codes_of, write_arrays
from damnatio.workspace import write_atomically

MANTISSAS = (1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8)
SINGLE_GROUPS = ("Ftr-Ftr", "Ftr-Fev", "Fev-Fev")
AVERAGED = "avg(Ftr)-Fev"
FORGET_GROUPS = (*SINGLE_GROUPS, AVERAGED)
CROSS_GROUPS = ("FtrxFtr", "FevxFev")
SEARCH_GROUPS = {"R": "D", "T": "D", "Ftr": "D", "Fev": "Dev"}
"""1:N groups, and the calibration of the gallery that each is searched in: `Dev` holds forget-eval templates."""
CURVE_TARGETS = [round(mantissa * 10.0**power, -power + 2) for power in range(-6, 0) for mantissa in MANTISSAS]
ORIGINAL = "original"
"""the name of f* where methods are named"""
COLUMNS = ("task", "group", "operating_point", "metric", "value", "count")

Row = tuple[str, str, float, str, float, int]


@dataclass
class Comparisons:
    """All scores of one model under one protocol."""

    development: Scores
    """non-mated single images of D: what calibrates 1:1"""
    mated: dict[str, Scores]
    nonmated: dict[str, Scores]
    identities: dict[str, Codes]
    """of each mated score of the single-image forget groups: whose it is"""
    searches: dict[str, tuple[Scores, Scores]]
    """own score and best other score of each mated search"""
    alarms: dict[str, Scores]
    """the highest score of each search with a probe of D, by gallery"""


def evaluated_rows(partitions: Table) -> NDArray[np.int64]:
    """The rows that an evaluation compares: all but what was dropped and the trained outside the control."""
    part = partitions["partition"]
    used = (part == TEST) | (part == DEVELOPMENT) | (part == DISTRACTOR) | partitions["control"]
    used |= (part == FORGET) & (partitions["role"] != "dropped")
    rows: NDArray[np.int64] = partitions["row"][used.astype(bool)].astype(np.int64)
    return rows


def compare(
    units: Units, rows: NDArray[np.int64], partitions: Table, scales: dict[str, int], scale: str, most: int, seed: int
) -> Comparisons:
    """Every score of the protocol at one scale. `units[i]` is the embedding of the image at table row `rows[i]`."""
    members = partitions.where(rows)
    codes = codes_of(members["identity"])[0]
    part, role = members["partition"], members["role"]
    forget = at_scale(members, scales, scale)

    def chosen(mask: NDArray[np.bool_]) -> tuple[Units, Codes]:
        return units[mask.astype(bool)], codes[mask.astype(bool)]

    def generator(stream: int) -> np.random.Generator:
        return np.random.default_rng([seed, 7, stream])

    train, evaluated = chosen(forget & (role == "train")), chosen(forget & (role == "eval"))
    development, test = chosen(part == DEVELOPMENT), chosen(part == TEST)
    mated: dict[str, Scores] = {}
    nonmated: dict[str, Scores] = {"T single": nonmated_pairs(*test, most, generator(1))}
    searches: dict[str, tuple[Scores, Scores]] = {}

    enrolled, probes = {}, {}
    for number, (group, name) in enumerate((("R", RETAIN), ("T", TEST)), start=2):
        enrolled[group] = templates(*chosen((part == name) & (role == "enrol")))
        probes[group] = chosen((part == name) & (role == "probe"))
        mated[group], nonmated[group] = _against(enrolled[group], probes[group], most, generator(number))

    identities = {}
    pairs_of = {
        "Ftr-Ftr": (train, train, mated_pairs(train[1])),
        "Ftr-Fev": (train, evaluated, mated_across(train[1], evaluated[1])),
        "Fev-Fev": (evaluated, evaluated, mated_pairs(evaluated[1])),
    }
    for group, (first, second, (a, b)) in pairs_of.items():
        mated[group] = pair_scores(first[0], a, second[0], b)
        identities[group] = first[1][a]
    linked = templates(*train)
    mated[AVERAGED], nonmated[AVERAGED] = _against(linked, evaluated, most, generator(4))
    nonmated["FtrxFtr"] = nonmated_pairs(*train, most, generator(5))
    nonmated["FevxFev"] = nonmated_pairs(*evaluated, most, generator(6))
    nonmated["FtrxFev"] = nonmated_across(*train, *evaluated, most, generator(7))

    others = [enrolled["R"], enrolled["T"], templates(*chosen(part == DISTRACTOR))]
    before, after = _gallery([*others, linked]), _gallery([*others, templates(*evaluated)])
    for group, probe in {**probes, "Ftr": evaluated}.items():
        own, best = search(*probe, *before)
        there = own > -math.inf
        searches[group] = own[there], best[there]
    own, best = leave_one_out(*evaluated), search(*evaluated, *after)[1]
    there = own > -math.inf  # a lone forget-eval image has no template that does not hold it
    searches["Fev"] = own[there], best[there]
    alarms = {"D": search(*development, *before)[1], "Dev": search(*development, *after)[1]}
    return Comparisons(nonmated_pairs(*development, most, generator(0)), mated, nonmated, identities, searches, alarms)


def _against(
    enrolled: tuple[Units, Codes], probes: tuple[Units, Codes], most: int, rng: np.random.Generator
) -> tuple[Scores, Scores]:
    """Mated and non-mated scores of templates against single probes."""
    a, b = mated_across(enrolled[1], probes[1])
    return pair_scores(enrolled[0], a, probes[0], b), nonmated_across(*enrolled, *probes, most, rng)


def _gallery(parts: Sequence[tuple[Units, Codes]]) -> tuple[Units, Codes]:
    return np.concatenate([units for units, _ in parts]), np.concatenate([codes for _, codes in parts])


@dataclass
class Reference:
    """What f* leaves for the models made from it: its thresholds and its retain scores."""

    thresholds: dict[tuple[str, str, float], float]
    mated: Scores
    nonmated: Scores


def measure(
    c: Comparisons, targets: Sequence[float], reference: Reference | None
) -> tuple[list[Row], list[dict[str, Any]]]:
    """Rows of results, and a warning for each operating point that rests on too few comparisons.

    `reference` is None for f* itself. The metrics `TMR_fixed`, `FMR_fixed` and `TPIR_fixed` are the rates at f*'s own
    threshold, beside those at the model's.
    """
    calibrations = {("1:1", "D"): calibrate(c.development, targets)}
    calibrations |= {("1:N", gallery): calibrate(best, targets) for gallery, best in c.alarms.items()}
    rows: list[Row] = []
    warnings = []
    for (task, group), points in calibrations.items():
        for point in points:
            rate = "FMR" if task == "1:1" else "FPIR"
            rows.append((task, group, point.target, "threshold", point.threshold, point.count))
            rows.append((task, group, point.target, rate, point.rate, point.count))
            if point.warning:
                text = f"{rate} = {point.warning}"
                warnings.append({"task": task, "group": group, "operating_point": point.target, "warning": text})
    own = {(task, group, p.target): p.threshold for (task, group), points in calibrations.items() for p in points}
    for suffix, thresholds in (("", own), ("_fixed", reference.thresholds if reference else own)):
        for target in targets:
            rows += _rates(c, target, thresholds["1:1", "D", target], suffix)
            for group, gallery in SEARCH_GROUPS.items():
                mine, best = c.searches[group]
                share = true_positive_rate(mine, best, thresholds["1:N", gallery, target])
                rows.append(("1:N", group, target, f"TPIR{suffix}", share, len(mine)))
    rows += _distances(c, reference or Reference({}, c.mated["R"], c.nonmated["R"]))
    return rows, warnings


def _rates(c: Comparisons, target: float, threshold: float, suffix: str) -> Iterator[Row]:
    for group in ("R", "T", *FORGET_GROUPS):
        scores = c.mated[group]
        yield "1:1", group, target, f"TMR{suffix}", acceptance_rate(scores, threshold), len(scores)
    for group, label in (("R", "RxR"), ("T", "TxT"), *((cross, cross) for cross in CROSS_GROUPS)):
        scores = c.nonmated[group]
        yield "1:1", label, target, f"FMR{suffix}", acceptance_rate(scores, threshold), len(scores)
    if not suffix:
        linked = {group: c.identities[group][c.mated[group] >= threshold] for group in SINGLE_GROUPS}
        present = {group: c.identities[group] for group in SINGLE_GROUPS}
        linked["F"] = np.concatenate(list(linked.values()))
        present["F"] = np.concatenate(list(present.values()))
        for group, codes in present.items():
            everyone = np.unique(codes)
            share = 1 - len(np.unique(linked[group])) / len(everyone) if len(everyone) else math.nan
            yield "1:1", group, target, "weakly_forgotten", share, len(everyone)


def _distances(c: Comparisons, reference: Reference) -> Iterator[Row]:
    """Distances compare like with like: single images with single images, templates with templates."""
    for group in FORGET_GROUPS:
        like = c.nonmated["T" if group == AVERAGED else "T single"]
        yield "1:1", group, math.nan, "W1", wasserstein1(c.mated[group], like), len(c.mated[group])
    mated = wasserstein1(c.mated["R"], reference.mated)
    nonmated = wasserstein1(c.nonmated["R"], reference.nonmated)
    yield "1:1", "R", math.nan, "deformation", mated, len(c.mated["R"])
    yield "1:1", "RxR", math.nan, "deformation", nonmated, len(c.nonmated["R"])
    yield "1:1", "R", math.nan, "footprint", mated + nonmated, len(c.mated["R"]) + len(c.nonmated["R"])


def thresholds_of(results: Table) -> dict[tuple[str, str, float], float]:
    rows = results.where(results["metric"] == "threshold")
    keys = zip(rows["task"], rows["group"], rows["operating_point"], strict=True)
    return dict(zip(keys, rows["value"].tolist(), strict=True))


def write(c: Comparisons, rows: list[Row], warnings: list[dict[str, Any]], folder: Path) -> None:
    """The results, and what figures and the models made from this one need of its scores."""
    Table.of_rows(COLUMNS, rows).write(folder / "results.parquet")
    write_atomically(folder / "warnings.json", json.dumps(warnings, indent=1) + "\n")
    sketches = {f"mated/{group}": histogram(scores) for group, scores in c.mated.items()}
    sketches |= {f"non-mated/{group}": histogram(scores) for group, scores in c.nonmated.items()}
    write_arrays(sketches, folder / "sketches.safetensors")
    write_arrays({"mated": c.mated["R"], "nonmated": c.nonmated["R"]}, folder / "retain_scores.safetensors")
    Table.of_rows(["task", "group", "target", "threshold", "attained", "rate"], list(_curves(c))).write(
        folder / "curves.parquet"
    )


def reference_of(folder: Path) -> Reference:
    scores = load_file(folder / "retain_scores.safetensors")
    return Reference(thresholds_of(Table.read(folder / "results.parquet")), scores["mated"], scores["nonmated"])


def _curves(c: Comparisons) -> Iterator[tuple[str, str, float, float, float, float]]:
    """Rates over the whole operating range, as far down as the calibration set resolves."""
    tasks: list[tuple[str, Scores, dict[str, Any]]] = [("1:1", c.development, {g: (s,) for g, s in c.mated.items()})]
    tasks += [
        ("1:N", best, {g: c.searches[g] for g, of in SEARCH_GROUPS.items() if of == gallery})
        for gallery, best in c.alarms.items()
    ]
    for task, nonmated, groups in tasks:
        targets = [t for t in CURVE_TARGETS if t * len(nonmated) >= 1]
        thresholds, attained = operating_points(nonmated, targets)
        for group, scores in groups.items():
            curve: Any = identification_curve if task == "1:N" else acceptance_curve
            rates = curve(*scores, thresholds)
            for point in zip(targets, thresholds.tolist(), attained.tolist(), rates.tolist(), strict=True):
                yield task, group, *point
