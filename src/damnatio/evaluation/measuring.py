"""Stage 7: embeddings and partitions to every number of sections IV-D to IV-F of the paper.

`measure` calibrates on the development set, counts every group of the protocol at the thresholds, and resamples
subjects for the intervals. docs/protocol.md states every reading behind the rows.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from damnatio.evaluation.calibrating import MARKED, Calibrated, calibrate_pairs, calibrate_searches
from damnatio.evaluation.legacy import Legacy
from damnatio.evaluation.nonmated import NonMated, Spread
from damnatio.evaluation.operating_range import CurvePoint, curves, false_match_thresholds
from damnatio.evaluation.people import Link, Person, links_of, people_of
from damnatio.evaluation.protocol import AVERAGED, FORGET_GROUPS, Comparisons
from damnatio.evaluation.rates import FIXED, Rates, Result, What, rate_of
from damnatio.evaluation.thresholds import Threshold, Thresholds
from damnatio.metrics.distributions import Sample, wasserstein1
from damnatio.metrics.verification import Calibration, equal_error_rate
from damnatio.support import processes
from damnatio.support.arrays import write_arrays
from damnatio.support.files import write_atomically
from damnatio.support.manifests import checked
from damnatio.support.tables import Table

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ORIGINAL = "original"
"""the name of f* where methods are named"""
FALSE_RATES = {"1:1": "FMR", "1:N": "FPIR"}
"""by task: the rate that its thresholds are calibrated at"""
ABOVE = f"above_{MARKED:g}"
"""the metric of the share of scores that reach the threshold at `MARKED`"""
LOW = 0.001
"""the share of scores below the quantile that says how far down a distribution reaches (V-G)"""
QUANTILES = (LOW, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)


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
    people: list[Person] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)


def measure(c: Comparisons, targets: Sequence[float], reference: Reference | None, replicates: int = 0) -> Measured:
    """All results, and a warning for each operating point that rests on too few comparisons.

    `reference` is None for f* itself. The metrics `TMR_fixed`, `FMR_fixed` and `TPIR_fixed` are the rates at f*'s own
    threshold, beside those at the model's. Where the comparisons hold those with a legacy gallery, the metrics
    `TMR_legacy`, `FMR_legacy`, `TPIR_legacy` and `FPIR_legacy` are the rates there, and `drift_cosine` and `unchanged`
    say how far the embeddings moved. Without replicates, Wilson's intervals are the only ones.
    """
    calibrations, marked = _calibrate(c, targets, replicates)
    own = Thresholds.calibrated(calibrations)
    fixed = (reference.thresholds if reference else own).fixed(replicates)
    found = Measured(own)
    found.mated = {group: Sample.of(mated.scores) for group, mated in c.mated.items()}
    used = [t.of("1:1", "D", target) for t in (own, fixed) for target in targets]
    also = false_match_thresholds(calibrations)
    found.spreads = {group: _pass_over(pairs, used, replicates, group, also) for group, pairs in c.nonmated.items()}
    rates = Rates(c, found.spreads, replicates)
    for calibration in calibrations:
        found.results += _calibration_results(calibration)
        found.warnings += _warnings(calibration.task, calibration.name, calibration.points)
    for target in targets:
        found.results += rates.at(target, own)
    for target in targets:
        found.results += rates.at(target, fixed, FIXED)
    if c.legacy is not None:
        if reference is None:
            raise ValueError("a legacy gallery is judged at the thresholds of f*, and no reference is given")
        found.results += _legacy_results(c.legacy, rates, targets, fixed, replicates)
    found.results += _distances(found, reference or reference_from(found))
    found.results += _shapes(found.mated)
    found.results += marked.results(rates)
    found.warnings += marked.warnings(targets)
    found.results += _equal_errors(c, found.spreads, rates, replicates)
    found.curves = list(curves(c, calibrations, found.spreads, rates.drawn if replicates else None))
    found.people, found.links = list(people_of(c)), list(links_of(c))
    return found


@dataclass(frozen=True)
class _Marked:
    """The threshold of 1:1 at `MARKED`, which need be none of the operating points."""

    point: Calibration
    threshold: Threshold

    def results(self, rates: Rates) -> Iterator[Result]:
        yield Result("1:1", "D", math.nan, f"threshold_{MARKED:g}", self.point.threshold, self.point.count)
        yield from rates.reached(ABOVE, self.threshold)

    def warnings(self, targets: Sequence[float]) -> Iterator[dict[str, Any]]:
        if MARKED not in targets:
            yield from _warnings("1:1", "D", [self.point])


def _calibrate(c: Comparisons, targets: Sequence[float], replicates: int) -> tuple[list[Calibrated], _Marked]:
    pairs = calibrate_pairs(c, list(dict.fromkeys([*targets, MARKED])), replicates)
    marked = _Marked(pairs.at(MARKED), Threshold(pairs.at(MARKED).threshold, pairs.replicates.get(MARKED)))
    calibrations = [replace(pairs, points=[pairs.at(target) for target in targets])]
    for number, (gallery, alarms) in enumerate(c.alarms.items(), start=1):
        rng = np.random.default_rng([c.seed, 8, number])
        calibrations.append(calibrate_searches(gallery, alarms, targets, replicates, rng))
    return calibrations, marked


def _calibration_results(calibration: Calibrated) -> Iterator[Result]:
    task, name = calibration.task, calibration.name
    for point in calibration.points:
        yield Result(task, name, point.target, "threshold", point.threshold, point.count)
        yield rate_of(What(task, name, point.target, FALSE_RATES[task]), point.accepted, point.count)


def _warnings(task: str, name: str, points: Sequence[Calibration]) -> Iterator[dict[str, Any]]:
    for point in points:
        if point.warning:
            text = f"{FALSE_RATES[task]} = {point.warning}"
            yield {"task": task, "group": name, "operating_point": point.target, "warning": text}


def _pass_over(
    pairs: NonMated, thresholds: Sequence[Threshold], replicates: int, group: str, also: Sequence[float] = ()
) -> Spread:
    """One pass over the non-mated scores of a group, which are counted at these thresholds and `also` at those. With
    replicates it lists the pairs that any of their thresholds accepts."""
    cuts = sorted({*(threshold.value for threshold in thresholds), *also})
    lowest = min(threshold.lowest for threshold in thresholds) if replicates else math.inf
    return pairs.spread(cuts, lowest, f"non-mated {group}")


def _legacy_results(
    legacy: Legacy, rates: Rates, targets: Sequence[float], fixed: Thresholds, replicates: int
) -> Iterator[Result]:
    used = [fixed.of("1:1", "D", target) for target in targets]
    spread = _pass_over(legacy.nonmated, used, replicates, "legacy T")
    for target in targets:
        yield from rates.legacy(target, fixed, legacy, spread)
    yield from rates.drift(legacy)


def _distances(found: Measured, reference: Reference) -> Iterator[Result]:
    """Distances compare like with like: single images with single images, templates with templates. `W1_retain` does
    not: the retain identities are enrolled as templates, and the paper takes their distribution as it is."""
    retained = found.spreads["R"].sample
    for group in FORGET_GROUPS:
        like, sample = found.spreads["T" if group == AVERAGED else "T single"].sample, found.mated[group]
        yield Result("1:1", group, math.nan, "W1", wasserstein1(sample, like), sample.count)
        yield Result("1:1", group, math.nan, "W1_retain", wasserstein1(sample, retained), sample.count)
    mated = wasserstein1(found.mated["R"], reference.mated)
    nonmated = wasserstein1(retained, reference.nonmated)
    counts = found.mated["R"].count, retained.count
    yield Result("1:1", "R", math.nan, "deformation", mated, counts[0])
    yield Result("1:1", "RxR", math.nan, "deformation", nonmated, counts[1])
    yield Result("1:1", "R", math.nan, "footprint", mated + nonmated, sum(counts))


def _shapes(mated: dict[str, Sample]) -> Iterator[Result]:
    """Whether a distribution is narrow or broad, and how far down it reaches."""
    for group, sample in mated.items():
        yield Result("1:1", group, math.nan, "std", sample.deviation, sample.count)
        lowest = float(sample.quantiles([LOW])[0])
        yield Result("1:1", group, math.nan, f"quantile_{LOW:g}", lowest, sample.count)


def _equal_errors(c: Comparisons, spreads: dict[str, Spread], rates: Rates, replicates: int) -> Iterator[Result]:
    """Where a group's own mated and non-mated scores cross; no calibration set is needed. At the threshold where those
    of R cross, the paper's Fig. 7 reads the rates of all groups. Replicates keep that threshold."""
    crossings = {}
    for group in ("R", "T"):
        sample, mated = spreads[group].sample, c.mated[group].scores
        rate, crossings[group] = equal_error_rate(mated, sample.values, sample.counts)
        yield Result("1:1", group, math.nan, "EER", rate, len(mated))
    value = crossings["R"]
    if math.isnan(value):  # nobody is retained
        return
    yield Result("1:1", "R", math.nan, "threshold_eer", value, len(c.mated["R"].scores))
    yield from rates.reached("TMR_eer", Threshold(value, np.full(replicates, value) if replicates else None))


# --- on disk --------------------------------------------------------------------------------------------------------


def table_of(kind: "type[DataclassInstance]", records: "Sequence[DataclassInstance]") -> Table:
    """One column per field, one row per record."""
    return Table({column.name: [getattr(record, column.name) for record in records] for column in fields(kind)})


def write(found: Measured, folder: Path) -> None:
    """The results, and what figures and the models made from this one need of its scores. The main process writes."""
    processes.from_main(lambda: _write(found, folder))


def _write(found: Measured, folder: Path) -> None:
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
    table_of(Person, found.people).write(folder / "people.parquet")
    table_of(Link, found.links).write(folder / "links.parquet")


def _distributions(samples: dict[tuple[str, str], Sample]) -> Table:
    """One row per distribution: moments and quantiles."""
    each = list(samples.values())
    columns: dict[str, list[Any]] = {
        "kind": [kind for kind, _ in samples],
        "group": [group for _, group in samples],
        "count": [sample.count for sample in each],
        "mean": [sample.moment(1) for sample in each],
        "deviation": [sample.deviation for sample in each],
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
