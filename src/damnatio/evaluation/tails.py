"""The threshold at a target false-match rate from *all* non-mated pairs of a set, exactly, in one pass and in bounded
memory.

With N pairs and a target p, at most r = p N of them may be accepted, so the threshold is the lowest score above the
(r+1)-th largest. The pass makes narrow scores (see `scanning`), counts them in cells of width 2^-16, and keeps which
pairs fell into the cells where the answer is expected: first from a pilot on some of the vectors, then from the counts
so far, which shrink the expectation whenever more than `CAP` pairs are kept. In the end the counts name the cell of the
(r+1)-th largest narrow score. If no narrow score is further than e from the exact one, neither is this order
statistic: pairs more than 2e above it are above the exact one for certain, pairs more than 2e below are below, and
those between are scored exactly and sorted.

Narrow scores are float32's here. Where the answer lies high, few pairs matter, and a product of a narrower kind can
come first as a sieve: pairs that by its bound lie below all that is counted need no float32 score.

If the answer falls outside what was kept, the counts say where it is and a second pass keeps just that. If more than
`CAP` pairs lie within the bound of the answer (a collapsed model), passes in exact float64 zoom in on it, by cells that
end as wide as the spacing of scores, so a tie of any size is one cell.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.choosing import PAIRS, trial
from damnatio.evaluation.scanning import (
    ANY_SCORE,
    HEAP,
    ROUNDED,
    Codes,
    Kind,
    Narrow,
    Scores,
    Sieve,
    Units,
    bound,
    dots,
    exclude,
    listed,
    nonmated_count,
    one_thread_each,
    pair_tiles,
    places_from,
    product,
    reach,
    sieves,
    taken,
    workers,
)
from damnatio.evaluation.thinning import Thinned
from damnatio.metrics.verification import Calibration, allowed_errors
from damnatio.support.progress import progress

CAP = 12_000_000
"""pairs kept at most, 12 bytes each"""
PER_UNIT = 1 << 16
CELLS = 2 * PER_UNIT
PILOT = 4096
WIDTH = 0.5
"""the share of its rank by which the pilot may misplace a threshold, to begin with"""
TRIAL = 4
"""tiles by which each thread tries a kind of product"""
FINEST = 2.0**-52
Cells = NDArray[Any]


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

    Memory: the vectors twice, a tile a thread and 12 bytes for each of `CAP` pairs.
    """
    order = np.argsort(codes, kind="stable")
    if np.any(np.diff(order) != 1):
        units, codes = units[order], codes[order]
    pairs = nonmated_count(codes)
    if not pairs:
        raise ValueError("a threshold needs at least one non-mated score")
    narrow = Narrow(units, "float64" if kind == "float64" else "float32")
    slack = bound(narrow, narrow) + ROUNDED  # a cell's number is computed in float32 too
    chosen = np.sort(np.random.default_rng(1).permutation(len(codes))[:PILOT])
    pilot = _Scan(units[chosen], codes[chosen], Narrow(units[chosen], narrow.kind), slack)
    pilot.run("")
    if not pilot.counts.any():  # a pilot of one identity
        pilot.counts[:] = 1
    scan = _Scan(units, codes, narrow, slack)
    wanted = {target: allowed_errors(pairs, target) for target in targets}
    for target in targets:
        scan.expect(target, pilot.counts, WIDTH)
        scan.samples[target] = (max(pilot.place(4 * target * pilot.counts.sum() + 30) - scan.margin, 0), Thinned())
    scan.cut({rate: pilot.edge(rate) for rate in rates}, pilot.counts)
    kinds: list[Kind] = [kind] if kind else ["float32"]
    if not kind and pairs >= PAIRS:
        kinds += scan.promising(units[chosen], pilot.counts)
    chosen_kind = scan.run(title, kinds)
    first = scan  # a second pass counts from its own floor up
    calibrations: dict[float, Calibration] = {}
    passes = 0
    while True:
        passes += 1
        for target, allowed in wanted.items():
            if target not in calibrations and (answer := scan.answer(allowed)):
                calibrations[target] = Calibration(target, *answer, pairs)
        missing = [target for target in targets if target not in calibrations]
        if not missing:
            break
        again = _Scan(units, codes, narrow, slack)
        for target in missing:
            cells = scan.surely(wanted[target])
            if scan.counts[again.held].sum() + scan.counts[cells].sum() > CAP:
                calibrations[target] = Calibration(target, *_zoom(units, codes, wanted[target]), pairs)
            else:
                again.held[cells] = True
        if all(target in calibrations for target in missing):
            break
        again.run(title, [chosen_kind])
        scan = again
    samples = {}
    for target, (_, thinned) in first.samples.items():
        thinned.i, thinned.j = order[thinned.i], order[thinned.j]
        samples[target] = thinned
    return Tail(pairs, [calibrations[t] for t in targets], first.curve(pairs), samples, passes)


@dataclass
class _Cut:
    """A threshold fixed beforehand to give about this rate, and the exact count of open pairs at or above it."""

    rate: float
    threshold: float
    low: int
    high: int
    accepted: int = 0


@dataclass
class _Scan:
    """One pass over all pairs of vectors that stand in the order of their codes."""

    units: Units
    codes: Codes
    narrow: Narrow
    slack: float
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(CELLS, np.int64))
    held: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(CELLS, bool))
    expected: dict[float, float] = field(default_factory=dict)
    cuts: list[_Cut] = field(default_factory=list)
    samples: dict[float, tuple[int, Thinned]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kept: list[tuple[Cells, Cells, Cells]] = []
        self.size = 0
        self.margin = int(np.ceil(2 * self.slack * PER_UNIT)) + 1
        self.floor = 0
        self._sieves: dict[Kind, Sieve] = {}
        self._lock = threading.Lock()

    # --- before the pass --------------------------------------------------------------------------------------------

    def place(self, rank: float) -> int:
        """The cell of the score of this rank from the top, by the counts so far."""
        from_top = np.cumsum(self.counts[::-1])
        return CELLS - 1 - min(int(np.searchsorted(from_top, rank)), CELLS - 1)

    def edge(self, rate: float) -> float:
        """A threshold at about this rate: the lower edge of a cell."""
        return self.place(rate * self.counts.sum()) / PER_UNIT - 1

    def expect(self, target: float, counts: NDArray[np.int64], width: float) -> None:
        """Keep the pairs of the cells where the threshold is expected, by counts of a sample of the pairs."""
        self.expected[target] = width
        self.held |= self._expected(target, counts, width)

    def _expected(self, target: float, counts: NDArray[np.int64], width: float) -> NDArray[np.bool_]:
        rank = target * counts.sum()
        sample = _Scan(self.units[:0], self.codes[:0], self.narrow, self.slack, counts)
        high = CELLS if rank * (1 - width) < 50 else sample.place(rank * (1 - width) - 30) + self.margin
        low = sample.place(rank * (1 + width) + 30) - self.margin
        cells = np.zeros(CELLS, bool)
        cells[max(low, 0) : high + 1] = True
        return cells

    def cut(self, thresholds: dict[float, float], counts: NDArray[np.int64]) -> None:
        """Count what these thresholds accept. One with a heap of pairs within the bound is left out: it would be all
        exact work."""
        for rate, threshold in thresholds.items():
            low = int((threshold + 1 - self.slack) * PER_UNIT) - 1
            high = int((threshold + 1 + self.slack) * PER_UNIT) + 1
            if low > 0 and counts[low : high + 1].sum() <= 0.005 * counts.sum():
                self.cuts.append(_Cut(rate, threshold, low, high))

    def promising(self, sample: Units, counts: NDArray[np.int64]) -> list[Kind]:
        """The kinds that leave few pairs open as a sieve, by some of the vectors and the counts of their pairs."""
        self._set_floor()
        found: list[Kind] = []
        for kind in sieves(sample.shape[1]):
            narrow = Narrow(sample, kind)
            typical = sum(float(part.mean()) for part in reach(narrow, narrow))
            lowest = max(self.floor - int(typical * PER_UNIT), 0)
            if counts[lowest:].sum() * HEAP <= counts.sum():
                found.append(kind)
        return found

    # --- the pass ---------------------------------------------------------------------------------------------------

    def _set_floor(self) -> None:
        """No pair below this cell matters."""
        self._cut_cells = np.zeros(CELLS, bool)
        for cut in self.cuts:
            self._cut_cells[cut.low : cut.high + 1] = True
        lowest = [np.flatnonzero(cells)[:1] for cells in (self.held, self._cut_cells) if cells.any()]
        starts = [int(low[0]) for low in lowest] + [low for low, _ in self.samples.values()]
        self.floor = min(starts, default=0)

    def run(self, title: str, kinds: Sequence[Kind] = ("float32",)) -> Kind:
        """The pass, and the kind of product that most of it took: that with which the first tiles cost least."""
        self._set_floor()
        tiles = pair_tiles(len(self.codes))
        self._total = nonmated_count(self.codes)
        self._seen = 0
        with progress(title, len(tiles) if title else 0, "tiles") as advance, one_thread_each(workers()) as each:

            def work(tile: tuple[slice, slice]) -> None:
                self._add(*tile)
                advance(1)

            def part(kind: Kind, start: int, stop: int) -> None:
                self._sieve = self._sieves.get(kind)
                each(work, tiles[start:stop])

            best, done = trial(kinds, self._prepare, part, len(tiles), TRIAL * workers())
            self._prepare(best)
            part(best, done, len(tiles))
        return best

    def _prepare(self, kind: Kind) -> None:
        if kind != self.narrow.kind and kind not in self._sieves and self.floor:
            copies = Narrow(self.units, kind)
            self._sieves[kind] = Sieve(copies, copies)

    def _scores(self, rows: slice, columns: slice) -> tuple[NDArray[np.uint32], NDArray[Any]]:
        """The pairs of a tile whose narrow scores are not below the floor: places in the tile, and the scores."""
        lowest = self.floor / PER_UNIT - 1 if self.floor else ANY_SCORE
        sieve = self._sieve
        if sieve is not None and sieve.pays():
            tile = sieve.tile(rows, columns)
            exclude(tile, self.codes, rows, columns)
            places = places_from(tile, (lowest - self.slack) - sieve.rows[rows])
            if sieve.leaves_few(len(places), tile.numel()):
                i, j = _pairs(places, rows, columns)
                scores = listed(self.narrow, i, self.narrow, j)
                reached = scores >= lowest
                return places[reached], scores[reached]
        tile = product(self.narrow, rows, self.narrow, columns)
        exclude(tile, self.codes, rows, columns)
        places = places_from(tile, lowest)
        return places, taken(tile, places)

    def _add(self, rows: slice, columns: slice) -> None:
        here, scores = self._scores(rows, columns)
        cells = np.clip((scores + 1) * PER_UNIT, 0, CELLS - 1).astype(np.int32)
        found = np.bincount(cells, minlength=CELLS)

        def pairs(which: NDArray[np.bool_]) -> tuple[Cells, Cells, Cells]:
            return cells[which], *_pairs(here[which], rows, columns)

        held = pairs(self.held[cells])
        if self.cuts:
            self._resolve(*pairs(self._cut_cells[cells]))
        drawn = []
        for low, thinned in self.samples.values():
            _, i, j = pairs(cells >= low)
            drawn.append((thinned, *thinned.among(i.astype(np.int64), j.astype(np.int64))))
        with self._lock:
            self.counts += found
            self._seen += (rows.stop - rows.start) * (columns.stop - columns.start)
            self.kept.append(held)
            self.size += len(held[0])
            for thinned, i, j in drawn:
                thinned.add(i, j)
            if self.size > CAP:
                self._narrow_down()

    def _resolve(self, cells: Cells, i: Cells, j: Cells) -> None:
        if not len(cells):
            return
        exact = dots(self.units, i, self.units, j)
        for cut in self.cuts:
            near = (cells >= cut.low) & (cells <= cut.high)
            accepted = int(np.count_nonzero(exact[near] >= cut.threshold))
            if accepted:
                with self._lock:
                    cut.accepted += accepted

    def _narrow_down(self) -> None:
        """Expect the thresholds in half as many cells, around where the counts so far put them. Where a heap of pairs
        shares those cells none is kept: the counts alone will say what to do."""
        seen = np.zeros(CELLS, np.int64)
        seen[self.floor :] = self.counts[self.floor :]
        seen[0] += max(0, round(self._total * min(1.0, self._seen * 2 / len(self.codes) ** 2)) - seen.sum())
        while self.size > CAP // 2 and self.expected and max(self.expected.values()) > 1e-6:
            expected = np.zeros(CELLS, bool)
            for target in self.expected:
                self.expected[target] /= 2
                expected |= self._expected(target, seen, self.expected[target])
            self.held &= expected
            self.kept = [tuple(part[self.held[cells]] for part in (cells, i, j)) for cells, i, j in self.kept]  # type: ignore[misc]
            self.size = sum(len(cells) for cells, _, _ in self.kept)
        if self.size > CAP:
            self.held[:] = False
            self.kept, self.size = [], 0

    # --- after the pass ---------------------------------------------------------------------------------------------

    def around(self, allowed: int) -> tuple[int, int]:
        """The cells within the bound of the score of rank `allowed` + 1."""
        place = self.place(allowed + 1)
        return max(place - self.margin, 0), min(place + self.margin, CELLS - 1)

    def surely(self, allowed: int) -> slice:
        """Cells that hold the answer, by the counts of this pass, for a next one; all if it did not reach so far down.
        A margin more on both sides, as the next pass may round otherwise."""
        if self.counts.sum() <= allowed:
            return slice(0, CELLS)
        low, high = self.around(allowed)
        return slice(max(low - self.margin, 0), self.beyond(high) + self.margin + 1)

    def beyond(self, high: int) -> int:
        """So far up that the lowest score of all pairs above the cell `high` lies within."""
        filled = np.flatnonzero(self.counts[high + 1 :])[:1]
        return min(high + 1 + int(filled.sum()) + self.margin, CELLS - 1)

    def answer(self, allowed: int) -> tuple[float, int] | None:
        """(threshold, accepted), or None where the pairs that decide were not kept."""
        if self.counts.sum() <= allowed:
            return None
        low, high = self.around(allowed)
        while True:
            if not self.held[low : high + 1].all():
                return None
            above = int(self.counts[high + 1 :].sum())
            exact = np.sort(self._exact(low, high))[::-1]
            border = exact[allowed - above]
            higher = exact[exact > border]
            if len(higher):
                reach = min(int((higher[-1] + self.slack + 1) * PER_UNIT), CELLS - 1)
                if reach <= high:  # else a pair above the window may be less than all higher ones within
                    return float(higher[-1]), above + len(higher)
                high = reach
            elif not above:
                return float(np.nextafter(border, np.inf)), 0
            else:
                high = self.beyond(high)

    def _exact(self, low: int, high: int) -> Scores:
        parts = [
            dots(self.units, i[near], self.units, j[near])
            for cells, i, j in self.kept
            if (near := (cells >= low) & (cells <= high)).any()
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def curve(self, pairs: int) -> list[Calibration]:
        """The cuts as calibrations. The pilot set their thresholds: a rate may lie on either side of its target."""
        points = []
        for cut in self.cuts:
            accepted = cut.accepted + int(self.counts[cut.high + 1 :].sum())
            points.append(Calibration(cut.rate, cut.threshold, accepted, pairs))
        return points


def _pairs(places: NDArray[np.uint32], rows: slice, columns: slice) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The vectors of these places in a tile."""
    width = np.uint32(columns.stop - columns.start)
    above = places // width
    return (above + rows.start).astype(np.int32), (places - above * width + columns.start).astype(np.int32)


def _zoom(units: Units, codes: Codes, allowed: int) -> tuple[float, int]:
    """(threshold, accepted) by passes in float64 over ever finer cells, of 2^shift times the spacing of scores. Codes
    are ascending."""
    narrow = Narrow(units, "float64")
    low, shift = -3 << 51, 37  # from -1.5 up, 4 in all
    while True:
        counts, above, least = _fine(narrow, codes, low, shift)
        from_top = above + np.cumsum(counts[::-1])
        cell = CELLS - 1 - int(np.searchsorted(from_top, allowed + 1))
        if not shift:
            higher = np.flatnonzero(counts[cell + 1 :])
            accepted = int(above + counts[cell + 1 :].sum())
            if not accepted:
                return float(np.nextafter((low + cell) * FINEST, np.inf)), 0
            return (low + cell + 1 + int(higher[0]) if len(higher) else least) * FINEST, accepted
        low, shift = low + (cell << shift), max(shift - 17, 0)


def _fine(narrow: Narrow, codes: Codes, low: int, shift: int) -> tuple[NDArray[np.int64], int, int]:
    """Counts over `CELLS` cells from `low` up; how many scores lie above them all, and the least of these. Scores are
    whole numbers here, of which `FINEST` is the unit."""
    counts = np.zeros(CELLS, np.int64)
    above, least = 0, 1 << 53
    lock = threading.Lock()
    high = low + (CELLS << shift)

    def work(tile: tuple[slice, slice]) -> None:
        nonlocal above, least
        scores = product(narrow, tile[0], narrow, tile[1])
        exclude(scores, codes, *tile)
        flat = (scores.view(-1) / FINEST).long()
        within = flat[(flat >= low) & (flat < high)].cpu().numpy()
        beyond = flat[flat >= high]
        found = np.bincount((within - low) >> shift, minlength=CELLS)
        with lock:
            counts[:] += found
            above += len(beyond)
            least = min(least, int(beyond.min())) if len(beyond) else least

    with one_thread_each(workers()) as each:
        each(work, pair_tiles(len(codes)))
    return counts, above, least
