"""Which vectors are compared, and the scores of these comparisons: cosines, exact on the grid of `scanning`.

Identities are given as codes: equal codes, one identity.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from damnatio.evaluation.scanning import (
    COLUMNS,
    ROWS,
    Codes,
    Narrow,
    Scores,
    Units,
    blocks,
    dots,
    mark_mated,
    on_grid,
    one_thread_each,
    pair_tiles,
    product,
    workers,
)
from damnatio.evaluation.searching import top_two
from damnatio.evaluation.tails import nonmated_count
from damnatio.evaluation.thinning import Thinned
from damnatio.metrics.distributions import BIN, BINS, Sample
from damnatio.support.arrays import lengths
from damnatio.support.progress import progress
from damnatio.support.tables import groups_of

HELD = 1 << 24
"""Non-mated scores of a group that are held in memory; more are counted as they come."""


def templates(units: Units, codes: Codes) -> tuple[Units, Codes]:
    """One template an identity, ascending by code: the mean of its unit vectors, normalised again."""
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    if not len(present):
        return units[:0], codes[:0]
    sums = np.add.reduceat(units[order], starts, axis=0)
    return _normalised(sums), present


def mated_pairs(codes: Codes) -> tuple[Codes, Codes]:
    """Places (a, b), a before b, of every pair of one identity."""
    pairs = [(group[a], group[b]) for group in groups_of(codes) for a, b in [np.triu_indices(len(group), 1)]]
    if not pairs:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])


def mated_across(codes_a: Codes, codes_b: Codes) -> tuple[Codes, Codes]:
    """Places (a, b) of every pair of one identity, a in the first set and b in the second."""
    order = np.argsort(codes_b, kind="stable")
    ordered = codes_b[order]
    low, high = np.searchsorted(ordered, codes_a, "left"), np.searchsorted(ordered, codes_a, "right")
    counts = high - low
    a = np.repeat(np.arange(len(codes_a)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return a, order[np.repeat(low, counts) + within]


def search(probes: Units, probe_codes: Codes, gallery: Units, gallery_codes: Codes) -> tuple[Scores, Scores]:
    """For each probe the score of its own identity's template (-inf if it has none) and the highest of any other. The
    gallery holds one template an identity."""
    found = top_two(probes, gallery)
    a, b = mated_across(probe_codes, gallery_codes)
    own = np.full(len(probes), -np.inf)
    own[a] = dots(probes, a, gallery, b)
    place = np.full(len(probes), -2)
    place[a] = b
    return own, np.where(found.best == place, found.second_score, found.score)


def leave_one_out(units: Units, codes: Codes) -> Scores:
    """Each vector's score with the template of the other vectors of its identity; -inf where there is no other."""
    own = np.full(len(codes), -np.inf)
    for group in groups_of(codes):
        if len(group) > 1:
            others = _normalised(units[group].sum(axis=0) - units[group])
            own[group] = np.einsum("ij,ij->i", others, units[group])
    return own


def _normalised(sums: Units) -> Units:
    norms = lengths(sums)[:, None]
    return on_grid(np.divide(sums, norms, out=np.zeros_like(sums), where=norms > 0))


@dataclass(frozen=True)
class Top:
    """The pairs of a group that reach some score, or an even share of them: scores, and places in both sets."""

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


class NonMated:
    """The comparisons of different identities: of one set with itself, each pair once, or of one set with another.
    All of them, or so many drawn evenly and independently."""

    def __init__(
        self,
        first: tuple[Units, Codes],
        second: tuple[Units, Codes] | None = None,
        most: int = 0,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.units, self.codes = first
        self.others = second
        self.all = nonmated_count(self.codes) if second is None else self._across()
        self.count = self.all
        self.drawn: tuple[Codes, Codes] | None = None
        if rng is not None and 0 < most < self.all:
            self.count, self.drawn = most, self._draw(most, rng)

    def _across(self) -> int:
        assert self.others is not None
        return len(self.codes) * len(self.others[1]) - len(mated_across(self.codes, self.others[1])[0])

    @property
    def second(self) -> tuple[Units, Codes]:
        return self.others or (self.units, self.codes)

    @cached_property
    def scores(self) -> Scores:
        """All of them, in no order: for sets that fit into memory."""
        return self._collect(np.inf)[0]

    def top(self, lowest: float) -> Top:
        return self.listed(_thinned(*self._collect(lowest)[1]))

    def spread(self, thresholds: Sequence[float] = (), lowest: float = np.inf, title: str = "") -> Spread:
        """One pass: the distribution, the counts at the thresholds, and the pairs from `lowest` up."""
        if self.drawn is not None or self.count <= HELD:
            scores, places = self._collect(lowest)
            accepted = {t: int(np.count_nonzero(scores >= t)) for t in thresholds}
            return Spread(Sample.of(scores), accepted, self.listed(_thinned(*places)))
        sample, accepted, thinned = self._stream(thresholds, lowest, title)
        return Spread(sample, accepted, self.listed(thinned))

    def listed(self, kept: Thinned) -> Top:
        return Top(dots(self.units, kept.i, self.second[0], kept.j), kept.i, kept.j, kept.share)

    def _collect(self, lowest: float) -> tuple[Scores, tuple[Codes, Codes]]:
        """The scores, and the places of the pairs that reach `lowest`."""
        units, codes = self.second
        if self.drawn is not None:
            a, b = self.drawn
            scores = dots(self.units, a, units, b)
            return scores, (a[scores >= lowest], b[scores >= lowest])
        parts, top = [np.zeros(0)], [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        for rows in blocks(len(self.codes), ROWS):
            start = rows.start if self.others is None else 0
            tile = self.units[rows] @ units[start:].T
            wanted = self.codes[rows, None] != codes[None, start:]
            if self.others is None:
                wanted &= np.arange(start, len(codes)) > np.arange(rows.start, rows.stop)[:, None]
            parts.append(tile[wanted])
            i, j = np.nonzero(wanted & (tile >= lowest))
            top.append((i + rows.start, j + start))
        return np.concatenate(parts), (np.concatenate([i for i, _ in top]), np.concatenate([j for _, j in top]))

    def _stream(
        self, thresholds: Sequence[float], lowest: float, title: str
    ) -> tuple[Sample, dict[float, int], Thinned]:
        """In float64, which is exact here, by tiles; memory for the bins and a tile a thread."""
        order = np.argsort(self.codes, kind="stable")
        first, codes = Narrow(self.units[order], "float64"), self.codes[order]
        other_order, second, other_codes = order, first, codes
        tiles = pair_tiles(len(codes)) if self.others is None else None
        if self.others is not None:
            other_order = np.argsort(self.others[1], kind="stable")
            second, other_codes = Narrow(self.others[0][other_order], "float64"), self.others[1][other_order]
            tiles = [(r, c) for r in blocks(len(codes), ROWS) for c in blocks(len(other_codes), COLUMNS)]
        bins, thinned, lock = torch.zeros(BINS, dtype=torch.int64), Thinned(), threading.Lock()
        accepted = dict.fromkeys(thresholds, 0)
        assert tiles is not None
        with progress(title, len(tiles) if title else 0, "tiles") as advance, one_thread_each(workers()) as each:

            def work(tile: tuple[slice, slice]) -> None:
                rows, columns = tile
                scores = product(first, rows, second, columns).cpu()
                mine, theirs = codes[rows, None], other_codes[None, columns]
                if self.others is None:
                    mark_mated(scores, codes, rows, columns)
                elif not (mine[-1] < theirs[0, 0] or mine[0] > theirs[0, -1]):
                    scores.masked_fill_(torch.from_numpy(mine == theirs), -2.0)
                flat = scores.view(-1)
                found = ((flat[flat > -1.5] + 1) / BIN + 0.5).long().clamp_(0, BINS - 1)
                reached = {t: int((flat >= t).sum()) for t in thresholds}
                places = np.flatnonzero(flat.numpy() >= lowest)
                width = columns.stop - columns.start
                i, j = order[places // width + rows.start], other_order[places % width + columns.start]
                with lock:
                    bins.scatter_add_(0, found, torch.ones_like(found))
                    thinned.add(i, j)
                    for threshold, count in reached.items():
                        accepted[threshold] += count
                    advance(1)

            each(work, tiles)
        return Sample.of_bins(bins.numpy()), accepted, thinned

    def _draw(self, count: int, rng: np.random.Generator) -> tuple[Codes, Codes]:
        """So many pairs, independently and evenly from all of them."""
        codes = self.second[1]
        parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        missing = count
        while missing:
            a, b = rng.integers(len(self.codes), size=missing), rng.integers(len(codes), size=missing)
            differ = self.codes[a] != codes[b]
            parts.append((a[differ], b[differ]))
            missing -= int(differ.sum())
        return np.concatenate([a for a, _ in parts]), np.concatenate([b for _, b in parts])


def _thinned(i: Codes, j: Codes) -> Thinned:
    thinned = Thinned()
    thinned.add(i, j)
    return thinned
