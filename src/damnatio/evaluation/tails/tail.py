"""Thresholds at target rates over all non-mated pairs of a set: a pilot, a pass, and what is needed after it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from damnatio.evaluation.choosing import PAIRS
from damnatio.evaluation.scanning import ROUNDED, Kind, Narrow, Units, bound, nonmated_count
from damnatio.evaluation.tails import window
from damnatio.evaluation.tails.cells import Counts
from damnatio.evaluation.tails.scan import Scan
from damnatio.evaluation.tails.zoom import zoom
from damnatio.evaluation.thinning import Thinned
from damnatio.metrics.intervals import rank_of_replicates
from damnatio.metrics.verification import Calibration, allowed_errors
from damnatio.support.tables import Codes

PILOT = 4096
"""Vectors of the pilot. Their 8 million pairs hold some 800 errors at a rate of 1e-4, and are ten tiles."""
WIDTH = 0.5
"""The share of its rank by which the pilot may misplace a threshold. Pairs of the pilot share vectors, so that their
counts vary more than those of independent pairs; a wrong expectation costs a second pass and no exactness."""


@dataclass
class Tail:
    """What is known of the highest of all non-mated scores of a set."""

    pairs: int
    calibrations: list[Calibration]
    curve: list[Calibration]
    """rates over the whole range: a threshold near each wanted rate, and the exact count of what it accepts"""
    samples: dict[float, Thinned]
    """by target: pairs around and above its threshold, for resampling"""
    passes: int = 1


def scan_tail(
    units: Units,
    codes: Codes,
    targets: Sequence[float],
    rates: Sequence[float] = (),
    kind: Kind | None = None,
    title: str = "",
) -> Tail:
    """Thresholds at the targets over all non-mated pairs, and the rates that thresholds near `rates` attain.

    Memory: the vectors twice, one tile per thread, and 12 bytes for each of `CAP` pairs.
    """
    order = np.argsort(codes, kind="stable")
    if np.any(np.diff(order) != 1):
        units, codes = units[order], codes[order]
    pairs = nonmated_count(codes)
    if not pairs:
        raise ValueError("a threshold needs at least one non-mated score")
    narrow = Narrow(units, "float64" if kind == "float64" else "float32")
    slack = bound(narrow, narrow) + ROUNDED  # the number of a cell is computed in float32 too
    chosen = np.sort(np.random.default_rng(1).permutation(len(codes))[:PILOT])
    sample = _pilot(units[chosen], codes[chosen], narrow.kind, slack)
    scan = Scan(units, codes, narrow, slack)
    for target in targets:
        scan.window.expect(target, sample, WIDTH)
        lowest = sample.place(rank_of_replicates(target * sample.total)) - sample.margin
        scan.samples[target] = max(lowest, 0), Thinned()
    scan.cut({rate: sample.edge(rate) for rate in rates}, sample)
    kinds: list[Kind] = [kind] if kind else ["float32"]
    if not kind and pairs >= PAIRS:
        kinds += scan.promising(units[chosen], sample)
    best = scan.run(title, kinds)
    calibrations, passes = _answers(scan, {target: allowed_errors(pairs, target) for target in targets}, best, title)
    for _, thinned in scan.samples.values():
        thinned.i, thinned.j = order[thinned.i], order[thinned.j]
    return Tail(
        pairs,
        [Calibration(target, *calibrations[target], pairs) for target in targets],
        scan.curve(pairs),
        {target: thinned for target, (_, thinned) in scan.samples.items()},
        passes,
    )


def _pilot(units: Units, codes: Codes, kind: Kind, slack: float) -> Counts:
    """The counts of the pairs of some vectors."""
    scan = Scan(units, codes, Narrow(units, kind), slack)
    scan.run("")
    if not scan.counts.total:  # one identity: any score is as likely as any other
        scan.counts.per_cell[:] = 1
    return scan.counts


def _answers(
    scan: Scan, allowed: dict[float, int], kind: Kind, title: str
) -> tuple[dict[float, tuple[float, int]], int]:
    """By target (threshold, accepted), and how many passes that took. A pass that did not keep the pairs that decide is
    followed by one that does, or by a zoom where there are too many of them."""
    found: dict[float, tuple[float, int]] = {}
    passes = 0
    while True:
        passes += 1
        for target, errors in allowed.items():
            if target not in found and (answer := scan.answer(errors)):
                found[target] = answer
        again = Scan(scan.units, scan.codes, scan.narrow, scan.slack)
        for target in [target for target in allowed if target not in found]:
            cells = scan.counts.surely(allowed[target])
            together = scan.counts.per_cell[again.window.held].sum() + scan.counts.per_cell[cells].sum()
            if together > window.CAP:
                found[target] = zoom(scan.units, scan.codes, allowed[target])
            else:
                again.window.held[cells] = True
        if len(found) == len(allowed):
            return found, passes
        again.run(title, [kind])
        scan = again  # it counts from its own floor up: curve and samples are those of the first pass
