"""Exact answers over all pairs of two sets of unit vectors, at the speed of narrow matrix products.

**Scores are exact.** Unit vectors lie on a grid: every component is a multiple of 2^-26 (`on_grid`). A product of two
components is then a multiple of 2^-52, and by Cauchy and Schwarz no partial sum of a dot product reaches 2 in absolute
value, so that float64 holds every partial sum without rounding. The order of the sum, the shape of the blocks and the
number of threads do not matter: a pair has one score, and scores that tie in exact arithmetic are equal.

**Narrow products decide most pairs.** A tile of scores is first computed in float32 (`Narrow`), with a proven bound on
its distance from the exact scores. Only the pairs that the bound leaves open, near the running maximum or near a
threshold, are scored again in float64. Where a processor multiplies bfloat16 or int8 much faster, such a product comes
first, as a sieve. Its bound is wide, so that the pairs which it leaves open are scored in float32 next. The kind of
product changes the time and no answer; `choosing` measures the time.

`searching.py` does searches, `tails/` finds thresholds over all pairs.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from damnatio.evaluation.choosing import promising, seconds
from damnatio.support.devices import device
from damnatio.support.tables import Codes

Units = NDArray[np.float64]
Scores = NDArray[np.float64]
Places = NDArray[np.int64]
"""places of vectors in their set"""
Kind = Literal["float64", "float32", "bfloat16", "int8"]

GRID = 2.0**-26
ROWS, COLUMNS = 1024, 1024
"""The shape of a tile of scores: 4 MB in float32, so that it stays in the cache of the processor."""
GATHERED = 512
"""So many listed pairs are scored at once: at d = 512 both sides take 2 MB each in float64 and stay in the cache."""
HEAP = 32
"""One listed pair takes as long as some 30 to 40 pairs of a tile, because it has to be gathered from memory. So if more
than one in `HEAP` pairs of a tile is open, the whole tile is computed again in the wider type."""
EXCLUDED = -2.0
"""The value in a tile of a pair that does not count. No score is so low: scores, exact or narrow, lie in [-1, 1] except
for rounding."""
ANY_SCORE = -1.5
"""Every score reaches this and EXCLUDED does not. It lies half-way between -1 and EXCLUDED, because rounding can carry
the score of opposite vectors a little past -1."""
ROUNDED = 2.0**-22
"""A bound on what comparing rounds: it adds a few numbers below 2 in float32, and each sum rounds by 2^-24 of
itself."""


def on_grid(units: Units) -> Units:
    """Unit vectors with components on the grid. They move by less than the rounding of float32."""
    snapped = np.empty_like(units)
    for block in blocks(len(units), ROWS):  # by blocks: no temporary copy of all vectors
        np.rint(units[block] / GRID, out=snapped[block])
        snapped[block] *= GRID
    return snapped


def dots(a: NDArray[Any], i: NDArray[Any], b: NDArray[Any], j: NDArray[Any]) -> Scores:
    """The score of each listed pair."""
    scores = np.empty(len(i))
    for block in blocks(len(i), GATHERED):
        sides = []
        for side, rows, places in (("left", a, i[block]), ("right", b, j[block])):
            room = _room((len(places), rows.shape[1]), _TYPES[rows.dtype.name], torch.device("cpu"), side).numpy()
            sides.append(np.take(rows, places, axis=0, out=room, mode="wrap"))  # "raise" would copy once more
        scores[block] = np.einsum("ij,ij->i", *sides)
    return scores


class Narrow:
    """Copies of unit vectors in a narrow type, and their distances from the exact vectors.

    With â the narrow copy of a, |a·b - â·b̂| <= |a - â| |b| + |â| |b - b̂|. The lengths of the differences are measured
    row by row, so that the bound holds for these vectors and not only for typical ones. float32 needs no measuring: it
    rounds each component by at most 2^-24 of itself. An int8 copy has whole numbers, of which its row's step is the
    unit.
    """

    def __init__(self, units: Units, kind: Kind) -> None:
        self.kind = kind
        lengths = torch.zeros(len(units))
        self.residuals = torch.zeros(len(units))
        """of each row, an upper bound of its distance from the exact one"""
        steps = torch.ones(len(units), 1)
        if kind == "float64":
            self.rows = torch.from_numpy(np.ascontiguousarray(units))
        else:
            self.rows = torch.empty(units.shape, dtype=getattr(torch, kind))
            pieces = list(blocks(len(units), GATHERED))
            with one_thread_each(min(workers(), max(len(pieces), 1))) as each:  # torch's own threads wait longer
                each(lambda block: self._copy(torch.from_numpy(units[block]), block, steps, lengths), pieces)
        self.length = float(lengths.max()) if len(units) else 0.0
        """no narrow row is longer"""
        self.residual = float(self.residuals.max()) if len(units) else 0.0
        self.rows, self.steps = self.rows.to(device()), steps.to(device())
        self.residuals = self.residuals.to(device())

    def _copy(self, exact: Tensor, block: slice, steps: Tensor, lengths: Tensor) -> None:
        if self.kind == "float32":
            self.rows[block] = exact
            lengths[block] = exact.norm(dim=1) * (1 + 2.0**-22)
            self.residuals[block] = lengths[block] * 2.0**-24
            return
        close = exact.float()
        if self.kind == "int8":
            steps[block] = (close.abs().amax(dim=1, keepdim=True) / 127).clamp_min_(1e-30)
            self.rows[block] = (close / steps[block]).round_()
        else:
            self.rows[block] = close
        back = self.rows[block].float().mul_(steps[block])
        # In float32, `close` and `back` are each off by 2^-24 of themselves, and a sum of squares by that per term.
        off = 1 + (exact.shape[1] + 4) * 2.0**-24
        lengths[block] = back.norm(dim=1) * off * (1 + 2.0**-20)
        self.residuals[block] = (close.sub_(back).norm(dim=1) * off + 2.0**-23 * (lengths[block] + 2)) * (1 + 2.0**-20)

    def __len__(self) -> int:
        return len(self.rows)


def bound(a: Narrow, b: Narrow) -> float:
    """No score of `product` is further than this from the exact one."""
    if a.kind == "float64":
        return 0.0
    copies = a.residual * (b.length + b.residual) + a.length * b.residual
    return (copies + _rounding(a, b)) * (1 + 1e-6)


def reach(a: Narrow, b: Narrow) -> tuple[Tensor, Tensor]:
    """The bound of each pair: the sum of a number for each row of `a`, in a column, and a number for each row of `b`.
    Few rows are as far off as the worst row: most pairs of int8 have a bound about half as wide as `bound`."""
    rows = (a.residuals * (b.length + b.residual) + _rounding(a, b)) * (1 + 1e-6) + ROUNDED
    return rows[:, None], a.length * b.residuals * (1 + 1e-6)


def _rounding(a: Narrow, b: Narrow) -> float:
    """An upper bound of the rounding in a product of narrow copies."""
    terms = a.rows.shape[1] + 4
    unit = 2.0**-24
    lengths = a.length * b.length
    sums = terms * unit / (1 - terms * unit) * lengths  # int8 sums whole numbers; only its steps round, thrice
    final = 2.0**-8 * (lengths + sums) if a.kind == "bfloat16" else 0.0  # the product is rounded to bfloat16
    return sums + final


def product(a: Narrow, rows: slice, b: Narrow, columns: slice) -> Tensor:
    """A tile of scores, in float32 (float64 for that kind). The next tile of the same thread overwrites it."""
    left, right = a.rows[rows], b.rows[columns].T
    shape = (left.shape[0], right.shape[1])
    if a.kind == "int8":
        whole = torch._int_mm(left, right, out=_room(shape, torch.int32, left.device))
        return _room(shape, torch.float32, left.device).copy_(whole).mul_(a.steps[rows]).mul_(b.steps[columns].T)
    tile = torch.mm(left, right, out=_room(shape, left.dtype, left.device))
    return _room(shape, torch.float32, left.device).copy_(tile) if a.kind == "bfloat16" else tile


def listed(a: Narrow, i: NDArray[Any], b: Narrow, j: NDArray[Any]) -> Scores:
    """The narrow score of each listed pair. The bound of `product` holds here too, because it holds for sums in any
    order."""
    if a.rows.device.type == "cpu":
        return dots(a.rows.numpy(), i, b.rows.numpy(), j)
    scores = np.empty(len(i))
    for block in blocks(len(i), 1 << 16):
        left, right = a.rows[torch.from_numpy(i[block])], b.rows[torch.from_numpy(j[block])]
        scores[block] = (left * right).sum(dim=1).cpu().numpy()
    return scores


_kept = threading.local()
_TYPES = {"float32": torch.float32, "float64": torch.float64}


def _room(shape: tuple[int, int], dtype: torch.dtype, where: torch.device, use: str = "tile") -> Tensor:
    """Memory for a tile, kept for the next one: new pages would take a tenth of the time of the product."""
    rooms: dict[Any, Tensor] = _kept.__dict__
    key = f"{use} {dtype} {where}"
    if key not in rooms or rooms[key].numel() < shape[0] * shape[1]:
        rooms[key] = torch.empty(shape[0] * shape[1], dtype=dtype, device=where)
    return rooms[key][: shape[0] * shape[1]].view(shape)


def places_from(tile: Tensor, lowest: Tensor | float) -> NDArray[np.uint32]:
    """Places in a tile, counted along the rows, of the scores that reach `lowest`: one number, or a column with one
    number per row.

    NumPy compares and counts several times faster than torch on a processor. The places are unsigned and short, because
    the divisions that follow are quick on such numbers.
    """
    if tile.device.type != "cpu":
        return (tile >= lowest).view(-1).nonzero().flatten().cpu().numpy().astype(np.uint32)
    least = lowest.numpy() if isinstance(lowest, Tensor) else np.asarray(lowest, tile.numpy().dtype)
    mask = _room((tile.shape[0], tile.shape[1]), torch.bool, tile.device).numpy()
    np.greater_equal(tile.numpy(), least, out=mask)
    return np.flatnonzero(mask).astype(np.uint32)


def taken(tile: Tensor, places: NDArray[np.uint32]) -> NDArray[Any]:
    """The scores at these places of a tile."""
    if tile.device.type != "cpu":
        return tile.view(-1)[torch.from_numpy(places.astype(np.int64)).to(tile.device)].cpu().numpy()
    found: NDArray[Any] = tile.numpy().reshape(-1).take(places)
    return found


class Sieve:
    """Two sets of vectors in a type narrower than float32, the bounds of their scores, and how often the sieve was of
    use."""

    def __init__(self, a: Narrow, b: Narrow) -> None:
        self.a, self.b = a, b
        self.rows, self.columns = reach(a, b)
        self.useful = self.tried = 0  # only guide a choice: threads may lose a count

    def tile(self, rows: slice, columns: slice) -> Tensor:
        """No exact score is higher than this tile with `self.rows` added."""
        return product(self.a, rows, self.b, columns).add_(self.columns[columns])

    def pays(self) -> bool:
        """False once the sieve has left most tiles to float32."""
        return self.tried < 8 or self.useful * 2 >= self.tried

    def leaves_few(self, open_: int, pairs: int) -> bool:
        """Whether so few pairs of a tile are open that scoring them one by one is quicker."""
        few = open_ * HEAP <= pairs
        self.tried += 1
        self.useful += few
        return few


@cache
def sieves(dim: int) -> list[Kind]:
    """The kinds of product whose tile, with a minimal scan, is clearly quicker than that of float32 on this machine."""
    drawn = np.random.default_rng(0).standard_normal((256, dim))
    units = on_grid(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
    every = slice(0, len(units))

    def tile(kind: Kind) -> float:
        narrow = Narrow(units, kind)
        product(narrow, slice(0, 5), narrow, slice(0, 3))  # some devices refuse odd shapes
        return seconds(lambda: float(product(narrow, every, narrow, every).amax(dim=1)[0]))

    with one_thread_each(1):
        return promising("float32", ("int8", "bfloat16"), tile)


# --- tiles ----------------------------------------------------------------------------------------------------------


def blocks(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


@contextmanager
def one_thread_each(workers: int) -> Iterator[Callable[[Callable[[Any], Any], Iterable[Any]], None]]:
    """Workers that each run their products on one thread, so that a tile stays in the cache of the core that computed
    it."""
    threads = torch.get_num_threads()
    precision = torch.get_float32_matmul_precision()
    reduced = torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    torch.set_float32_matmul_precision("highest")  # no TF32
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False  # the bound assumes sums in float32
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


# --- all pairs ------------------------------------------------------------------------------------------------------


def pair_tiles(count: int) -> list[tuple[slice, slice]]:
    """Tiles that together hold each pair (i, j), i < j, once. Their order is random and fixed, so that the first tiles
    are a fair sample."""
    sides = list(blocks(count, ROWS))
    tiles = [(rows, columns) for k, rows in enumerate(sides) for columns in sides[k:]]
    return [tiles[k] for k in np.random.default_rng(0).permutation(len(tiles))]


def exclude(tile: Tensor, codes: Codes, rows: slice, columns: slice) -> None:
    """Set excluded pairs to EXCLUDED: the mated ones, and those that are not i < j, since another place holds them.
    Codes are ascending, so that only tiles near the diagonal hold any."""
    if codes[rows.stop - 1] >= codes[columns.start]:
        excluded = torch.from_numpy(codes[rows, None] >= codes[None, columns])
        tile.masked_fill_(excluded.to(tile.device), EXCLUDED)


def nonmated_count(codes: Codes) -> int:
    """How many pairs i < j of vectors with these codes are non-mated."""
    sizes = np.unique(codes, return_counts=True)[1].astype(object)  # Python's integers do not overflow
    return int((sizes.sum() ** 2 - (sizes**2).sum()) // 2)
