"""Frames: many unit vectors that are almost orthogonal to each other, as targets for forget images.

`greedy` is the paper's: furthest-point sampling from random candidates, against the retain class vectors as well.
`closed` computes target i from i and the seed only, in whole numbers. It stores nothing, its coherence is the
lowest that is known, and every processor gives the same bits.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from damnatio.support import pieces, processes
from damnatio.support.errors import DamnatioError
from damnatio.support.progress import progress
from damnatio.support.workers import cores

BLOCK = 1024
DRAWN = 65_536
"""candidates that are held at once: 134 MB at d = 512"""
ROWS, COLUMNS = 4096, 4096
"""the shape of a tile of cosines: 67 MB"""
_CANDIDATES = 12  # a stream of random numbers of its own


def greedy(
    count: int,
    away_from: Tensor | Iterable[Tensor],
    candidates: int = 256,
    seed: int = 0,
    folder: Path | None = None,
) -> Tensor:
    """`count` unit vectors, count x d. Each is chosen from `candidates` of its own: it has the lowest maximum cosine to
    `away_from` and to the targets before it. `away_from` are class vectors, N x d, of any length, whole or in blocks.

    >>> greedy(3, torch.eye(8)).shape
    torch.Size([3, 8])

    The candidates of target i are a function of the seed and of i. They must be fresh for every target: a pool that all
    targets choose from is soon used up, and its last targets are no better than random ones (`benchmarks/frames.py`).

    Cost: count x candidates x (N + count/2) cosines, 2 d operations each. At the paper's S2 (124,000 targets, 256
    candidates, N = 100,000, d = 512) that is 5.3e15: five minutes of an A100 in float32, three quarters of an hour at
    2 TFLOP/s, half a day on two cores. A block of targets is compared with all that was there before it in large
    products; only the targets of one block are placed one by one. Several processes share the products. Memory: the
    vectors, `DRAWN` candidates and one tile. With a folder, finished blocks are kept there as pieces, and an
    interrupted call goes on after them.

    The cosines are floating point. Another processor may choose another candidate if two are equally good up to
    rounding.
    """
    known = away_from if isinstance(away_from, Tensor) else torch.cat(tuple(away_from))
    known = F.normalize(known.detach().float(), dim=1)
    frame = known.new_empty(count, known.shape[1])
    step = max(1, DRAWN // candidates)
    blocks = {
        f"targets-{start}-{stop}-of-{candidates}": slice(start, stop)
        for start in range(0, count, step)
        for stop in [min(start + step, count)]
    }
    todo = list(blocks) if folder is None else pieces.missing(folder, list(blocks))
    with _no_tf32(), progress("frame", count if len(blocks) > 1 else 0, "targets") as advance:
        for name, block in blocks.items():
            if folder is not None and name not in todo:
                frame[block] = torch.from_numpy(pieces.kept(folder, name)["targets"]).to(frame)
            else:
                drawn = _drawn(block, candidates, known.shape[1], seed).to(frame)
                frame[block] = _placed(drawn, _worst(drawn.flatten(0, 1), [known, frame[: block.start]]))
                if folder is not None and processes.is_main():
                    pieces.keep(folder, name, {"targets": frame[block].cpu().numpy()})
            advance(block.stop - block.start)
    return frame


def _drawn(targets: slice, candidates: int, dim: int, seed: int) -> Tensor:
    """The candidates of these targets: unit vectors, targets x candidates x dim."""
    drawn = np.empty((targets.stop - targets.start, candidates, dim), np.float32)

    def draw(place: int) -> None:
        rng = np.random.default_rng([seed, _CANDIDATES, targets.start + place])
        rng.standard_normal(out=drawn[place], dtype=np.float32)

    with ThreadPoolExecutor(cores()) as threads:
        for _ in threads.map(draw, range(len(drawn))):
            pass
    return F.normalize(torch.from_numpy(drawn), dim=2)


def _worst(rows: Tensor, known: Sequence[Tensor]) -> Tensor:
    """The largest cosine of each row to any of the known vectors. The processes share the rows, and cut them alike
    whatever their number, so that all find the same."""
    shared = torch.split(rows, ROWS)[processes.share_of(-(-len(rows) // ROWS))]
    found = [torch.full((len(some),), -torch.inf, device=rows.device) for some in shared]
    for worst, some in zip(found, shared, strict=True):
        for others in (block for vectors in known for block in torch.split(vectors, COLUMNS) if len(block)):
            torch.maximum(worst, (some @ others.T).amax(dim=1), out=worst)
    mine = torch.cat([rows.new_empty(0), *found])
    return mine if processes.size() == 1 else torch.from_numpy(processes.joined(mine.cpu().numpy())).to(rows)


def _placed(drawn: Tensor, worst: Tensor) -> Tensor:
    """The chosen candidates of a block, one by one: each also lies far from those that were chosen before it."""
    placed = torch.empty_like(drawn[:, 0])
    for i, (own, known) in enumerate(zip(drawn, worst.view(drawn.shape[:2]), strict=True)):
        now = torch.maximum(known, (own @ placed[:i].T).amax(dim=1)) if i else known
        placed[i] = own[now.argmin()]
    return placed


@contextmanager
def _no_tf32() -> Iterator[None]:
    """Products in whole float32, also where a recipe trains with less."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def closed(dim: int, seed: int = 0) -> "Closed":
    """The closed-form frame: a function from places to targets, N -> N x dim, for dimensions 8, 16, ..., 65,536.

    >>> closed(8)(torch.tensor([0, 5])).shape
    torch.Size([2, 8])
    """
    return Closed(dim, seed)


class Closed:
    """Unit vectors of d = 2^m entries +-1/sqrt(d), by index: v_i(x) = (-1)^(Q_a(x) + <b, x>)/sqrt(d), i = a d + b.

    m odd (Gold): x in GF(2^m), Q_a(x) = Tr(a x^3), <b, x> = Tr(b x): d^2 vectors whose inner products are 0 or
    +-2^((m+1)/2)/d. m even (Kerdock): x = (y, e) in GF(2^(m-1)) x GF(2), Q_a(x) = e Tr(a y) + sum_{j=1}^{(m-2)/2}
    Tr((a y)^(2^j + 1)): d^2/2 vectors, inner products 0 or +-2^(m/2)/d.

    All of them are turned by the rotation (H D_3)(H D_2)(H D_1)/d^(3/2): H is the Walsh-Hadamard matrix, and the seed
    draws the signs on the diagonals D. With the frame's own 1/sqrt(d) the factor is 1/d^2, a power of two. So each
    entry of a target is a whole number of at most d^2, divided by d^2, and no sum is ever rounded: the order of the
    sums, the batch, the threads and the processor do not matter. (From d = 8192 on, the last step rounds each entry to
    float32.)
    """

    ROUNDS: ClassVar = 3

    def __init__(self, dim: int, seed: int = 0) -> None:
        self.exponent = dim.bit_length() - 1
        if dim != 1 << self.exponent or self.exponent < 3:
            raise DamnatioError(
                f"The closed-form frame needs an embedding dimension that is a power of two from 8 up, not {dim}."
            )
        self.dim = dim
        self.odd = self.exponent % 2 == 1
        self._field = _Field(self.exponent if self.odd else self.exponent - 1)
        # NumPy promises the raw words of PCG64 for every version, and they are integers on every processor.
        words = np.random.PCG64(seed).random_raw(self.ROUNDS * dim)
        self._signs = 1 - 2 * torch.from_numpy((words >> 63).astype(np.int64)).view(self.ROUNDS, dim)

    def __len__(self) -> int:
        return self.dim * self.dim // (1 if self.odd else 2)

    @property
    def coherence(self) -> float:
        """The largest absolute inner product of two different vectors."""
        return float(2 ** ((self.exponent + 1) // 2) / self.dim)

    def __call__(self, indices: Tensor) -> Tensor:
        """The vectors of these indices: N x dim."""
        vectors = torch.empty(len(indices), self.dim)
        for some, out in zip(torch.split(indices.cpu(), BLOCK), torch.split(vectors, BLOCK), strict=True):
            whole = 1 - 2 * self._bits(some)
            for signs in self._signs:
                whole = _hadamard(whole * signs)
            out.copy_(whole.double() / self.dim**2)
        return vectors.to(indices.device)

    def _bits(self, indices: Tensor) -> Tensor:
        field = self._field
        a, b = (indices // self.dim)[:, None], (indices % self.dim)[:, None]
        if self.odd:
            x = torch.arange(self.dim)[None, :]
            gold: Tensor = field.times(a, field.power(x, 3)) ^ field.times(b, x)
            return field.trace_of(gold)
        y, e = torch.arange(self.dim)[None, :] % field.size, torch.arange(self.dim)[None, :] // field.size
        ay = field.times(a, y)
        bits = e & field.trace_of(ay)
        for j in range(1, self.exponent // 2):
            bits = bits ^ field.trace_of(field.power(ay, (1 << j) + 1))
        bits = bits ^ field.trace_of(field.times(b % field.size, y)) ^ (b // field.size & e)
        return bits


def _hadamard(vectors: Tensor) -> Tensor:
    """H x of each vector x of whole numbers, H[i, j] = (-1)^(number of bits that i and j share)."""
    for _ in range(vectors.shape[1].bit_length() - 1):
        first, second = vectors[:, ::2], vectors[:, 1::2]
        vectors = torch.cat([first + second, first - second], dim=1)
    return vectors


class _Field:
    """GF(2^m) as bit vectors modulo a primitive polynomial: products by logarithms, the trace by a table."""

    PRIMITIVE: ClassVar = {3: 0xB, 5: 0x25, 7: 0x83, 9: 0x211, 11: 0x805, 13: 0x201B, 15: 0x8003}

    def __init__(self, exponent: int) -> None:
        if exponent not in self.PRIMITIVE:
            raise DamnatioError("The closed-form frame exists for dimensions up to 65,536.")
        self.size = 1 << exponent
        self._exp = torch.empty(self.size - 1, dtype=torch.long)
        self._log = torch.zeros(self.size, dtype=torch.long)
        value = 1
        for power in range(self.size - 1):
            self._exp[power], self._log[value] = value, power
            value <<= 1
            if value & self.size:
                value ^= self.PRIMITIVE[exponent]
        conjugate = torch.arange(self.size)
        total = torch.zeros(self.size, dtype=torch.long)
        for _ in range(exponent):
            total ^= conjugate
            conjugate = self.power(conjugate, 2)
        self._trace = total

    def trace_of(self, a: Tensor) -> Tensor:
        """Tr(a) = a + a^2 + a^4 + ...: 0 or 1."""
        return self._trace[a]

    def times(self, a: Tensor, b: Tensor) -> Tensor:
        product = self._exp[(self._log[a] + self._log[b]) % (self.size - 1)]
        return torch.where((a == 0) | (b == 0), 0, product)

    def power(self, a: Tensor, exponent: int) -> Tensor:
        return torch.where(a == 0, 0, self._exp[self._log[a] * exponent % (self.size - 1)])
