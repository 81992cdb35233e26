"""Exact answers over all pairs of two sets of unit vectors, at the speed of the narrowest matrix product that pays.

**Scores are exact.** Unit vectors lie on a grid: every component is a multiple of 2^-26 (`on_grid`). A product of two
components is then a multiple of 2^-52, and by Cauchy and Schwarz no partial sum of a dot product reaches 2 in absolute
value, so float64 holds every partial sum without rounding. The order of the sum, the shape of the blocks and the number
of threads cannot matter: a score is one number, and equal scores are equal.

**Narrow products decide most of it.** A tile of scores is first made in float32, bfloat16 or int8 (`Narrow`), with a
proven bound on its distance from the exact scores. Only the pairs that the bound leaves open, near the running maximum
or near a threshold, are scored again in float64. What kind of product is used is a matter of time alone: `fastest_kind`
measures.

`top_two` finds each probe's two best templates; thresholds over all pairs stand in `tails.py`.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from damnatio.devices import device

Units = NDArray[np.float64]
Scores = NDArray[np.float64]
Codes = NDArray[np.int64]
Kind = Literal["float64", "float32", "bfloat16", "int8"]

GRID = 2.0**-26
ROWS, COLUMNS = 1024, 1024
"""A tile of scores: 4 MB in float32, so that what is done to it happens near the processor."""


def on_grid(units: Units) -> Units:
    """Unit vectors with components on the grid. They move by less than float32 had left open."""
    snapped = np.empty_like(units)
    for part in blocks(len(units), ROWS):  # no copies of the whole beside the result
        np.rint(units[part] / GRID, out=snapped[part])
        snapped[part] *= GRID
    return snapped


def lengths(rows: Units) -> Scores:
    """The length of each row, its squares folded in halves: one order of sums on every processor. `np.linalg.norm`
    promises none, and the last bit of a length decides where a component half-way between two grid points goes."""
    found = np.empty(len(rows))
    for part in blocks(len(rows), ROWS):
        squares = rows[part] * rows[part]
        while squares.shape[1] > 1:
            half = squares.shape[1] // 2
            folded = squares[:, :half] + squares[:, half : 2 * half]
            if squares.shape[1] % 2:
                folded[:, 0] += squares[:, -1]
            squares = folded
        found[part] = np.sqrt(squares[:, 0])
    return found


def dots(a: Units, i: Codes, b: Units, j: Codes) -> Scores:
    """The score of each listed pair."""
    scores = np.empty(len(i))
    for start in range(0, len(i), 1 << 14):
        part = slice(start, start + (1 << 14))
        scores[part] = np.einsum("ij,ij->i", a[i[part]], b[j[part]])
    return scores


class Narrow:
    """Unit vectors in a narrow type, and how far they are from themselves.

    With â the narrow copy of a, |a·b - â·b̂| <= |a - â| |b| + |â| |b - b̂|. The lengths of the differences are measured,
    row by row, so the bound holds for these vectors and not only for typical ones; float32 rounds each component by at
    most 2^-24 of itself, which needs no measuring.
    """

    def __init__(self, units: Units, kind: Kind) -> None:
        self.kind = kind
        self.residual = self.length = 0.0
        scales = torch.ones(len(units), 1)
        if kind == "float64":
            self.rows, self.scales = torch.from_numpy(np.ascontiguousarray(units)).to(device()), scales
            return
        self.rows = torch.empty(units.shape, dtype=getattr(torch, kind))
        for part in blocks(len(units), ROWS):
            exact = torch.from_numpy(units[part])
            if kind == "float32":
                self.rows[part] = exact
                self.length = max(self.length, float(exact.norm(dim=1).max()) * (1 + 2.0**-23))
                self.residual = self.length * 2.0**-24
                continue
            if kind == "int8":
                scales[part] = (exact.abs().amax(dim=1, keepdim=True) / 127).clamp_min_(1e-30)
            steps = scales[part].double()
            self.rows[part] = (exact / steps).round_() if kind == "int8" else exact
            back = self.rows[part].double() * steps
            self.residual = max(self.residual, float((exact - back).norm(dim=1).max()))
            self.length = max(self.length, float(back.norm(dim=1).max()))
        self.rows, self.scales = self.rows.to(device()), scales.to(device())

    def __len__(self) -> int:
        return len(self.rows)


def bound(a: Narrow, b: Narrow) -> float:
    """No score that `product` makes is further than this from the exact one."""
    if a.kind == "float64":
        return 0.0
    terms = a.rows.shape[1] + 4
    unit = 2.0**-24
    copies = a.residual * (b.length + b.residual) + a.length * b.residual
    lengths = a.length * b.length
    sums = terms * unit / (1 - terms * unit) * lengths  # int8 sums in integers; its scaling rounds thrice
    final = 2.0**-8 * (lengths + sums) if a.kind == "bfloat16" else 0.0  # the product is itself written in bfloat16
    return (copies + sums + final) * (1 + 1e-6)


def product(a: Narrow, rows: slice, b: Narrow, columns: slice) -> Tensor:
    """A tile of scores, in float32 (float64 for that kind). It is overwritten by the same thread's next."""
    left, right = a.rows[rows], b.rows[columns].T
    shape = (left.shape[0], right.shape[1])
    if a.kind == "int8":
        whole = torch._int_mm(left, right, out=_room(shape, torch.int32, left.device))
        return _room(shape, torch.float32, left.device).copy_(whole).mul_(a.scales[rows]).mul_(b.scales[columns].T)
    tile = torch.mm(left, right, out=_room(shape, left.dtype, left.device))
    return _room(shape, torch.float32, left.device).copy_(tile) if a.kind == "bfloat16" else tile


_kept = threading.local()


def _room(shape: tuple[int, int], dtype: torch.dtype, where: torch.device) -> Tensor:
    """Memory for a tile, kept from one tile to the next: fresh pages cost a tenth of the product."""
    rooms: dict[Any, Tensor] = _kept.__dict__
    key = f"{dtype} {where}"
    if key not in rooms or rooms[key].numel() < shape[0] * shape[1]:
        rooms[key] = torch.empty(shape[0] * shape[1], dtype=dtype, device=where)
    return rooms[key][: shape[0] * shape[1]].view(shape)


@cache
def fastest_kind(dim: int) -> Kind:
    """The kind of product with which a tile costs least here, scan included, by the clock.

    A narrower type must win clearly: its wider bound leaves more pairs to be scored again.
    """
    drawn = np.random.default_rng(0).standard_normal((256, dim))
    units = on_grid(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
    best: Kind = "float32"
    least = float("inf")
    kinds: tuple[tuple[Kind, float], ...] = (("float32", 1.0), ("bfloat16", 1.25), ("int8", 1.6))
    with one_thread_each(1):
        for kind, handicap in kinds:
            try:
                narrow = Narrow(units, kind)
                product(narrow, slice(0, 5), narrow, slice(0, 3))  # some devices multiply round shapes alone
                seconds = min(_seconds(narrow) for _ in range(3)) * handicap
            except RuntimeError:  # this build has no such product
                continue
            if seconds < least:
                best, least = kind, seconds
    return best


def _seconds(narrow: Narrow) -> float:
    start = time.perf_counter()
    float(product(narrow, slice(0, 256), narrow, slice(0, 256)).amax(dim=1)[0])
    return time.perf_counter() - start


# --- tiles ----------------------------------------------------------------------------------------------------------


def blocks(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


@contextmanager
def one_thread_each(workers: int) -> Iterator[Callable[[Callable[[Any], Any], Iterable[Any]], None]]:
    """Workers that each run their products on one thread: a tile stays with the core that made it."""
    threads = torch.get_num_threads()
    precision = torch.get_float32_matmul_precision()
    reduced = torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    torch.set_float32_matmul_precision("highest")  # no TF32
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False  # the bound takes sums in float32
    try:
        if workers == 1:
            torch.set_num_threads(1)
            yield _drain(map)
            return
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield _drain(pool.map)
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = reduced


def _drain(mapped: Callable[..., Iterable[Any]]) -> Callable[[Callable[[Any], Any], Iterable[Any]], None]:
    def each(work: Callable[[Any], Any], items: Iterable[Any]) -> None:
        for _ in mapped(work, items):
            pass

    return each


def workers() -> int:
    return 1 if device().type == "cuda" else torch.get_num_threads()


# --- 1:N ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidates:
    """Of each probe the two best templates: places in the gallery (-1 for none) and scores (-inf for none). Of equal
    scores the template that stands first in the gallery comes first."""

    best: Codes
    score: Scores
    second: Codes
    second_score: Scores


def top_two(probes: Units, gallery: Units, kind: Kind | None = None) -> Candidates:
    """The two best templates of every probe, exactly.

    A probe's second-best score is at least (narrow second best - bound), so a template whose narrow score is more than
    twice the bound below the narrow second best is neither first nor second. The others are scored again.
    """
    n = len(probes)
    found = Candidates(np.full(n, -1), np.full(n, -np.inf), np.full(n, -1), np.full(n, -np.inf))
    if not n or not len(gallery):
        return found
    kind = kind or fastest_kind(probes.shape[1])
    a, b = Narrow(probes, kind), Narrow(gallery, kind)
    slack = 2 * bound(a, b)

    def work(rows: slice) -> None:
        places, templates, scores = _contenders(probes, gallery, a, b, rows, slack)
        order = np.lexsort((templates, -scores, places))
        places, templates, scores = places[order], templates[order], scores[order]
        first = np.flatnonzero(np.diff(places, prepend=-1))
        found.best[places[first]], found.score[places[first]] = templates[first], scores[first]
        second = first[np.append(np.diff(first), len(places) - first[-1]) > 1] + 1
        found.second[places[second]], found.second_score[places[second]] = templates[second], scores[second]

    count = workers()
    with one_thread_each(count) as each:
        each(work, blocks(n, min(ROWS, -(-n // count))))
    return found


def _contenders(
    probes: Units, gallery: Units, a: Narrow, b: Narrow, rows: slice, slack: float
) -> tuple[Codes, Codes, Scores]:
    """(probe, template, exact score) of all that may be first or second for the probes of these rows."""
    size = rows.stop - rows.start
    tops = torch.full((size, 2), -torch.inf, dtype=torch.float64 if a.kind == "float64" else torch.float32)
    tops = tops.to(a.rows.device)
    found: list[tuple[Any, Any, Any]] = []
    for columns in blocks(len(b), COLUMNS):
        tile = product(a, rows, b, columns)
        hit = (tile.amax(dim=1) >= tops[:, 1] - slack).nonzero().flatten()
        if not len(hit):
            continue
        part = tile if len(hit) == size else tile[hit]
        tops[hit] = torch.cat([tops[hit], part.topk(min(2, part.shape[1]), dim=1).values], dim=1).topk(2, dim=1).values
        open_ = part >= tops[hit, 1:] - slack
        if int(open_.sum()) * 32 > open_.numel():  # a heap of near-ties: the tile itself in float64 costs less
            found += _first_two(probes, gallery, hit.cpu().numpy() + rows.start, columns)
        else:
            r, c = open_.nonzero(as_tuple=True)
            found.append(
                ((hit[r] + rows.start).cpu().numpy(), (c + columns.start).cpu().numpy(), part[r, c].cpu().numpy())
            )
    places, templates = (np.concatenate([entry[k] for entry in found]) for k in (0, 1))
    narrow = np.concatenate([entry[2].astype(np.float64) for entry in found])
    kept = narrow >= tops[:, 1].double().cpu().numpy()[places - rows.start] - slack
    places, templates = places[kept], templates[kept]
    return places, templates, dots(probes, places, gallery, templates)


def _first_two(probes: Units, gallery: Units, places: Codes, columns: slice) -> Iterator[tuple[Codes, Codes, Scores]]:
    """The two best templates among these columns, exactly; of equal ones the first."""
    scores = probes[places] @ gallery[columns].T
    every = np.arange(len(places))
    for _ in range(min(2, scores.shape[1])):
        best = scores.argmax(axis=1)
        yield places, best + columns.start, scores[every, best].copy()
        scores[every, best] = -np.inf


# --- all pairs ------------------------------------------------------------------------------------------------------


def pair_tiles(count: int) -> list[tuple[slice, slice]]:
    """Tiles that hold each pair (i, j), i < j, once; in an order drawn once, so that the first are a fair sample."""
    parts = list(blocks(count, ROWS))
    tiles = [(rows, columns) for k, rows in enumerate(parts) for columns in parts[k:]]
    return [tiles[k] for k in np.random.default_rng(0).permutation(len(tiles))]


def mark_mated(tile: Tensor, codes: Codes, rows: slice, columns: slice) -> None:
    """Put what is no non-mated pair i < j out of reach: below every score. Codes are ascending, so that only tiles near
    the diagonal hold mated pairs."""
    if codes[rows.stop - 1] >= codes[columns.start]:
        mated = torch.from_numpy(codes[rows, None] >= codes[None, columns])
        tile.masked_fill_(mated.to(tile.device), -2.0)
