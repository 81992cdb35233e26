"""Stage 7: embeddings and partitions to every number of sections IV-D to IV-F of the paper.

`measure` calibrates on the development set, counts every group of the protocol at the thresholds, and resamples
subjects for the intervals. docs/protocol.md states every reading behind the rows.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
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
from damnatio.evaluation.scanning import Scores
from damnatio.evaluation.thresholds import Threshold, Thresholds
from damnatio.metrics import intervals
from damnatio.metrics.distributions import Sample, wasserstein1
from damnatio.metrics.identification import identification_curve
from damnatio.metrics.verification import acceptance_curve, equal_error_rate
from damnatio.support.arrays import write_arrays
from damnatio.support.files import write_atomically
from damnatio.support.manifests import checked
from damnatio.support.tables import Codes, Table, codes_of

ORIGINAL = "original"
"""the name of f* where methods are named"""
FALSE_RATES = {"1:1": "FMR", "1:N": "FPIR"}
"""by task: the rate that its thresholds are calibrated at"""
QUANTILES = (0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)
NONE = (math.nan, math.nan)
"""an interval that is not known"""


@dataclass(frozen=True)
class Result:
    """One row of the results: a value and what it rests on."""

    task: str
    group: str
    operating_point: float
    """the target rate; NaN for distances and equal error rates"""
    metric: str
    value: float
    count: int
    subjects: int = 0
    low: float = math.nan
    high: float = math.nan
    wilson_low: float = math.nan
    wilson_high: float = math.nan


COLUMNS = tuple(column.name for column in fields(Result))


@dataclass(frozen=True)
class CurvePoint:
    """The rate of a group at one threshold of the operating range, and the rate that the calibration set has there."""

    task: str
    group: str
    target: float
    threshold: float
    attained: float
    rate: float


@dataclass
class Reference:
    """What f* leaves for the models made from it: its thresholds and its retain scores."""

    thresholds: Thresholds
    mated: Sample
    nonmated: Sample


@dataclass
class Measured:
    """All that an evaluation writes."""

    thresholds: Thresholds
    results: list[Result] = field(default_factory=list)
    warnings: list[dict[str, Any]] = field(default_factory=list)
    spreads: dict[str, Spread] = field(default_factory=dict)
    mated: dict[str, Sample] = field(default_factory=dict)
    curves: list[CurvePoint] = field(default_factory=list)


def measure(c: Comparisons, targets: Sequence[float], reference: Reference | None, replicates: int = 0) -> Measured:
    """All results, and a warning for each operating point that rests on too few comparisons.

    `reference` is None for f* itself. The metrics `TMR_fixed`, `FMR_fixed` and `TPIR_fixed` are the rates at f*'s own
    threshold, beside those at the model's. Without replicates, Wilson's intervals are the only ones.
    """
    calibrations = _calibrate(c, targets, replicates)
    own = Thresholds.calibrated(calibrations)
    fixed = (reference.thresholds if reference else own).fixed(replicates)
    found = Measured(own)
    found.mated = {group: Sample.of(mated.scores) for group, mated in c.mated.items()}
    found.spreads = _pass_over(c, [t.of("1:1", "D", target) for t in (own, fixed) for target in targets], replicates)
    rates = _Rates(c, found.spreads, replicates)
    for calibration in calibrations:
        found.results += _calibration_results(calibration)
        found.warnings += _warnings(calibration)
    for target in targets:
        found.results += rates.at(target, own)
    for target in targets:
        found.results += rates.at(target, fixed, "_fixed")
    found.results += _distances(found, reference or reference_from(found))
    found.results += _equal_errors(c, found.spreads)
    found.curves = list(_curves(c, calibrations))
    return found


def _calibrate(c: Comparisons, targets: Sequence[float], replicates: int) -> list[Calibrated]:
    calibrations = [calibrate_pairs(c, targets, replicates)]
    for number, (gallery, alarms) in enumerate(c.alarms.items(), start=1):
        rng = np.random.default_rng([c.seed, 8, number])
        calibrations.append(calibrate_searches(gallery, alarms, targets, replicates, rng))
    return calibrations


def _calibration_results(calibration: Calibrated) -> Iterator[Result]:
    task, name = calibration.task, calibration.name
    for point in calibration.points:
        yield Result(task, name, point.target, "threshold", point.threshold, point.count)
        yield _rate(task, name, point.target, FALSE_RATES[task], point.accepted, point.count)


def _warnings(calibration: Calibrated) -> Iterator[dict[str, Any]]:
    for point in calibration.points:
        if point.warning:
            text = f"{FALSE_RATES[calibration.task]} = {point.warning}"
            point_of = {"task": calibration.task, "group": calibration.name, "operating_point": point.target}
            yield {**point_of, "warning": text}


def _pass_over(c: Comparisons, thresholds: Sequence[Threshold], replicates: int) -> dict[str, Spread]:
    """One pass over the non-mated scores of each group. With replicates it lists the pairs that any of their thresholds
    accepts."""
    cuts = sorted({threshold.value for threshold in thresholds})
    lowest = min(threshold.lowest for threshold in thresholds) if replicates else math.inf
    return {group: pairs.spread(cuts, lowest, f"non-mated {group}") for group, pairs in c.nonmated.items()}


class _Rates:
    """The rates of every group at given thresholds. The subjects of each group are drawn once for all its intervals."""

    def __init__(self, c: Comparisons, spreads: dict[str, Spread], replicates: int) -> None:
        self._c, self._spreads, self._replicates = c, spreads, replicates
        self._draws: dict[str, intervals.Draws] = {}

    def at(self, target: float, thresholds: Thresholds, suffix: str = "") -> Iterator[Result]:
        """The suffix marks the metrics where the thresholds are not the model's own."""
        threshold = thresholds.of("1:1", "D", target)
        yield from self._true_matches(target, threshold, f"TMR{suffix}")
        yield from self._false_matches(target, threshold, f"FMR{suffix}")
        if not suffix:
            yield from self._weakly_forgotten(target, threshold)
        for group, gallery in SEARCH_GROUPS.items():
            yield self._identification(group, target, thresholds.of("1:N", gallery, target), f"TPIR{suffix}")

    def _true_matches(self, target: float, threshold: Threshold, metric: str) -> Iterator[Result]:
        for group in ("R", "T", *FORGET_GROUPS):
            scores, subjects = self._c.mated[group].scores, self._c.mated[group].subjects
            ends = self._interval(group, scores, subjects, threshold)
            accepted = int(np.count_nonzero(scores >= threshold.value))
            yield _rate("1:1", group, target, metric, accepted, len(scores), _distinct(subjects), ends)

    def _false_matches(self, target: float, threshold: Threshold, metric: str) -> Iterator[Result]:
        for group, name in FALSE_MATCHES.items():
            pairs, accepted = self._c.nonmated[group], self._spreads[group].accepted[threshold.value]
            ends = self._pair_interval(group, threshold)
            yield _rate("1:1", name, target, metric, accepted, pairs.count, len(pairs.people), ends)

    def _weakly_forgotten(self, target: float, threshold: Threshold) -> Iterator[Result]:
        """The share of identities none of whose pairs is linked: their highest score stays below the threshold."""
        for group in (*SINGLE_GROUPS, "F"):
            members = [self._c.mated[name] for name in (SINGLE_GROUPS if group == "F" else (group,))]
            codes, everyone = codes_of(np.concatenate([m.subjects for m in members]))
            highest = np.full(len(everyone), -np.inf)
            np.maximum.at(highest, codes, np.concatenate([m.scores for m in members]))
            low, high = self._interval(f"weakly {group}", highest, np.arange(len(everyone)), threshold)
            unlinked, count = int(np.count_nonzero(highest < threshold.value)), len(everyone)
            yield _rate("1:1", group, target, "weakly_forgotten", unlinked, count, count, (1 - high, 1 - low))

    def _identification(self, group: str, target: float, threshold: Threshold, metric: str) -> Result:
        won, subjects = self._c.searches[group].won, self._c.searches[group].subjects
        ends = self._interval(f"search {group}", won, subjects, threshold)
        accepted = int(np.count_nonzero(won >= threshold.value))
        return _rate("1:N", group, target, metric, accepted, len(won), _distinct(subjects), ends)

    def _interval(self, name: str, scores: Scores, codes: Codes, threshold: Threshold) -> tuple[float, float]:
        """Of the share of accepted scores."""
        if threshold.replicates is None or not len(scores):
            return NONE
        numbers, people = codes_of(codes)
        draws = self._drawn(name, len(people))
        return intervals.interval(intervals.rates(scores, numbers, draws, threshold.replicates))

    def _pair_interval(self, group: str, threshold: Threshold) -> tuple[float, float]:
        """Of the share of accepted non-mated pairs."""
        pairs, top = self._c.nonmated[group], self._spreads[group].top
        if threshold.replicates is None or not pairs.count:
            return NONE
        draws = self._drawn(f"pairs {group}", len(pairs.people))
        first, second = pairs.numbered()
        totals = pairs.pairing.weights(draws, first, second)
        people, share = (first[top.i], second[top.j]), top.share * pairs.share
        return intervals.interval(intervals.pair_rates(top.scores, *people, share, totals, draws, threshold.replicates))

    def _drawn(self, name: str, subjects: int) -> intervals.Draws:
        if name not in self._draws:
            rng = np.random.default_rng([self._c.seed, 9, *name.encode()])
            self._draws[name] = intervals.draw_subjects(subjects, self._replicates, rng)
        return self._draws[name]


def _distances(found: Measured, reference: Reference) -> Iterator[Result]:
    """Distances compare like with like: single images with single images, templates with templates."""
    for group in FORGET_GROUPS:
        like = found.spreads["T" if group == AVERAGED else "T single"].sample
        yield Result("1:1", group, math.nan, "W1", wasserstein1(found.mated[group], like), found.mated[group].count)
    retained = found.spreads["R"].sample
    mated = wasserstein1(found.mated["R"], reference.mated)
    nonmated = wasserstein1(retained, reference.nonmated)
    counts = found.mated["R"].count, retained.count
    yield Result("1:1", "R", math.nan, "deformation", mated, counts[0])
    yield Result("1:1", "RxR", math.nan, "deformation", nonmated, counts[1])
    yield Result("1:1", "R", math.nan, "footprint", mated + nonmated, sum(counts))


def _equal_errors(c: Comparisons, spreads: dict[str, Spread]) -> Iterator[Result]:
    """Where a group's own mated and non-mated scores cross; no calibration set is needed."""
    for group in ("R", "T"):
        sample = spreads[group].sample
        rate, _ = equal_error_rate(c.mated[group].scores, sample.values, sample.counts)
        yield Result("1:1", group, math.nan, "EER", rate, len(c.mated[group].scores))


def _rate(
    task: str,
    group: str,
    target: float,
    metric: str,
    accepted: int,
    count: int,
    subjects: int = 0,
    ends: tuple[float, float] = NONE,
) -> Result:
    value = accepted / count if count else math.nan
    return Result(task, group, target, metric, value, count, subjects, *ends, *intervals.wilson(accepted, count))


def _distinct(codes: Codes) -> int:
    return len(np.unique(codes))


def _curves(c: Comparisons, calibrations: Sequence[Calibrated]) -> Iterator[CurvePoint]:
    """Rates over the whole operating range."""
    for calibration in calibrations:
        thresholds = np.array([point.threshold for point in calibration.curve])
        if calibration.task == "1:1":
            rates = {group: acceptance_curve(mated.scores, thresholds) for group, mated in c.mated.items()}
        else:
            groups = [group for group, gallery in SEARCH_GROUPS.items() if gallery == calibration.name]
            rates = {g: identification_curve(c.searches[g].own, c.searches[g].best, thresholds) for g in groups}
        for group, values in rates.items():
            for point, rate in zip(calibration.curve, values.tolist(), strict=True):
                yield CurvePoint(calibration.task, group, point.target, point.threshold, point.rate, rate)


# --- on disk --------------------------------------------------------------------------------------------------------


def table_of(kind: type[Result] | type[CurvePoint], records: Sequence[Result] | Sequence[CurvePoint]) -> Table:
    """One column per field, one row per record."""
    return Table({column.name: [getattr(record, column.name) for record in records] for column in fields(kind)})


def write(found: Measured, folder: Path) -> None:
    """The results, and what figures and the models made from this one need of its scores."""
    table_of(Result, found.results).write(folder / "results.parquet")
    write_atomically(folder / "warnings.json", json.dumps(found.warnings, indent=1) + "\n")
    samples = {("mated", group): sample for group, sample in found.mated.items()}
    samples |= {("non-mated", group): spread.sample for group, spread in found.spreads.items()}
    sketches = {f"{kind}/{group}": sample.histogram() for (kind, group), sample in samples.items()}
    write_arrays(sketches, folder / "sketches.safetensors")
    _distributions(samples).write(folder / "distributions.parquet")
    retained = {"mated": found.mated["R"], "nonmated": found.spreads["R"].sample}
    arrays: dict[str, NDArray[Any]] = {}
    for name, sample in retained.items():
        arrays |= {f"{name}/values": sample.values, f"{name}/counts": sample.counts}
        arrays[f"{name}/error"] = np.array([sample.error])
    write_arrays(arrays, folder / "retain_scores.safetensors")
    table_of(CurvePoint, found.curves).write(folder / "curves.parquet")


def _distributions(samples: dict[tuple[str, str], Sample]) -> Table:
    """One row per distribution: moments and quantiles."""
    each = list(samples.values())
    columns: dict[str, list[Any]] = {
        "kind": [kind for kind, _ in samples],
        "group": [group for _, group in samples],
        "count": [sample.count for sample in each],
        "mean": [sample.moment(1) for sample in each],
        "deviation": [math.sqrt(sample.moment(2)) if sample.count else math.nan for sample in each],
    }
    quantiles = [sample.quantiles(QUANTILES).tolist() for sample in each]
    columns |= {f"q{share:g}": [row[place] for row in quantiles] for place, share in enumerate(QUANTILES)}
    return Table({**columns, "error": [sample.error for sample in each]})


def reference_from(found: Measured) -> Reference:
    """What this model, as f*, leaves for the others."""
    return Reference(found.thresholds, found.mated["R"], found.spreads["R"].sample)


def reference_of(folder: Path) -> Reference:
    """What f* left in the folder of its evaluation."""
    stored = load_file(checked(folder / "retain_scores.safetensors"))
    mated, nonmated = (
        Sample(stored[f"{name}/values"], stored[f"{name}/counts"], float(stored[f"{name}/error"][0]))
        for name in ("mated", "nonmated")
    )
    return Reference(Thresholds.of_results(Table.read(folder / "results.parquet")), mated, nonmated)
