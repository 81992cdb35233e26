"""1:N: the two best templates of each probe, exactly, by the products of `scanning`."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from damnatio.evaluation.choosing import PAIRS, trial
from damnatio.evaluation.scanning import (
    COLUMNS,
    HEAP,
    ROWS,
    Kind,
    Narrow,
    Places,
    Scores,
    Sieve,
    Units,
    blocks,
    bound,
    dots,
    listed,
    one_thread_each,
    places_from,
    product,
    sieves,
    taken,
    workers,
)
from damnatio.support import processes

TRIAL = 256
"""Probes by which each thread tries a kind of product: per probe, a tile of so many costs about as much as a whole
one."""


@dataclass(frozen=True)
class Candidates:
    """The two best templates of each probe: places in the gallery (-1 for none) and scores (-inf for none). Of equal
    scores, the template that is first in the gallery comes first."""

    best: Places
    score: Scores
    second: Places
    second_score: Scores


def top_two(probes: Units, gallery: Units, kind: Kind | None = None) -> Candidates:
    """The two best templates of every probe, exactly. Of a long search each process does the probes of its share, and
    all processes get all answers."""
    if len(probes) * len(gallery) < PAIRS:
        return _top_two(probes, gallery, kind)
    mine = _top_two(probes[processes.share_of(len(probes))], gallery, kind)
    arrays = zip(*processes.from_all((mine.best, mine.score, mine.second, mine.second_score)), strict=True)
    return Candidates(*(np.concatenate(shares) for shares in arrays))


def _top_two(probes: Units, gallery: Units, kind: Kind | None) -> Candidates:
    """The kind is chosen by a trial on the first probes."""
    n = len(probes)
    found = Candidates(np.full(n, -1), np.full(n, -np.inf), np.full(n, -1), np.full(n, -np.inf))
    if not n or not len(gallery):
        return found
    search = _Search(probes, gallery, "float64" if kind == "float64" else "float32")
    kinds: list[Kind] = [kind] if kind else ["float32"]
    if not kind and n * len(gallery) >= PAIRS:
        kinds += sieves(probes.shape[1])
    count = workers()
    with one_thread_each(count) as each:

        def run(kind: Kind, start: int, stop: int) -> None:
            size = min(ROWS, -(-(stop - start) // count))
            shifted = (slice(rows.start + start, rows.stop + start) for rows in blocks(stop - start, size))
            each(lambda rows: _rank(found, *search.contenders(rows, search.sieves.get(kind))), shifted)

        best, done = trial(kinds, search.prepare, run, n, TRIAL * count)
        search.prepare(best)
        run(best, done, n)
    return found


def _rank(found: Candidates, places: Places, templates: Places, scores: Scores) -> None:
    order = np.lexsort((templates, -scores, places))
    places, templates, scores = places[order], templates[order], scores[order]
    first = np.flatnonzero(np.diff(places, prepend=-1))
    found.best[places[first]], found.score[places[first]] = templates[first], scores[first]
    second = first[np.append(np.diff(first), len(places) - first[-1]) > 1] + 1
    found.second[places[second]], found.second_score[places[second]] = templates[second], scores[second]


class _Search:
    """Find the templates that may be first or second, by the running second best of each probe.

    Let e be the bound of the fine scores (those of float32; for float64 it is 0). The second-best exact score of a
    probe is at least its second-best fine score minus e. So a template whose fine score is more than 2e below the
    second-best fine score is neither first nor second, and neither is one that, by a sieve, cannot come within e of it.
    All other templates are listed with their fine scores. Those that are still open in the end are scored exactly.
    """

    def __init__(self, probes: Units, gallery: Units, fine: Kind) -> None:
        self.probes, self.gallery = probes, gallery
        self.a, self.b = Narrow(probes, fine), Narrow(gallery, fine)
        self.bound = bound(self.a, self.b)
        self.sieves: dict[Kind, Sieve] = {}

    def prepare(self, kind: Kind) -> None:
        if kind != self.a.kind and kind not in self.sieves:
            self.sieves[kind] = Sieve(Narrow(self.probes, kind), Narrow(self.gallery, kind))

    def contenders(self, rows: slice, sieve: Sieve | None) -> tuple[Places, Places, Scores]:
        """(probe, template, exact score) of all templates that may be first or second for the probes of these rows."""
        tops = torch.full((rows.stop - rows.start, 2), -torch.inf, dtype=self.a.rows.dtype, device=self.a.rows.device)
        found: list[tuple[Places, Places, Scores]] = []
        for columns in blocks(len(self.b), COLUMNS):
            first = columns.start == 0  # no template is known yet: a sieve would leave all pairs open
            if sieve is None or first or not sieve.pays():
                found += self._seen(tops, rows, columns, product(self.a, rows, self.b, columns))
            else:
                found += self._sieved(tops, rows, columns, sieve)
        places, templates, fine = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        kept = fine >= tops[:, 1].double().cpu().numpy()[places - rows.start] - 2 * self.bound
        places, templates = places[kept], templates[kept]
        return places, templates, dots(self.probes, places, self.gallery, templates)

    def _seen(
        self, tops: Tensor, rows: slice, columns: slice, tile: Tensor, hit: Tensor | None = None
    ) -> list[tuple[Places, Places, Scores]]:
        """The pairs that a tile of fine scores leaves open, of these rows or of the rows `hit` among them."""
        slack = 2 * self.bound
        if hit is None:
            hit = (tile.amax(dim=1) >= tops[:, 1] - slack).nonzero().flatten()
            if not len(hit):
                return []
            tile = tile if len(hit) == len(tile) else tile[hit]
        both = torch.cat([tops[hit], tile.topk(min(2, tile.shape[1]), dim=1).values], dim=1)
        tops[hit] = both.topk(2, dim=1).values
        open_ = places_from(tile, tops[hit, 1:] - slack)
        among = hit.cpu().numpy() + rows.start
        if len(open_) * HEAP > tile.numel():  # near-ties
            return list(_first_two(self.probes, self.gallery, among, columns))
        r, c = np.divmod(open_, np.uint32(tile.shape[1]))
        return [(among[r], c.astype(np.int64) + columns.start, taken(tile, open_).astype(np.float64))]

    def _sieved(self, tops: Tensor, rows: slice, columns: slice, sieve: Sieve) -> list[tuple[Places, Places, Scores]]:
        tile = sieve.tile(rows, columns)
        lowest = tops[:, 1:] - (sieve.rows[rows] + self.bound)
        hit = (tile.amax(dim=1, keepdim=True) >= lowest).flatten().nonzero().flatten()
        if not len(hit):
            return []
        rest = tile if len(hit) == len(tile) else tile[hit]
        open_ = places_from(rest, lowest[hit])
        if not sieve.leaves_few(len(open_), rest.numel()):
            fine = torch.mm(self.a.rows[hit + rows.start], self.b.rows[columns].T)
            return self._seen(tops, rows, columns, fine, hit)
        r, c = np.divmod(open_, np.uint32(rest.shape[1]))
        among = hit.cpu().numpy()
        i, j = among[r] + rows.start, c.astype(np.int64) + columns.start
        scores = listed(self.a, i, self.b, j)
        _raise(tops, among, among[r], scores)
        return [(i, j, scores)]


def _raise(tops: Tensor, rows: Places, places: Places, scores: Scores) -> None:
    """Update the two best fine scores of these rows by more of their scores."""
    known = tops[torch.from_numpy(rows)].double().cpu().numpy()
    places = np.concatenate([places, rows, rows])
    scores = np.concatenate([scores, known[:, 0], known[:, 1]])
    order = np.lexsort((-scores, places))
    first = np.flatnonzero(np.diff(places[order], prepend=-1))
    best = torch.from_numpy(np.stack([scores[order[first]], scores[order[first + 1]]], axis=1))
    tops[torch.from_numpy(rows)] = best.to(tops.dtype).to(tops.device)


def _first_two(
    probes: Units, gallery: Units, places: Places, columns: slice
) -> Iterator[tuple[Places, Places, Scores]]:
    """The two best templates among these columns, exactly; of equal scores the first."""
    scores = probes[places] @ gallery[columns].T
    every = np.arange(len(places))
    for _ in range(min(2, scores.shape[1])):
        best = scores.argmax(axis=1)
        yield places, best + columns.start, scores[every, best].copy()
        scores[every, best] = -np.inf
