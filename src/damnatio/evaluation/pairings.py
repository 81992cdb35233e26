"""Which vectors meet: those of one set among themselves, or those of one set with those of another."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from damnatio.evaluation.comparing import mated_across, mated_pairs
from damnatio.evaluation.scanning import (
    COLUMNS,
    EXCLUDED,
    ROWS,
    Narrow,
    Places,
    Scores,
    Units,
    blocks,
    exclude,
    nonmated_count,
    pair_tiles,
)
from damnatio.metrics import intervals
from damnatio.support.tables import Codes

Mask = NDArray[np.bool_]
Tile = tuple[slice, slice]


@dataclass(frozen=True)
class Vectors:
    """Unit vectors, and the identity of each by code."""

    units: Units
    codes: Codes

    @property
    def pair(self) -> tuple[Units, Codes]:
        return self.units, self.codes

    def __len__(self) -> int:
        return len(self.codes)


V_co = TypeVar("V_co", bound=Vectors, covariant=True)


@dataclass(frozen=True)
class Sorted:
    """Vectors in ascending order of code, in float64, and the place that each had before."""

    order: Places
    codes: Codes
    rows: Narrow

    @staticmethod
    def of(vectors: Vectors) -> "Sorted":
        order = np.argsort(vectors.codes, kind="stable")
        return Sorted(order, vectors.codes[order], Narrow(vectors.units[order], "float64"))


Sides = tuple[Sorted, Sorted]


class Pairing(ABC, Generic[V_co]):
    """Which vectors of `first` meet which vectors of `second`."""

    def __init__(self, first: V_co, second: V_co) -> None:
        self.first, self.second = first, second
        self.count = self._count()

    @abstractmethod
    def _count(self) -> int:
        """How many non-mated pairs there are."""

    @abstractmethod
    def columns(self, rows: slice) -> slice:
        """The range of `second` that holds all vectors which these rows of `first` meet."""

    @abstractmethod
    def met(self, rows: slice) -> Mask:
        """Of these rows of `first` and `columns(rows)` of `second`: which pairs meet. Each pair is met once."""

    @abstractmethod
    def weights(self, draws: intervals.Draws, first: Codes, second: Codes) -> Scores:
        """The weight of all non-mated pairs in each replicate. The codes are places in a row of `draws`."""

    @abstractmethod
    def in_order(self) -> Sides:
        """Both sides in ascending order of code."""

    @abstractmethod
    def tiles(self) -> list[Tile]:
        """Tiles of the ordered sides that together hold every pair."""

    @abstractmethod
    def exclude(self, tile: Tensor, sides: Sides, rows: slice, columns: slice) -> None:
        """Set the pairs of a tile that do not count to EXCLUDED."""

    @abstractmethod
    def mated(self) -> tuple[Places, Places]:
        """Places in both sides of every mated pair that meets."""

    def nonmated(self, rows: slice) -> Mask:
        """Which pairs of `met(rows)` are non-mated."""
        differ: Mask = self.first.codes[rows, None] != self.second.codes[None, self.columns(rows)]
        return self.met(rows) & differ


class Within(Pairing[V_co]):
    """Each pair of one set once."""

    def __init__(self, vectors: V_co) -> None:
        super().__init__(vectors, vectors)

    def _count(self) -> int:
        return nonmated_count(self.first.codes)

    def mated(self) -> tuple[Places, Places]:
        return mated_pairs(self.first.codes)

    def columns(self, rows: slice) -> slice:
        return slice(rows.start, len(self.first))

    def met(self, rows: slice) -> Mask:
        return np.asarray(np.arange(rows.start, len(self.first)) > np.arange(rows.start, rows.stop)[:, None])

    def weights(self, draws: intervals.Draws, first: Codes, second: Codes) -> Scores:
        return intervals.pair_totals(draws, np.bincount(first, minlength=draws.shape[1]))

    def in_order(self) -> Sides:
        side = Sorted.of(self.first)
        return side, side

    def tiles(self) -> list[Tile]:
        return pair_tiles(len(self.first))

    def exclude(self, tile: Tensor, sides: Sides, rows: slice, columns: slice) -> None:
        exclude(tile, sides[0].codes, rows, columns)


class Across(Pairing[V_co]):
    """Each vector of one set with each vector of another."""

    def _count(self) -> int:
        return len(self.first) * len(self.second) - len(self.mated()[0])

    def mated(self) -> tuple[Places, Places]:
        return mated_across(self.first.codes, self.second.codes)

    def columns(self, rows: slice) -> slice:
        return slice(0, len(self.second))

    def met(self, rows: slice) -> Mask:
        return np.ones((rows.stop - rows.start, len(self.second)), bool)

    def weights(self, draws: intervals.Draws, first: Codes, second: Codes) -> Scores:
        sizes = [np.bincount(codes, minlength=draws.shape[1]) for codes in (first, second)]
        return intervals.pair_totals(draws, *sizes)

    def in_order(self) -> Sides:
        return Sorted.of(self.first), Sorted.of(self.second)

    def tiles(self) -> list[Tile]:
        return [(r, c) for r in blocks(len(self.first), ROWS) for c in blocks(len(self.second), COLUMNS)]

    def exclude(self, tile: Tensor, sides: Sides, rows: slice, columns: slice) -> None:
        mine, theirs = sides[0].codes[rows], sides[1].codes[columns]
        if mine[0] <= theirs[-1] and theirs[0] <= mine[-1]:  # else no code is on both sides of the tile
            tile.masked_fill_(torch.from_numpy(mine[:, None] == theirs), EXCLUDED)
