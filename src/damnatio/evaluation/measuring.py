"""Stage 7: embeddings and partitions to every number of sections IV-D to IV-F of the paper.

`measure` calibrates on the development set, counts every group of the protocol at the thresholds, and resamples
subjects for the intervals. docs/protocol.md states every reading behind the rows.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from damnatio.evaluation.calibrating import Calibrated, calibrate_pairs, calibrate_searches
from damnatio.evaluation.nonmated import Spread
from damnatio.evaluation.protocol import (
    AVERAGED,
    FALSE_MATCHES,
    FORGET_GROUPS,
    SEARCH_GROUPS,
    SINGLE_GROUPS,
    Comparisons,
)
from damnatio.evaluation.scanning import Codes, Scores
from damnatio.metrics import intervals
from damnatio.metrics.distributions import Sample, wasserstein1
from damnatio.metrics.identification import identification_curve
from damnatio.metrics.verification import acceptance_curve, equal_error_rate
from damnatio.support.arrays import write_arrays
from damnatio.support.files import write_atomically
from damnatio.support.manifests import checked
from damnatio.support.tables import Table, codes_of

ORIGINAL = "original"
"""the name of f* where methods are named"""
COLUMNS = (
    "task", "group", "operating_point", "metric", "value", "count",
    "subjects", "low", "high", "wilson_low", "wilson_high",
)  # fmt: skip

QUANTILES = (0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)
SPREAD_COLUMNS = ("kind", "group", "count", "mean", "deviation", *(f"q{share:g}" for share in QUANTILES), "error")

Row = tuple[str, str, float, str, float, int, int, float, float, float, float]


@dataclass
class Reference:
    """What f* leaves for the models made from it: its thresholds and its retain scores."""

    thresholds: dict[tuple[str, str, float], float]
    mated: Sample
    nonmated: Sample


@dataclass
class Measured:
    """All that an evaluation writes."""

    rows: list[Row] = field(default_factory=list)
    warnings: list[dict[str, Any]] = field(default_factory=list)
    spreads: dict[str, Spread] = field(default_factory=dict)
    mated: dict[str, Sample] = field(default_factory=dict)
    curves: list[tuple[str, str, float, float, float, float]] = field(default_factory=list)


def measure(c: Comparisons, targets: Sequence[float], reference: Reference | None, replicates: int = 0) -> Measured:
    """Rows of results, and a warning for each operating point that rests on too few comparisons.

    `reference` is None for f* itself. The metrics `TMR_fixed`, `FMR_fixed` and `TPIR_fixed` are the rates at f*'s own
    threshold, beside those at the model's. With no replicates there are no intervals but Wilson's.
    """
    calibrated = {("1:1", "D"): calibrate_pairs(c, targets, replicates)}
    for number, (gallery, alarms) in enumerate(c.alarms.items(), start=1):
        rng = np.random.default_rng([c.seed, 8, number])
        calibrated["1:N", gallery] = calibrate_searches(alarms, targets, replicates, rng)
    found = Measured(mated={group: Sample.of(m.scores) for group, m in c.mated.items()})
    for (task, group), calibration in calibrated.items():
        for point in calibration.points:
            rate = "FMR" if task == "1:1" else "FPIR"
            found.rows.append(_row(task, group, point.target, "threshold", point.threshold, point.count))
            found.rows.append(_rate(task, group, point.target, rate, point.accepted, point.count))
            if point.warning:
                text = f"{rate} = {point.warning}"
                found.warnings.append({"task": task, "group": group, "operating_point": point.target, "warning": text})
    own = {(*key, p.target): p.threshold for key, calibration in calibrated.items() for p in calibration.points}
    fixed = reference.thresholds if reference else own
    resampled = {(*key, t): v for key, calibration in calibrated.items() for t, v in calibration.replicates.items()}
    still = {key: np.full(replicates, value) for key, value in fixed.items()} if replicates else {}
    cuts = sorted({limits["1:1", "D", target] for limits in (own, fixed) for target in targets})
    lowest = min([*cuts, *(float(v.min()) for (task, _, _), v in resampled.items() if task == "1:1")])
    for group, pairs in c.nonmated.items():
        found.spreads[group] = pairs.spread(cuts, lowest if replicates else math.inf, f"non-mated {group}")
    subjects = _Subjects(c, found.spreads, replicates)
    for suffix, thresholds, thrown in (("", own, resampled), ("_fixed", fixed, still)):
        for target in targets:
            found.rows += _rates(c, found.spreads, subjects, target, thresholds, thrown, suffix)
    found.rows += _distances(found, reference or Reference({}, found.mated["R"], found.spreads["R"].sample))
    found.rows += _equal_errors(c, found.spreads)
    found.curves = list(_curves(c, calibrated))
    return found


class _Subjects:
    """The draws of subjects of each group, made once, and the rates of their replicates."""

    def __init__(self, c: Comparisons, spreads: dict[str, Spread], replicates: int) -> None:
        self._c, self._spreads, self._replicates = c, spreads, replicates
        self._draws: dict[str, intervals.Draws] = {}

    def _of(self, name: str, subjects: int) -> intervals.Draws:
        if name not in self._draws:
            rng = np.random.default_rng([self._c.seed, 9, *name.encode()])
            self._draws[name] = intervals.draw_subjects(subjects, self._replicates, rng)
        return self._draws[name]

    def interval(self, name: str, scores: Scores, codes: Codes, thresholds: Scores | None) -> tuple[float, float]:
        if thresholds is None or not len(scores):
            return math.nan, math.nan
        local = codes_of(codes)[0]
        draws = self._of(name, int(local.max()) + 1)
        return intervals.interval(intervals.rates(scores, local, draws, thresholds))

    def pair_interval(self, name: str, thresholds: Scores | None) -> tuple[float, float]:
        pairs, spread = self._c.nonmated[name], self._spreads[name]
        if thresholds is None or not pairs.count:
            return math.nan, math.nan
        draws = self._of(f"pairs {name}", len(pairs.people))
        first, second = pairs.numbered()
        totals = pairs.pairing.weights(draws, first, second)
        top, share = spread.top, spread.top.share * pairs.share
        return intervals.interval(
            intervals.pair_rates(top.scores, first[top.i], second[top.j], share, totals, draws, thresholds)
        )


def _rates(
    c: Comparisons,
    spreads: dict[str, Spread],
    subjects: _Subjects,
    target: float,
    thresholds: dict[tuple[str, str, float], float],
    thrown: dict[tuple[str, str, float], Scores],
    suffix: str,
) -> Iterator[Row]:
    key = "1:1", "D", target
    threshold, replicates = thresholds[key], thrown.get(key)
    for group in ("R", "T", *FORGET_GROUPS):
        m = c.mated[group]
        ends = subjects.interval(group, m.scores, m.subjects, replicates)
        accepted = int(np.count_nonzero(m.scores >= threshold))
        yield _rate("1:1", group, target, f"TMR{suffix}", accepted, len(m.scores), _distinct(m.subjects), ends)
    for group, label in FALSE_MATCHES.items():
        pairs = c.nonmated[group]
        ends = subjects.pair_interval(group, replicates)
        yield _rate(
            "1:1",
            label,
            target,
            f"FMR{suffix}",
            spreads[group].accepted[threshold],
            pairs.count,
            len(pairs.people),
            ends,
        )
    if not suffix:
        yield from _weakly_forgotten(c, subjects, target, threshold, replicates)
    for group, gallery in SEARCH_GROUPS.items():
        key = "1:N", gallery, target
        s = c.searches[group]
        ends = subjects.interval(f"search {group}", s.won, s.subjects, thrown.get(key))
        accepted = int(np.count_nonzero(s.won >= thresholds[key]))
        yield _rate("1:N", group, target, f"TPIR{suffix}", accepted, len(s.own), _distinct(s.subjects), ends)


def _weakly_forgotten(
    c: Comparisons, subjects: _Subjects, target: float, threshold: float, replicates: Scores | None
) -> Iterator[Row]:
    """The share of identities none of whose pairs is linked: whose highest score stays below the threshold."""
    for group in (*SINGLE_GROUPS, "F"):
        members = [c.mated[name] for name in (SINGLE_GROUPS if group == "F" else (group,))]
        codes, everyone = codes_of(np.concatenate([m.subjects for m in members]))
        highest = np.full(len(everyone), -np.inf)
        np.maximum.at(highest, codes, np.concatenate([m.scores for m in members]))
        low, high = subjects.interval(f"weakly {group}", highest, np.arange(len(everyone)), replicates)
        kept = int(np.count_nonzero(highest < threshold))
        yield _rate("1:1", group, target, "weakly_forgotten", kept, len(everyone), len(everyone), (1 - high, 1 - low))


def _distances(found: Measured, reference: Reference) -> Iterator[Row]:
    """Distances compare like with like: single images with single images, templates with templates."""
    for group in FORGET_GROUPS:
        like = found.spreads["T" if group == AVERAGED else "T single"].sample
        yield _row("1:1", group, math.nan, "W1", wasserstein1(found.mated[group], like), found.mated[group].count)
    retained = found.spreads["R"].sample
    mated = wasserstein1(found.mated["R"], reference.mated)
    nonmated = wasserstein1(retained, reference.nonmated)
    counts = found.mated["R"].count, retained.count
    yield _row("1:1", "R", math.nan, "deformation", mated, counts[0])
    yield _row("1:1", "RxR", math.nan, "deformation", nonmated, counts[1])
    yield _row("1:1", "R", math.nan, "footprint", mated + nonmated, sum(counts))


def _equal_errors(c: Comparisons, spreads: dict[str, Spread]) -> Iterator[Row]:
    """Where a group's own mated and non-mated scores cross; no calibration set is needed."""
    for group in ("R", "T"):
        sample = spreads[group].sample
        rate, _ = equal_error_rate(c.mated[group].scores, sample.values, sample.counts)
        yield _row("1:1", group, math.nan, "EER", rate, len(c.mated[group].scores))


def _row(task: str, group: str, target: float, metric: str, value: float, count: int) -> Row:
    return task, group, target, metric, value, count, 0, math.nan, math.nan, math.nan, math.nan


def _rate(
    task: str,
    group: str,
    target: float,
    metric: str,
    accepted: int,
    count: int,
    subjects: int = 0,
    ends: tuple[float, float] = (math.nan, math.nan),
) -> Row:
    value = accepted / count if count else math.nan
    return task, group, target, metric, value, count, subjects, *ends, *intervals.wilson(accepted, count)


def _distinct(codes: Codes) -> int:
    return len(np.unique(codes))


def _curves(
    c: Comparisons, calibrated: dict[tuple[str, str], Calibrated]
) -> Iterator[tuple[str, str, float, float, float, float]]:
    """Rates over the whole operating range."""
    for (task, name), calibration in calibrated.items():
        thresholds = np.array([point.threshold for point in calibration.curve])
        rates = {}
        if task == "1:1":
            rates = {group: acceptance_curve(m.scores, thresholds) for group, m in c.mated.items()}
        else:
            for group in (group for group, gallery in SEARCH_GROUPS.items() if gallery == name):
                rates[group] = identification_curve(c.searches[group].own, c.searches[group].best, thresholds)
        for group, values in rates.items():
            for point, value in zip(calibration.curve, values.tolist(), strict=True):
                yield task, group, point.target, point.threshold, point.rate, value


# --- on disk --------------------------------------------------------------------------------------------------------


def thresholds_of(results: Table) -> dict[tuple[str, str, float], float]:
    rows = results.where(results["metric"] == "threshold")
    keys = zip(rows["task"], rows["group"], rows["operating_point"], strict=True)
    return dict(zip(keys, rows["value"].tolist(), strict=True))


def write(found: Measured, folder: Path) -> None:
    """The results, and what figures and the models made from this one need of its scores."""
    Table.of_rows(COLUMNS, found.rows).write(folder / "results.parquet")
    write_atomically(folder / "warnings.json", json.dumps(found.warnings, indent=1) + "\n")
    sketches = {f"mated/{group}": sample.histogram() for group, sample in found.mated.items()}
    sketches |= {f"non-mated/{group}": spread.sample.histogram() for group, spread in found.spreads.items()}
    write_arrays(sketches, folder / "sketches.safetensors")
    groups = [("mated", *item) for item in found.mated.items()]
    groups += [("non-mated", group, spread.sample) for group, spread in found.spreads.items()]
    Table.of_rows(SPREAD_COLUMNS, [_spread_row(*item) for item in groups]).write(folder / "distributions.parquet")
    retained = {"mated": found.mated["R"], "nonmated": found.spreads["R"].sample}
    arrays: dict[str, NDArray[Any]] = {}
    for name, sample in retained.items():
        arrays |= {f"{name}/values": sample.values, f"{name}/counts": sample.counts}
        arrays[f"{name}/error"] = np.array([sample.error])
    write_arrays(arrays, folder / "retain_scores.safetensors")
    Table.of_rows(["task", "group", "target", "threshold", "attained", "rate"], found.curves).write(
        folder / "curves.parquet"
    )


def _spread_row(kind: str, group: str, sample: Sample) -> tuple[str | float, ...]:
    moments = sample.moment(1), math.sqrt(sample.moment(2)) if sample.count else math.nan
    return kind, group, sample.count, *moments, *sample.quantiles(QUANTILES).tolist(), sample.error


def reference_from(found: Measured) -> Reference:
    """What this model, as f*, leaves for the others."""
    return Reference(thresholds_of(Table.of_rows(COLUMNS, found.rows)), found.mated["R"], found.spreads["R"].sample)


def reference_of(folder: Path) -> Reference:
    stored = load_file(checked(folder / "retain_scores.safetensors"))
    mated, nonmated = (
        Sample(stored[f"{name}/values"], stored[f"{name}/counts"], float(stored[f"{name}/error"][0]))
        for name in ("mated", "nonmated")
    )
    return Reference(thresholds_of(Table.read(folder / "results.parquet")), mated, nonmated)
