"""Fragments in bytes, in whatever binary spelling they are.

At each byte, three bytes are looked up in a table of a mebibyte; one position in twenty passes. For those, the value is
read and looked up in a larger table, and compared with the anchors there; then the value beside it; then all eight. The
first step takes nearly all of the time, and is a few passes of numpy over a block that fits the processor's cache.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from damnatio.galleries.scanning.fragments import SIZE, ULPS, Fragments, ordered
from damnatio.galleries.scanning.spellings import SPELLINGS, Spelling
from damnatio.galleries.scanning.tables import FIRST, FLOATS, MAGIC, PIECES, THREE, Places, Tables, float_words

Bytes = NDArray[np.uint8]
BLOCK = 1 << 17
"""bytes that are looked up at once"""
ASCII, BEYOND = 0x80, 128
"""the first byte that is no letter of text, and how far a fragment may reach over the end of a block"""
AT_ONCE = 1 << 16
"""candidates that are compared at once"""
STORED = "bytes as they are stored"
WORD = np.dtype("<u4")
NOWHERE, NOTHING = np.empty(0, np.int64), np.empty(0, np.uint8)


class Seen(NamedTuple):
    """Fragments that were found, each at a byte of the chunk."""

    fragments: Places
    at: Places
    how: str


class Matcher:
    """Finds fragments, and the beginnings of containers, in chunks of bytes."""

    def __init__(self, fragments: Fragments, magics: tuple[bytes, ...] = ()) -> None:
        self._fragments, self._magics = fragments, magics
        self._tables = Tables(fragments, magics)
        self._magic_places = NOWHERE
        self._words = np.empty(BLOCK // 4, np.uint32)
        self._index, self._kinds = np.empty(BLOCK // 4, np.intp), np.empty(BLOCK // 4, np.uint8)

    def look(self, chunk: Bytes) -> Iterator[Seen]:
        """The fragments in a chunk. One that reaches over its end is not found."""
        for bit, places in self._passed(chunk):
            lead = SPELLINGS[bit].lead if bit < PIECES else 0
            width = 2 * SPELLINGS[bit].dtype.itemsize if bit < PIECES else WORD.itemsize
            starts = places - lead
            starts = starts[(starts >= 0) & (starts + width <= len(chunk))]
            for at, rows in self._candidates(chunk, starts, bit):
                if bit == PIECES:
                    yield from self._pieces(chunk, at, rows)
                else:
                    for stride, name in SPELLINGS[bit].strides.items():
                        yield from self._values(chunk, at, rows, SPELLINGS[bit], stride, name)

    def magics(self, chunk: Bytes) -> list[tuple[int, bytes]]:
        """The places at which containers may begin, in the order of the chunk that was looked at last."""
        found = []
        for place in self._magic_places.tolist():
            head = chunk[place : place + 4].tobytes()
            found += [(place, magic) for magic in self._magics if head.startswith(magic)]
        return found

    def _passed(self, chunk: Bytes) -> Iterator[tuple[int, Places]]:
        """Positions that pass the first step, by what they may be."""
        found: list[tuple[Places, Bytes]] = []
        for start in range(0, len(chunk), BLOCK):
            if chunk[start : start + BLOCK + BEYOND].max() < ASCII:
                continue  # text: of eight floats, some have a byte above
            for offset in range(4):
                piece = chunk[start + offset : start + offset + BLOCK]
                count = (len(piece) + 3) // 4
                words, index, kinds = self._words[:count], self._index[:count], self._kinds[:count]
                if len(piece) % 4:
                    words[-1] = 0
                words.view(np.uint8)[: len(piece)] = piece
                np.multiply(words, THREE, out=words)
                np.right_shift(words, np.uint32(32 - FIRST), out=index, casting="unsafe")
                self._tables.first.take(index, out=kinds, mode="clip")
                hits = np.flatnonzero(kinds != 0)
                found.append((hits * 4 + (start + offset), kinds[hits]))
        at, of = (np.concatenate(parts) for parts in zip(*found, strict=True)) if found else (NOWHERE, NOTHING)
        self._magic_places = np.sort(at[(of & np.uint8(1 << MAGIC)) != 0])
        for bit in range(MAGIC):
            yield bit, at[(of & np.uint8(1 << bit)) != 0]

    def _candidates(self, chunk: Bytes, starts: Places, bit: int) -> Iterator[tuple[Places, Places]]:
        """(place of the anchor, row of the fragments), some thousands at a time."""
        for part in range(0, len(starts), AT_ONCE):
            some = starts[part : part + AT_ONCE]
            if bit < FLOATS:
                with np.errstate(over="ignore", invalid="ignore"):
                    words = float_words(_read(chunk, some, SPELLINGS[bit].dtype).astype(np.float32))
            else:
                words = _read(chunk, some, WORD)
            yield self._tables.fragments_at(0 if bit < FLOATS else bit, some, words)

    def _values(
        self, chunk: Bytes, at: Places, rows: Places, spelling: Spelling, stride: int, name: str
    ) -> Iterator[Seen]:
        """Those candidates at which all values of the fragment stand."""
        anchors = self._fragments.anchors[rows]
        begins = at - anchors * stride
        kept = (begins >= 0) & (begins + (SIZE - 1) * stride + spelling.dtype.itemsize <= len(chunk))
        begins, rows, beside = begins[kept], rows[kept], anchors[kept] + 1
        found = _read(chunk, begins + beside * stride, spelling.dtype)
        kept = _alike(found, self._fragments.values[rows, beside], spelling)
        begins, rows = begins[kept], rows[kept]
        found = _read(chunk, (begins[:, None] + np.arange(SIZE) * stride).ravel(), spelling.dtype)
        whole = _alike(found.reshape(-1, SIZE), self._fragments.values[rows], spelling).all(axis=1)
        if whole.any():
            yield Seen(self._fragments.of[rows[whole]], begins[whole], name)

    def _pieces(self, chunk: Bytes, at: Places, rows: Places) -> Iterator[Seen]:
        first = self._fragments.count - len(self._fragments.pieces)
        for place, row in zip(at.tolist(), rows.tolist(), strict=True):
            piece = self._fragments.pieces[row]
            if chunk[place : place + len(piece)].tobytes() == piece:
                yield Seen(np.array([first + row]), np.array([place]), STORED)


def _alike(found: NDArray[Any], wanted: NDArray[np.float32], spelling: Spelling) -> NDArray[np.bool_]:
    """Which values are equal, but for a rounding."""
    with np.errstate(over="ignore", invalid="ignore"):
        if spelling.is_half:
            halves = wanted.astype(np.float16)
            return np.asarray(np.abs(found.astype(np.float16) - halves) <= np.spacing(np.abs(halves)))
        return np.asarray(np.abs(ordered(found.astype(np.float32)) - ordered(wanted)) <= ULPS)


def _read(chunk: Bytes, starts: Places, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values that begin at these bytes, which need not be aligned."""
    width = dtype.itemsize
    if len(chunk) < width:
        return np.empty(0, dtype)
    everywhere = as_strided(chunk[:width].view(dtype), shape=(len(chunk) - width + 1,), strides=(1,))
    values: NDArray[Any] = everywhere[starts]
    return values
