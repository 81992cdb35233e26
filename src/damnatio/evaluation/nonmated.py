"""Non-mated comparisons of a group, and one pass over their scores.

A `NonMated` set holds the pairs of different identities of a pairing. There are three kinds, and `nonmated_pairs`
chooses one: `Drawn` takes a random sample of the pairs, `Held` keeps all scores in memory, and `Streamed` counts the
scores tile by tile.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from damnatio.evaluation.pairings import Pairing, Tile, Vectors
from damnatio.evaluation.scanning import (
    ANY_SCORE,
    ROWS,
    Places,
    Scores,
    blocks,
    dots,
    one_thread_each,
    product,
    workers,
)
from damnatio.evaluation.thinning import Thinned
from damnatio.metrics.distributions import BINS, Sample, bins_of
from damnatio.support import processes
from damnatio.support.progress import progress
from damnatio.support.tables import Codes

HELD = 1 << 24
"""A group of more non-mated scores than this is streamed: held, its scores would take more than 128 MB."""


@dataclass(frozen=True)
class Top:
    """The pairs of a group that reach some score: scores, and places in both sets. Where there are too many, these are
    a uniform `share` of them."""

    scores: Scores
    i: Places
    j: Places
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


class InMemory(NonMated):
    """Pairs whose scores fit into memory."""

    @abstractmethod
    def _collect(self, lowest: float) -> tuple[Scores, Top]:
        """All scores, and all pairs that reach `lowest`."""

    @cached_property
    def scores(self) -> Scores:
        return self._collect(np.inf)[0]

    def tops(self, floors: Sequence[float]) -> list[Top]:
        """For each of these scores, the pairs that reach it; one pass for all."""
        _, top = self._collect(min(floors))
        return [self._thinned(top.i[top.scores >= floor], top.j[top.scores >= floor]) for floor in floors]

    def spread(self, thresholds: Sequence[float] = (), lowest: float = np.inf, title: str = "") -> Spread:
        scores, top = self._collect(lowest)
        accepted = {threshold: int(np.count_nonzero(scores >= threshold)) for threshold in thresholds}
        return Spread(Sample.of(scores), accepted, self._thinned(top.i, top.j))

    def _thinned(self, i: Places, j: Places) -> Top:
        kept = Thinned()
        kept.add(i, j)
        return self.listed(kept)


class Drawn(InMemory):
    """So many pairs, drawn evenly and independently from all of them."""

    def __init__(self, pairing: Pairing[Vectors], count: int, rng: np.random.Generator) -> None:
        super().__init__(pairing, count)
        first, second = self.first.codes, self.second.codes
        found: list[tuple[Places, Places]] = []
        missing = count
        while missing:
            i, j = rng.integers(len(first), size=missing), rng.integers(len(second), size=missing)
            differ = first[i] != second[j]
            found.append((i[differ], j[differ]))
            missing -= int(differ.sum())
        self._i, self._j = (np.concatenate(places) for places in zip(*found, strict=True))

    def _collect(self, lowest: float) -> tuple[Scores, Top]:
        scores = dots(self.first.units, self._i, self.second.units, self._j)
        reached = scores >= lowest
        return scores, Top(scores[reached], self._i[reached], self._j[reached], 1.0)


class Held(InMemory):
    """All pairs, computed block by block."""

    def __init__(self, pairing: Pairing[Vectors]) -> None:
        super().__init__(pairing, pairing.count)

    def _collect(self, lowest: float) -> tuple[Scores, Top]:
        scores, high, i, j = [np.zeros(0)], [np.zeros(0)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for rows in blocks(len(self.first), ROWS):
            columns, wanted = self.pairing.columns(rows), self.pairing.nonmated(rows)
            block = self.first.units[rows] @ self.second.units[columns].T
            scores.append(block[wanted])
            above, beside = np.nonzero(wanted & (block >= lowest))
            high.append(block[above, beside])
            i.append(above + rows.start)
            j.append(beside + columns.start)
        return np.concatenate(scores), Top(np.concatenate(high), np.concatenate(i), np.concatenate(j), 1.0)


class Streamed(NonMated):
    """All pairs, tile by tile in float64, which is exact here. Memory: the bins, and one tile per thread. Each process
    does its share of the tiles, and all processes get the sums."""

    def __init__(self, pairing: Pairing[Vectors]) -> None:
        super().__init__(pairing, pairing.count)

    @property
    def scores(self) -> Scores:
        raise MemoryError(f"{self.count:,} scores are streamed and not held")

    def spread(self, thresholds: Sequence[float] = (), lowest: float = np.inf, title: str = "") -> Spread:
        sides = first, second = self.pairing.in_order()
        tiles = self.pairing.tiles()[processes.rank() :: processes.size()]
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
        parts = zip(*processes.from_all((bins.numpy(), list(accepted.values()), kept)), strict=True)
        every, counts, thinned = parts
        reached = dict(zip(accepted, np.sum(counts, axis=0).tolist(), strict=True))
        return Spread(Sample.of_bins(np.sum(every, axis=0)), reached, self.listed(Thinned.joined(thinned)))
