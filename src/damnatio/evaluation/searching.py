"""1:N: each probe's two best templates, exactly, by the products of `scanning`."""

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

TRIAL = 256
"""Probes by which each thread tries a kind: a tile of them costs per probe about what a whole one does."""


@dataclass(frozen=True)
class Candidates:
    """Of each probe the two best templates: places in the gallery (-1 for none) and scores (-inf for none). Of equal
    scores the template that stands first in the gallery comes first."""

    best: Places
    score: Scores
    second: Places
    second_score: Scores


def top_two(probes: Units, gallery: Units, kind: Kind | None = None) -> Candidates:
    """The two best templates of every probe, exactly. The kind is chosen by a trial on the first probes."""
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
            parts = (slice(part.start + start, part.stop + start) for part in blocks(stop - start, size))
            each(lambda rows: _rank(found, *search.contenders(rows, search.sieves.get(kind))), parts)

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
    """Who may be first or second, by a running second best of each probe.

    With e the bound of the fine scores (float32, or float64 and 0), a probe's second-best exact score is at least the
    fine second best less e. So a template more than 2e below that by its own fine score is neither first nor second,
    nor is one that by a sieve cannot come within e of it. All others are listed with their fine scores; those still
    open in the end are scored exactly.
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
        """(probe, template, exact score) of all that may be first or second for the probes of these rows."""
        tops = torch.full((rows.stop - rows.start, 2), -torch.inf, dtype=self.a.rows.dtype, device=self.a.rows.device)
        found: list[tuple[Places, Places, Scores]] = []
        for columns in blocks(len(self.b), COLUMNS):
            if (
                sieve is None or not columns.start or not sieve.pays()
            ):  # the first has nothing to be below: all would be open
                found += self._seen(tops, rows, columns, product(self.a, rows, self.b, columns))
            else:
                found += self._sieved(tops, rows, columns, sieve)
        places, templates, fine = (np.concatenate(parts) for parts in zip(*found, strict=True))
        kept = fine >= tops[:, 1].double().cpu().numpy()[places - rows.start] - 2 * self.bound
        places, templates = places[kept], templates[kept]
        return places, templates, dots(self.probes, places, self.gallery, templates)

    def _seen(
        self, tops: Tensor, rows: slice, columns: slice, tile: Tensor, hit: Tensor | None = None
    ) -> list[tuple[Places, Places, Scores]]:
        """What is open by a tile of fine scores: of these rows, or of those `hit` among them."""
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
        part = tile if len(hit) == len(tile) else tile[hit]
        open_ = places_from(part, lowest[hit])
        if not sieve.leaves_few(len(open_), part.numel()):
            fine = torch.mm(self.a.rows[hit + rows.start], self.b.rows[columns].T)
            return self._seen(tops, rows, columns, fine, hit)
        r, c = np.divmod(open_, np.uint32(part.shape[1]))
        among = hit.cpu().numpy()
        i, j = among[r] + rows.start, c.astype(np.int64) + columns.start
        scores = listed(self.a, i, self.b, j)
        _raise(tops, among, among[r], scores)
        return [(i, j, scores)]


def _raise(tops: Tensor, rows: Places, places: Places, scores: Scores) -> None:
    """The two best of each of these rows, now that these scores of theirs are known too."""
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
    """The two best templates among these columns, exactly; of equal ones the first."""
    scores = probes[places] @ gallery[columns].T
    every = np.arange(len(places))
    for _ in range(min(2, scores.shape[1])):
        best = scores.argmax(axis=1)
        yield places, best + columns.start, scores[every, best].copy()
        scores[every, best] = -np.inf
