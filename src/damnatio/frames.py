"""Frames: many unit vectors that are almost orthogonal to each other, as targets for forget images.

`greedy_frame` is the paper's: furthest-point sampling from random candidates, against the retain rows as well.
`ClosedFrame` computes target i from i alone: nothing is stored, and its coherence is the least that is known.
"""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from damnatio.errors import DamnatioError

BLOCK = 1024


def greedy_frame(count: int, rows: Tensor, candidates: int, seed: int) -> Tensor:
    """`count` unit vectors, each the candidate whose largest cosine to `rows` and to those chosen before it is least.

    The candidates are drawn once: `candidates` of them and one more a target, since a chosen one is used up. Each keeps
    the largest cosine seen so far, so the cost is one pass of the candidates against the rows, by blocks, and then one
    matrix-vector product a target; the memory is the candidates and one block.
    """
    generator = torch.Generator().manual_seed(seed)
    pool = F.normalize(torch.randn(candidates + count, rows.shape[1], generator=generator), dim=1)
    worst = torch.full((len(pool),), -torch.inf)
    for block in torch.split(rows.to(pool), BLOCK):
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
    Tr((a y)^(2^j + 1)): d^2/2 vectors, inner products 0 or +-2^(m/2)/d. A rotation drawn by the
    seed turns all of them alike.
    """

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
        generator = torch.Generator().manual_seed(seed)
        normal = torch.randn(dim, dim, generator=generator, dtype=torch.float64)
        q, r = torch.linalg.qr(normal)
        self._rotation = (q * r.diagonal().sign()).float()

    def __len__(self) -> int:
        return self.dim * self.dim // (1 if self.odd else 2)

    @property
    def coherence(self) -> float:
        """The largest absolute inner product of two of them."""
        return float(2 ** ((self.exponent + 1) // 2) / self.dim)

    def __call__(self, indices: Tensor) -> Tensor:
        """The vectors of these indices, one a row."""
        signs = self._bits(indices.cpu()).float().mul_(-2).add_(1)
        vectors: Tensor = signs / self.dim**0.5 @ self._rotation.T
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


class _Field:
    """GF(2^m) as bit vectors modulo a primitive polynomial: products by logarithms, the trace by a table."""

    PRIMITIVE: ClassVar = {3: 0xB, 5: 0x25, 7: 0x83, 9: 0x211, 11: 0x805, 13: 0x201B, 15: 0x8003}

    def __init__(self, exponent: int) -> None:
        if exponent not in self.PRIMITIVE:
            raise DamnatioError("The closed-form frame is there for dimensions up to 65,536, not beyond.")
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
