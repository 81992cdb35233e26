"""Frames: many unit vectors that are almost orthogonal to each other, as targets for forget images.

`greedy_frame` is the paper's: furthest-point sampling from random candidates, against the retain class vectors as well.
`ClosedFrame` computes target i from i and the seed only, in whole numbers. It stores nothing, its coherence is the
lowest that is known, and every processor gives the same bits.
"""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from damnatio.support.errors import DamnatioError

BLOCK = 1024


def greedy_frame(count: int, others: Tensor, candidates: int, seed: int) -> Tensor:
    """`count` unit vectors. Each is the candidate with the lowest maximum cosine to `others` and to earlier choices.

    The candidates are drawn once: `candidates` of them and one more per target, since each is chosen at most once. Each
    candidate keeps its largest cosine so far, so the cost is one pass of the candidates against the others, by blocks,
    and then one matrix-vector product per target; the memory is the candidates and one block.

    The draw and the cosines are floating point. Another processor may choose another candidate if two are equally good
    up to rounding.
    """
    generator = torch.Generator().manual_seed(seed)
    pool = F.normalize(torch.randn(candidates + count, others.shape[1], generator=generator), dim=1)
    worst = torch.full((len(pool),), -torch.inf)
    for block in torch.split(others.to(pool), BLOCK):
        worst = torch.maximum(worst, (pool @ block.T).amax(dim=1))
    chosen = torch.empty(count, dtype=torch.long)
    for i in range(count):
        best = worst.argmin()
        chosen[i] = best
        worst = torch.maximum(worst, pool @ pool[best])
        worst[best] = torch.inf
    return pool[chosen]


class ClosedFrame:
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

    def __init__(self, dim: int, seed: int) -> None:
        self.exponent = dim.bit_length() - 1
        if dim != 1 << self.exponent or self.exponent < 3:
            raise DamnatioError(
                f"The closed-form frame needs an embedding dimension that is a power of two from 8 up, not {dim}: "
                "set frame: greedy."
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
            raise DamnatioError("The closed-form frame exists for dimensions up to 65,536: set frame: greedy.")
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
