"""The pairs that a pass keeps, because their scores may decide a threshold."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.scanning import Scores, Units, dots
from damnatio.evaluation.tails.cells import CELLS, Cells, Counts

CAP = 12_000_000
"""Pairs kept at most: a cell and two places of 4 bytes each, 144 MB in all."""
SPARE = 30
"""Ranks added to the share by which a rank may be misplaced. A count of r scores has a standard deviation of about
sqrt(r), which for a small r is more than a share of it. With a share w, w r + 30 >= 2 sqrt(30 w r), which at w = 0.5 is
7.7 sqrt(r) for every r."""
FEW = 50
"""A rank below this is too near to the top for a sample to bound it from above: all cells up to the top are expected.
It is larger than `SPARE`, so that the rank of the upper end stays positive."""
NARROWEST = 1e-6
"""The expectation does not shrink below this share of a rank. It is then at most `SPARE` ranks up to a rank of
3 * 10^7, and to halve it again would free little."""


class Window:
    """The cells where thresholds are expected (`held`), and the pairs of these cells that a pass came across."""

    def __init__(self, shares: int = 1) -> None:
        """`shares`: the windows that are joined after the pass, which have the room of one together."""
        self.room = CAP // shares
        self.held: NDArray[np.bool_] = np.zeros(CELLS, bool)
        self.size = 0
        self._kept: list[tuple[Cells, Cells, Cells]] = []
        self._widths: dict[float, float] = {}

    def expect(self, target: float, sample: Counts, width: float) -> None:
        """Hold the cells where the threshold of this target is expected by the counts of a sample of the pairs. `width`
        is the share of its rank by which the sample may misplace it."""
        self._widths[target] = width
        self.held |= _expected(target, sample, width)

    def keep(self, cells: Cells, i: Cells, j: Cells) -> None:
        """Keep pairs of held cells."""
        self._kept.append((cells, i, j))
        self.size += len(cells)

    @property
    def full(self) -> bool:
        return self.size > self.room

    def narrow_down(self, seen: Counts) -> None:
        """Expect the thresholds in half as many cells, around the place where the counts so far put them, until half of
        the room is free. Where too many pairs share those cells, no pair is kept: the counts alone will say what to
        do."""
        while self.size > self.room // 2 and self._widths and max(self._widths.values()) > NARROWEST:
            expected = np.zeros(CELLS, bool)
            for target in self._widths:
                self._widths[target] /= 2
                expected |= _expected(target, seen, self._widths[target])
            self.held &= expected
            stay = [self.held[cells] for cells, _, _ in self._kept]
            self._kept = [(c[s], i[s], j[s]) for (c, i, j), s in zip(self._kept, stay, strict=True)]
            self.size = sum(len(cells) for cells, _, _ in self._kept)
        if self.full:
            self.held[:] = False
            self._kept, self.size = [], 0

    @staticmethod
    def joined(parts: Sequence["Window"]) -> "Window":
        """The window of a pass that was made in parts: it holds the cells that all parts hold."""
        whole = Window()
        whole.held = np.logical_and.reduce([part.held for part in parts])
        for cells, i, j in (kept for part in parts for kept in part._kept):
            stay = whole.held[cells]
            whole.keep(cells[stay], i[stay], j[stay])
        return whole

    def holds(self, low: int, high: int) -> bool:
        """Whether all pairs of these cells were kept."""
        return bool(self.held[low : high + 1].all())

    def exact(self, units: Units, low: int, high: int) -> Scores:
        """The exact scores of the pairs that were kept in these cells."""
        found = [np.zeros(0)]
        for cells, i, j in self._kept:
            near = (cells >= low) & (cells <= high)
            found.append(dots(units, i[near], units, j[near]))
        return np.concatenate(found)


def _expected(target: float, sample: Counts, width: float) -> NDArray[np.bool_]:
    rank = target * sample.total
    top = rank * (1 - width) < FEW
    high = CELLS if top else sample.place(rank * (1 - width) - SPARE) + sample.margin
    low = sample.place(rank * (1 + width) + SPARE) - sample.margin
    cells = np.zeros(CELLS, bool)
    cells[max(low, 0) : high + 1] = True
    return cells
