"""Exact searches by cosine over the rows of a store, and the comparison of two sets of results."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from damnatio.galleries.items import Block, Frozen, Hit, Key, Place, Units, Vectors
from damnatio.galleries.walking import walk

if TYPE_CHECKING:
    from damnatio.galleries.base import Store

TOP = 10


class SearchesCompared(Frozen):
    """The first `top` results of each search before and after, the person's own rows left out."""

    searches: int
    top: int
    equal: int
    """searches whose results are the same rows"""
    kept: float
    """the share of the results before that are results after; 1 where nothing changed"""


def exact_search(store: "Store", queries: Vectors, k: int) -> list[list[Hit]]:
    """The k nearest rows of all searched places. Ties go to the smaller key."""
    nearest = _Nearest(normalised(queries), k)
    walk(store, nearest, searched=True, title=f"{len(queries):,} searches")
    return nearest.best


class _Nearest:
    def __init__(self, units: Units, k: int) -> None:
        self._units, self._k = units, k
        self.best: list[list[Hit]] = [[] for _ in units]
        self._floor = np.full(len(units), -np.inf)

    def see(self, place: Place, block: Block) -> None:
        if block.vectors is None or block.vectors.shape[1] != self._units.shape[1] or not len(block.ids):
            return
        scores = self._units @ normalised(block.vectors).T
        for query in np.flatnonzero(scores.max(axis=1) >= self._floor).tolist():
            row_scores, k = scores[query], self._k
            lowest = -np.partition(-row_scores, k - 1)[k - 1] if k < len(row_scores) else -np.inf
            nearest = np.flatnonzero(row_scores >= max(lowest, self._floor[query])).tolist()
            hits = [Hit(Key(place.name, block.ids[row]), float(row_scores[row])) for row in nearest]
            self.best[query] = sorted(self.best[query] + hits, key=lambda hit: (-hit.score, hit.key))[:k]
            if len(self.best[query]) == k:
                self._floor[query] = self.best[query][-1].score


def normalised(vectors: Vectors) -> Units:
    """Rows of length 1 in float32; a row without a direction stays zero."""
    rows = np.nan_to_num(vectors.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def searches_without(store: "Store", queries: Vectors, without: Iterable[Key], top: int = TOP) -> list[list[Key]]:
    """The first `top` rows of each search, these rows left out."""
    gone = set(without)
    found = store.search(queries, top + len(gone))
    return [[hit.key for hit in hits if hit.key not in gone][:top] for hits in found]


def compared(before: Sequence[Sequence[Key]], after: Sequence[Sequence[Key]], top: int = TOP) -> SearchesCompared:
    """How far the results are the same rows. Their order may differ where scores are tied."""
    pairs = [(set(one), set(other)) for one, other in zip(before, after, strict=True)]
    total = sum(len(one) for one, _ in pairs)
    kept = sum(len(one & other) for one, other in pairs)
    return SearchesCompared(
        searches=len(pairs),
        top=top,
        equal=sum(one == other for one, other in pairs),
        kept=kept / total if total else 1.0,
    )
