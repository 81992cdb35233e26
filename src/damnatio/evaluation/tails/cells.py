"""Counts of narrow scores in cells, and what they say about order statistics of the exact scores."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

PER_UNIT = 1 << 16
"""Cells per unit of the score. A cell is 2^-16 = 1.5e-5 wide, half the bound of float32 scores at d = 512 (3e-5): finer
cells would locate an order statistic no better."""
CELLS = 2 * PER_UNIT
"""from -1 to 1"""

Cells = NDArray[Any]
"""the numbers of cells, whole numbers of any width"""


def cells_of(scores: NDArray[Any]) -> NDArray[np.int32]:
    """The cell of each narrow score. A score that rounding carried past -1 or 1 falls into the cell at that end."""
    cells: NDArray[np.int32] = np.clip((scores + 1) * PER_UNIT, 0, CELLS - 1).astype(np.int32)
    return cells


class Counts:
    """How many narrow scores fell into each cell. None of them is further than `slack` from the exact score."""

    def __init__(self, slack: float, per_cell: NDArray[np.int64] | None = None) -> None:
        self.slack = slack
        self.margin = int(np.ceil(2 * slack * PER_UNIT)) + 1
        """Cells that cover twice the slack: an order statistic is off by at most the slack, and so is a score. One cell
        more, as neither lies at the edge of its cell."""
        self.per_cell = np.zeros(CELLS, np.int64) if per_cell is None else per_cell

    @property
    def total(self) -> int:
        return int(self.per_cell.sum())

    def above(self, cell: int) -> int:
        """How many scores lie in higher cells."""
        return int(self.per_cell[cell + 1 :].sum())

    def place(self, rank: float) -> int:
        """The cell of the score of this rank from the top."""
        from_top = np.cumsum(self.per_cell[::-1])
        return CELLS - 1 - min(int(np.searchsorted(from_top, rank)), CELLS - 1)

    def edge(self, rate: float) -> float:
        """A threshold at about this rate: the lower edge of a cell."""
        return self.place(rate * self.total) / PER_UNIT - 1

    def around(self, allowed: int) -> tuple[int, int]:
        """The first and the last cell that a score may have which ranks `allowed` + 1 exactly."""
        place = self.place(allowed + 1)
        return max(place - self.margin, 0), min(place + self.margin, CELLS - 1)

    def beyond(self, high: int) -> int:
        """A cell so far up that the lowest score of all pairs above the cell `high` lies at or below it."""
        filled = np.flatnonzero(self.per_cell[high + 1 :])[:1]
        return min(high + 1 + int(filled.sum()) + self.margin, CELLS - 1)

    def surely(self, allowed: int) -> slice:
        """The cells that hold the answer for certain, for a next pass; all cells if these counts do not reach so far
        down. One margin more on both sides, because the next pass may round differently."""
        if self.total <= allowed:
            return slice(0, CELLS)
        low, high = self.around(allowed)
        return slice(max(low - self.margin, 0), self.beyond(high) + self.margin + 1)
