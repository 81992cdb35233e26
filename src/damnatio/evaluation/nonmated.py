"""Non-mated comparisons of a group: which vectors meet, and one pass over the scores.

A pairing says which vectors meet: those of one set among themselves (`Within`), or those of one set with those of
another (`Across`). A `NonMated` set holds the pairs of different identities of a pairing. There are three kinds, and
`nonmated_pairs` chooses one: `Drawn` takes a random sample of the pairs, `Held` keeps all scores in memory, and
`Streamed` counts the scores tile by tile.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from damnatio.evaluation.comparing import mated_across
from damnatio.evaluation.scanning import (
    ANY_SCORE,
    COLUMNS,
    EXCLUDED,
    ROWS,
    Codes,
    Narrow,
    Scores,
    Units,
    blocks,
    dots,
    exclude,
    nonmated_count,
    one_thread_each,
    pair_tiles,
    product,
    workers,
)
from damnatio.evaluation.thinning import Thinned
from damnatio.metrics import intervals
from damnatio.metrics.distributions import BINS, Sample, bins_of
from damnatio.support.progress import progress

HELD = 1 << 24
"""A group of more non-mated scores than this is streamed: held, its scores would take more than 128 MB."""

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


# --- which vectors meet ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sorted:
    """Vectors in ascending order of code, in float64, and the place that each had before."""

    order: Codes
    codes: Codes
    rows: Narrow

    @staticmethod
    def of(vectors: Vectors) -> "_Sorted":
        order = np.argsort(vectors.codes, kind="stable")
        return _Sorted(order, vectors.codes[order], Narrow(vectors.units[order], "float64"))


Sides = tuple[_Sorted, _Sorted]


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

    def columns(self, rows: slice) -> slice:
        return slice(rows.start, len(self.first))

    def met(self, rows: slice) -> Mask:
        return np.asarray(np.arange(rows.start, len(self.first)) > np.arange(rows.start, rows.stop)[:, None])

    def weights(self, draws: intervals.Draws, first: Codes, second: Codes) -> Scores:
        return intervals.pair_totals(draws, np.bincount(first, minlength=draws.shape[1]))

    def in_order(self) -> Sides:
        side = _Sorted.of(self.first)
        return side, side

    def tiles(self) -> list[Tile]:
        return pair_tiles(len(self.first))

    def exclude(self, tile: Tensor, sides: Sides, rows: slice, columns: slice) -> None:
        exclude(tile, sides[0].codes, rows, columns)


class Across(Pairing[V_co]):
    """Each vector of one set with each vector of another."""

    def _count(self) -> int:
        return len(self.first) * len(self.second) - len(mated_across(self.first.codes, self.second.codes)[0])

    def columns(self, rows: slice) -> slice:
        return slice(0, len(self.second))

    def met(self, rows: slice) -> Mask:
        return np.ones((rows.stop - rows.start, len(self.second)), bool)

    def weights(self, draws: intervals.Draws, first: Codes, second: Codes) -> Scores:
        sizes = [np.bincount(codes, minlength=draws.shape[1]) for codes in (first, second)]
        return intervals.pair_totals(draws, *sizes)

    def in_order(self) -> Sides:
        return _Sorted.of(self.first), _Sorted.of(self.second)

    def tiles(self) -> list[Tile]:
        return [(r, c) for r in blocks(len(self.first), ROWS) for c in blocks(len(self.second), COLUMNS)]

    def exclude(self, tile: Tensor, sides: Sides, rows: slice, columns: slice) -> None:
        mine, theirs = sides[0].codes[rows], sides[1].codes[columns]
        if mine[0] <= theirs[-1] and theirs[0] <= mine[-1]:  # else no code is on both sides of the tile
            tile.masked_fill_(torch.from_numpy(mine[:, None] == theirs), EXCLUDED)


# --- what a pass leaves ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Top:
    """The pairs of a group that reach some score: scores, and places in both sets. Where there are too many, these are
    a uniform `share` of them."""

    scores: Scores
    i: Codes
    j: Codes
    share: float


@dataclass(frozen=True)
class Spread:
    """What one pass over the scores of a group leaves."""

    sample: Sample
    accepted: dict[float, int]
    """by threshold: how many scores reach it"""
    top: Top


# --- sets of pairs --------------------------------------------------------------------------------------------------


class NonMated(ABC):
    """Non-mated pairs of a pairing. `all` of them exist, and `count` of them are compared."""

    def __init__(self, pairing: Pairing[Vectors], count: int) -> None:
        self.pairing, self.all, self.count = pairing, pairing.count, count

    @property
    def first(self) -> Vectors:
        return self.pairing.first

    @property
    def second(self) -> Vectors:
        return self.pairing.second

    @property
    def share(self) -> float:
        """The share of the pairs that is compared."""
        return self.count / self.all

    @cached_property
    def people(self) -> Codes:
        """The distinct codes of both sides, ascending."""
        return np.unique(np.concatenate([self.first.codes, self.second.codes]))

    def numbered(self) -> tuple[Codes, Codes]:
        """The identity of each vector of both sides, by its place in `people`."""
        return np.searchsorted(self.people, self.first.codes), np.searchsorted(self.people, self.second.codes)

    @abstractmethod
    def spread(self, thresholds: Sequence[float] = (), lowest: float = np.inf, title: str = "") -> Spread:
        """One pass: the distribution, the counts at the thresholds, and the pairs that reach `lowest`."""

    @abstractmethod
    def top(self, lowest: float) -> Top:
        """The pairs that reach `lowest`."""

    @property
    @abstractmethod
    def scores(self) -> Scores:
        """All scores, in no order. A streamed set has too many and refuses."""

    def listed(self, kept: Thinned) -> Top:
        return Top(dots(self.first.units, kept.i, self.second.units, kept.j), kept.i, kept.j, kept.share)


def nonmated_pairs(pairing: Pairing[Vectors], most: int = 0, rng: np.random.Generator | None = None) -> NonMated:
    """The non-mated pairs of a pairing: `most` of them drawn, if there are more and a generator is given; else all."""
    if rng is not None and 0 < most < pairing.count:
        return Drawn(pairing, most, rng)
    return Held(pairing) if pairing.count <= HELD else Streamed(pairing)


class _InMemory(NonMated):
    """Pairs whose scores fit into memory."""

    @abstractmethod
    def _collect(self, lowest: float) -> tuple[Scores, Codes, Codes]:
        """All scores, and the places in both sets of the pairs that reach `lowest`."""

    @cached_property
    def scores(self) -> Scores:
        return self._collect(np.inf)[0]

    def top(self, lowest: float) -> Top:
        _, i, j = self._collect(lowest)
        return self._thinned(i, j)

    def spread(self, thresholds: Sequence[float] = (), lowest: float = np.inf, title: str = "") -> Spread:
        scores, i, j = self._collect(lowest)
        accepted = {threshold: int(np.count_nonzero(scores >= threshold)) for threshold in thresholds}
        return Spread(Sample.of(scores), accepted, self._thinned(i, j))

    def _thinned(self, i: Codes, j: Codes) -> Top:
        kept = Thinned()
        kept.add(i, j)
        return self.listed(kept)


class Drawn(_InMemory):
    """So many pairs, drawn evenly and independently from all of them."""

    def __init__(self, pairing: Pairing[Vectors], count: int, rng: np.random.Generator) -> None:
        super().__init__(pairing, count)
        first, second = self.first.codes, self.second.codes
        found: list[tuple[Codes, Codes]] = []
        missing = count
        while missing:
            i, j = rng.integers(len(first), size=missing), rng.integers(len(second), size=missing)
            differ = first[i] != second[j]
            found.append((i[differ], j[differ]))
            missing -= int(differ.sum())
        self._i, self._j = (np.concatenate(places) for places in zip(*found, strict=True))

    def _collect(self, lowest: float) -> tuple[Scores, Codes, Codes]:
        scores = dots(self.first.units, self._i, self.second.units, self._j)
        reached = scores >= lowest
        return scores, self._i[reached], self._j[reached]


class Held(_InMemory):
    """All pairs, computed block by block."""

    def __init__(self, pairing: Pairing[Vectors]) -> None:
        super().__init__(pairing, pairing.count)

    def _collect(self, lowest: float) -> tuple[Scores, Codes, Codes]:
        scores, i, j = [np.zeros(0)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for rows in blocks(len(self.first), ROWS):
            columns, wanted = self.pairing.columns(rows), self.pairing.nonmated(rows)
            block = self.first.units[rows] @ self.second.units[columns].T
            scores.append(block[wanted])
            above, beside = np.nonzero(wanted & (block >= lowest))
            i.append(above + rows.start)
            j.append(beside + columns.start)
        return np.concatenate(scores), np.concatenate(i), np.concatenate(j)


class Streamed(NonMated):
    """All pairs, tile by tile in float64, which is exact here. Memory: the bins, and one tile per thread."""

    def __init__(self, pairing: Pairing[Vectors]) -> None:
        super().__init__(pairing, pairing.count)

    @property
    def scores(self) -> Scores:
        raise MemoryError(f"{self.count:,} scores are streamed and not held")

    def top(self, lowest: float) -> Top:
        return self.spread((), lowest).top

    def spread(self, thresholds: Sequence[float] = (), lowest: float = np.inf, title: str = "") -> Spread:
        sides = first, second = self.pairing.in_order()
        tiles = self.pairing.tiles()
        bins, kept, lock = torch.zeros(BINS, dtype=torch.int64), Thinned(), threading.Lock()
        accepted = dict.fromkeys(thresholds, 0)
        with progress(title, len(tiles) if title else 0, "tiles") as advance, one_thread_each(workers()) as each:

            def work(tile: Tile) -> None:
                rows, columns = tile
                scores = product(first.rows, rows, second.rows, columns).cpu()
                self.pairing.exclude(scores, sides, rows, columns)
                flat = scores.view(-1)
                found = torch.from_numpy(bins_of(flat[flat >= ANY_SCORE].numpy()))
                reached = {threshold: int((flat >= threshold).sum()) for threshold in thresholds}
                places = np.flatnonzero(flat.numpy() >= lowest)
                width = columns.stop - columns.start
                i, j = first.order[places // width + rows.start], second.order[places % width + columns.start]
                with lock:
                    bins.scatter_add_(0, found, torch.ones_like(found))
                    kept.add(i, j)
                    for threshold, count in reached.items():
                        accepted[threshold] += count
                    advance(1)

            each(work, tiles)
        return Spread(Sample.of_bins(bins.numpy()), accepted, self.listed(kept))
