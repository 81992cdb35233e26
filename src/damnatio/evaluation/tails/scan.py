"""One pass over all non-mated pairs: it counts narrow scores, keeps the pairs of the window, counts what given
thresholds accept, and draws samples of the highest pairs."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.choosing import PAIRS, trial
from damnatio.evaluation.scanning import (
    ANY_SCORE,
    HEAP,
    Kind,
    Narrow,
    Sieve,
    Units,
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
from damnatio.evaluation.tails.cells import CELLS, PER_UNIT, Cells, Counts, cells_of
from damnatio.evaluation.tails.window import Window
from damnatio.evaluation.thinning import Thinned
from damnatio.metrics.verification import Calibration
from damnatio.support import processes
from damnatio.support.progress import progress
from damnatio.support.tables import Codes

TRIAL = 4
"""Tiles by which each thread tries a kind of product: some 10 to 20 ms each at d = 512, which a clock measures well.
The smallest job with a trial, of 2^28 pairs, has 256 tiles."""
CROWDED = 0.005
"""A threshold is left out where more than this share of all pairs lies within the bound of it. Each of those pairs is
scored one by one, which takes as long as `HEAP` pairs of a tile: at this share a sixth of the pass."""


@dataclass
class Cut:
    """A threshold given beforehand, and how many of the pairs within the bound of it, those of the cells `low` to
    `high`, it accepts. All pairs of higher cells are accepted."""

    rate: float
    threshold: float
    low: int
    high: int
    accepted: int = 0


class Scan:
    """Codes are ascending. No narrow score is further than `slack` from the exact one."""

    def __init__(self, units: Units, codes: Codes, narrow: Narrow, slack: float) -> None:
        self.units, self.codes, self.narrow, self.slack = units, codes, narrow, slack
        self.counts = Counts(slack)
        self._total = nonmated_count(codes)
        self._shares = processes.size() if self._total >= PAIRS else 1
        """processes that divide the tiles among them"""
        self.window = Window(self._shares)
        self.cuts: list[Cut] = []
        self.samples: dict[float, tuple[int, Thinned]] = {}
        """by target: pairs from this cell up"""
        self._floor = 0
        self._cut_cells: NDArray[np.bool_] = np.zeros(CELLS, bool)
        self._sieves: dict[Kind, Sieve] = {}
        self._sieve: Sieve | None = None
        self._lock = threading.Lock()

    # --- before the pass --------------------------------------------------------------------------------------------

    def cut(self, thresholds: dict[float, float], sample: Counts) -> None:
        """Count what these thresholds accept, except those that the sample shows to be crowded."""
        for rate, threshold in thresholds.items():
            low = int((threshold + 1 - self.slack) * PER_UNIT) - 1
            high = int((threshold + 1 + self.slack) * PER_UNIT) + 1
            if low > 0 and sample.per_cell[low : high + 1].sum() <= CROWDED * sample.total:
                self.cuts.append(Cut(rate, threshold, low, high))

    def promising(self, vectors: Units, sample: Counts) -> list[Kind]:
        """The kinds that leave few pairs open as a sieve, by some of the vectors and the counts of their pairs."""
        self._set_floor()
        found: list[Kind] = []
        for kind in sieves(vectors.shape[1]):
            narrow = Narrow(vectors, kind)
            typical = sum(float(bounds.mean()) for bounds in reach(narrow, narrow))
            lowest = max(self._floor - int(typical * PER_UNIT), 0)
            if sample.per_cell[lowest:].sum() * HEAP <= sample.total:
                found.append(kind)
        return found

    def _set_floor(self) -> None:
        """Find the cell below which no pair matters."""
        self._cut_cells[:] = False
        for cut in self.cuts:
            self._cut_cells[cut.low : cut.high + 1] = True
        starts = [int(np.argmax(cells)) for cells in (self.window.held, self._cut_cells) if cells.any()]
        self._floor = min(starts + [low for low, _ in self.samples.values()], default=0)

    # --- the pass ---------------------------------------------------------------------------------------------------

    def run(self, title: str, kinds: Sequence[Kind] = ("float32",)) -> Kind:
        """Do the pass. Return the kind of product that most of it took: that with which the first tiles cost least. Of
        a long pass each process does its share of the tiles, and all processes get all that was found."""
        self._set_floor()
        tiles = pair_tiles(len(self.codes))
        if self._shares > 1:
            tiles = tiles[processes.rank() :: self._shares]
        self._seen = 0
        with progress(title, len(tiles) if title else 0, "tiles") as advance, one_thread_each(workers()) as each:

            def work(tile: tuple[slice, slice]) -> None:
                self._add(*tile)
                advance(1)

            def run_tiles(kind: Kind, start: int, stop: int) -> None:
                self._sieve = self._sieves.get(kind)
                each(work, tiles[start:stop])

            best, done = trial(kinds, self._prepare, run_tiles, len(tiles), TRIAL * workers())
            self._prepare(best)
            run_tiles(best, done, len(tiles))
        if self._shares > 1:
            self._join()
        return best

    def _join(self) -> None:
        """Bring together what the processes found."""
        thinned = [thinned for _, thinned in self.samples.values()]
        accepted = [cut.accepted for cut in self.cuts]
        parts = processes.from_all((self.counts.per_cell, accepted, self.window, thinned))
        counts, cuts, windows, samples = zip(*parts, strict=True)
        self.counts.per_cell = np.sum(counts, axis=0)
        self.window = Window.joined(windows)
        for cut, *found in zip(self.cuts, *cuts, strict=True):
            cut.accepted = sum(found)
        for (target, (low, _)), *found in zip(self.samples.items(), *samples, strict=True):
            self.samples[target] = low, Thinned.joined(found)

    def _prepare(self, kind: Kind) -> None:
        if kind != self.narrow.kind and kind not in self._sieves and self._floor:
            copies = Narrow(self.units, kind)
            self._sieves[kind] = Sieve(copies, copies)

    def _scores(self, rows: slice, columns: slice) -> tuple[NDArray[np.uint32], NDArray[Any]]:
        """The pairs of a tile whose narrow scores are not below the floor: places in the tile, and the scores."""
        lowest = self._floor / PER_UNIT - 1 if self._floor else ANY_SCORE
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
        cells = cells_of(scores)
        found = np.bincount(cells, minlength=CELLS)

        def pairs(which: NDArray[np.bool_]) -> tuple[Cells, Cells, Cells]:
            return cells[which], *_pairs(here[which], rows, columns)

        held = pairs(self.window.held[cells])
        if self.cuts:
            self._resolve(*pairs(self._cut_cells[cells]))
        drawn = []
        for low, thinned in self.samples.values():
            _, i, j = pairs(cells >= low)
            drawn.append((thinned, *thinned.among(i.astype(np.int64), j.astype(np.int64))))
        with self._lock:
            self.counts.per_cell += found
            self._seen += (rows.stop - rows.start) * (columns.stop - columns.start)
            self.window.keep(*held)
            for thinned, i, j in drawn:
                thinned.add(i, j)
            if self.window.full:
                self.window.narrow_down(self._so_far())

    def _so_far(self) -> Counts:
        """The counts of all pairs seen. Those below the floor are not counted one by one and stand in the lowest cell;
        how many they are follows from the share of the tiles that is done."""
        seen = np.zeros(CELLS, np.int64)
        seen[self._floor :] = self.counts.per_cell[self._floor :]
        done = min(1.0, self._seen * 2 / len(self.codes) ** 2)
        seen[0] += max(0, round(self._total * done) - seen.sum())
        return Counts(self.slack, seen)

    def _resolve(self, cells: Cells, i: Cells, j: Cells) -> None:
        """Score the pairs within the bound of a cut exactly."""
        if not len(cells):
            return
        exact = dots(self.units, i, self.units, j)
        for cut in self.cuts:
            near = (cells >= cut.low) & (cells <= cut.high)
            accepted = int(np.count_nonzero(exact[near] >= cut.threshold))
            if accepted:
                with self._lock:
                    cut.accepted += accepted

    # --- after the pass ---------------------------------------------------------------------------------------------

    def answer(self, allowed: int) -> tuple[float, int] | None:
        """(threshold, accepted), or None where the pairs that decide were not kept."""
        if self.counts.total <= allowed:
            return None
        low, high = self.counts.around(allowed)
        while True:
            if not self.window.holds(low, high):
                return None
            above = self.counts.above(high)
            exact = np.sort(self.window.exact(self.units, low, high))[::-1]
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
                high = self.counts.beyond(high)

    def curve(self, pairs: int) -> list[Calibration]:
        """The cuts as calibrations. The pilot set their thresholds: a rate may lie on either side of its target."""
        return [
            Calibration(cut.rate, cut.threshold, cut.accepted + self.counts.above(cut.high), pairs) for cut in self.cuts
        ]


def _pairs(places: NDArray[np.uint32], rows: slice, columns: slice) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The vectors of these places in a tile."""
    width = np.uint32(columns.stop - columns.start)
    above = places // width
    return (above + rows.start).astype(np.int32), (places - above * width + columns.start).astype(np.int32)
