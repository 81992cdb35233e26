"""Two tables that say where in a chunk a fragment may be.

The first takes three bytes and is small enough for the processor's cache. The second takes the whole value at a place
that passed the first, and gives the fragments that have it as their anchor.
"""

import numpy as np
from numpy.typing import NDArray

from damnatio.galleries.scanning.fragments import ULPS, Fragments, ordered
from damnatio.galleries.scanning.spellings import SPELLINGS

FIRST, SECOND = 20, 24
"""bits of the two tables"""
SPREAD = np.uint32(2654435761)
THREE = np.uint32(SPREAD << np.uint32(8))
"""a factor under which the fourth byte of a word does not count"""
FLOATS = 4
"""the first spellings of SPELLINGS, which share one key: the value as float32"""
PIECES, MAGIC = len(SPELLINGS), len(SPELLINGS) + 1
"""bits of the first table after those of the spellings"""
Words = NDArray[np.uint32]
Places = NDArray[np.int64]


class Tables:
    """Built once for the fragments of a scan."""

    def __init__(self, fragments: Fragments, magics: tuple[bytes, ...]) -> None:
        self.first = np.zeros(1 << FIRST, np.uint8)
        self.pieces = fragments.pieces
        keys: list[Places] = []
        kinds: list[NDArray[np.int8]] = []
        rows: list[Places] = []
        for kind, words in self._words(fragments):
            keys.append(second_place(words, kind))
            kinds.append(np.full(len(words), kind, np.int8))
            rows.append(np.arange(len(words)))
        for magic in magics:
            self._enter(np.frombuffer(magic[:3], np.uint8)[None], MAGIC)
        self._group(np.concatenate(keys), np.concatenate(kinds), np.concatenate(rows))

    def _words(self, fragments: Fragments) -> list[tuple[int, Words]]:
        """(kind, key of each fragment) for all kinds; the first table is filled on the way."""
        values, rows = fragments.values, np.arange(len(fragments.values))
        pairs = np.stack([values[rows, fragments.anchors + k] for k in (0, 1)], axis=1)
        found = []
        for ulps in (-ULPS, ULPS):
            near = _unordered(ordered(pairs[:, 0]) + ulps)
            found.append((0, float_words(near)))
            for bit, spelling in enumerate(SPELLINGS[:FLOATS]):
                spelt = near.astype(spelling.dtype).view(np.uint8).reshape(len(near), spelling.dtype.itemsize)
                self._enter(spelt[:, spelling.lead : spelling.lead + 3], bit)
        for bit in range(FLOATS, PIECES):
            with np.errstate(over="ignore"):
                spelt = pairs.astype(SPELLINGS[bit].dtype).view(np.uint8).reshape(len(pairs), 4)
            self._enter(spelt[:, :3], bit)
            found.append((bit, spelt.view("<u4")[:, 0]))
        heads = np.frombuffer(b"".join(piece[:4] for piece in self.pieces), np.uint8).reshape(-1, 4)
        self._enter(heads[:, :3], PIECES)
        found.append((PIECES, np.ascontiguousarray(heads).view("<u4")[:, 0]))
        return found

    def _enter(self, three: NDArray[np.uint8], bit: int) -> None:
        padded = np.zeros((len(three), 4), np.uint8)
        padded[:, :3] = three
        self.first[(padded.view("<u4")[:, 0] * THREE) >> np.uint32(32 - FIRST)] |= np.uint8(1 << bit)

    def _group(self, keys: Places, kinds: NDArray[np.int8], rows: Places) -> None:
        """The second table: for each place the number of a group of fragments, 0 where there is none."""
        order = np.lexsort((rows, kinds, keys))
        keys, self._kinds, self._rows = keys[order], kinds[order], rows[order]
        places, begins, counts = np.unique(keys, return_index=True, return_counts=True)
        self._begins = np.concatenate([[0], begins])
        self._counts = np.concatenate([[0], counts])
        self._second = np.zeros(1 << SECOND, np.uint16 if len(places) < 1 << 16 else np.uint32)
        self._second[places] = np.arange(1, len(places) + 1)

    def fragments_at(self, kind: int, starts: Places, words: Words) -> tuple[Places, Places]:
        """(place, row of the fragments) of all pairs in which the word at a place may be the anchor of the fragment."""
        groups = self._second[second_place(words, kind)]
        some = np.flatnonzero(groups != 0)
        chosen, starts = groups[some].astype(np.intp), starts[some]
        counts, entries = self._counts[chosen], self._begins[chosen]
        if (counts > 1).any():
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            entries, starts = np.repeat(entries, counts) + within, np.repeat(starts, counts)
        same = self._kinds[entries] == kind
        return starts[same], self._rows[entries[same]]


def float_words(values: NDArray[np.float32]) -> Words:
    """The key of a value: its bits without the last eight, in which 64 units in the last place lie."""
    return values.view(np.uint32) >> np.uint32(8)


def second_place(words: Words, kind: int) -> Places:
    salted = words ^ np.uint32(0x9E3779B9 * kind & 0xFFFFFFFF)
    return ((salted * SPREAD) >> np.uint32(32 - SECOND)).astype(np.int64)


def _unordered(places: NDArray[np.int64]) -> NDArray[np.float32]:
    bits = np.where(places >= 0, places, (-places) | 0x80000000)
    return bits.astype(np.uint32).view(np.float32)
