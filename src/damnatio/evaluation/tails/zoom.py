"""A threshold by passes in float64 over ever finer cells, for heaps of pairs that no memory holds."""

import threading

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.scanning import (
    ANY_SCORE,
    GRID,
    Narrow,
    Units,
    exclude,
    one_thread_each,
    pair_tiles,
    product,
    workers,
)
from damnatio.evaluation.tails.cells import CELLS
from damnatio.support import processes
from damnatio.support.tables import Codes

FINEST = GRID**2
"""The spacing of scores, 2^-52: a score is a sum of products of two multiples of `GRID`. In this module it is the unit,
and scores are whole numbers."""
LOWEST = int(ANY_SCORE / FINEST)
"""where the first pass begins"""
SHIFT = 37
"""The first pass has cells of 2^37 units: 2^17 of them cover 2^54 units, the scores from -1.5 to 2.5."""
ZOOM = CELLS.bit_length() - 1
"""The cells of a pass divide one cell of the pass before by 2^17. So four passes suffice: their cells have 2^37, 2^20,
2^3 and 1 units."""


def zoom(units: Units, codes: Codes, allowed: int) -> tuple[float, int]:
    """(threshold, accepted) where so many errors are allowed. Codes are ascending."""
    narrow = Narrow(units, "float64")
    low, shift = LOWEST, SHIFT
    while True:
        counts, above, least = _count(narrow, codes, low, shift)
        from_top = above + np.cumsum(counts[::-1])
        cell = CELLS - 1 - int(np.searchsorted(from_top, allowed + 1))
        if not shift:
            higher = np.flatnonzero(counts[cell + 1 :])
            accepted = int(above + counts[cell + 1 :].sum())
            if not accepted:
                return float(np.nextafter((low + cell) * FINEST, np.inf)), 0
            return (low + cell + 1 + int(higher[0]) if len(higher) else least) * FINEST, accepted
        low, shift = low + (cell << shift), max(shift - ZOOM, 0)


def _count(narrow: Narrow, codes: Codes, low: int, shift: int) -> tuple[NDArray[np.int64], int, int]:
    """Counts over `CELLS` cells of 2^shift units from `low` up, how many scores lie above them all, and the least of
    these. Each process counts its share of the tiles, and all processes get the sums."""
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
        each(work, pair_tiles(len(codes))[processes.rank() :: processes.size()])
    every, aboves, leasts = zip(*processes.from_all((counts, above, least)), strict=True)
    return np.sum(every, axis=0), sum(aboves), min(leasts)
