"""Fragments: eight consecutive values of a vector, the smallest thing that a scan finds.

A fragment is found in any of the ways in which its eight values may be spelt. Each has an anchor, the largest of its
values, by which candidates are found quickly; then all eight are compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from damnatio.galleries.items import Vectors
from damnatio.galleries.scanning.needles import Needles

SIZE = 8
"""values of a fragment"""
ULPS = 64
"""units in the last place of float32 by which a value may differ: stores that normalise again change a few"""
DISTINCT = 5
"""different values that a fragment must have; others, such as eight zeros, could be anybody's"""
BYTES = 32
"""bytes of a fragment of a code"""
SHORTEST = 8
"""bytes of the shortest code that is looked for; shorter ones could be anybody's"""


@dataclass(frozen=True)
class Fragments:
    """The fragments of a person and of the control. A fragment may be spelt by several rows of `values`: as it is
    stored, and as it is when its vector is brought to unit length."""

    values: NDArray[np.float32]
    """[spellings, SIZE]"""
    anchors: NDArray[np.int64]
    """the place of the anchor in each row of `values`"""
    of: NDArray[np.int64]
    """the fragment of each row of `values`"""
    pieces: list[bytes]
    """fragments that are bytes: codes, and pieces of photographs; they come after those of values"""
    is_control: NDArray[np.bool_]
    """for each fragment, whether it is of the control"""
    is_picture: NDArray[np.bool_]
    """for each fragment, whether it is a piece of a photograph"""

    @property
    def count(self) -> int:
        return len(self.is_control)

    def key(self, fragment: int) -> bytes:
        """The bytes of a fragment, as it is stored."""
        pieces = self.count - len(self.pieces)
        if fragment >= pieces:
            return self.pieces[fragment - pieces]
        return bytes(self.values[np.searchsorted(self.of, fragment)].tobytes())


def fragments_of(person: Needles, control: Needles) -> Fragments:
    """Different fragments. What both share is looked for as the person's: a control hides nothing."""
    spelt = [_spelt(needles.vectors) for needles in (person, control)]
    keys = [[row.tobytes() for row in stored] for stored, _ in spelt]
    values, of, is_control = list[NDArray[np.float32]](), list[int](), list[bool]()
    for control_too, (stored, unit) in enumerate(spelt):
        seen = set(keys[0]) if control_too else set[bytes]()
        for row, key in enumerate(keys[control_too]):
            if key in seen:
                continue
            seen.add(key)
            spellings = [stored[row]] if np.array_equal(stored[row], unit[row]) else [stored[row], unit[row]]
            values += spellings
            of += [len(is_control)] * len(spellings)
            is_control.append(bool(control_too))
    pieces = [_pieces(needles) for needles in (person, control)]
    kept = [pieces[0], [piece for piece in pieces[1] if piece not in set(pieces[0])]]
    pictures = {piece for needles in (person, control) for piece in needles.contents}
    table = np.stack(values) if values else np.empty((0, SIZE), np.float32)
    return Fragments(
        values=table,
        anchors=_anchors(table),
        of=np.array(of, dtype=np.int64),
        pieces=kept[0] + kept[1],
        is_control=np.array(is_control + [False] * len(kept[0]) + [True] * len(kept[1]), dtype=bool),
        is_picture=np.array([False] * len(is_control) + [one in pictures for one in kept[0] + kept[1]], dtype=bool),
    )


def _anchors(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """The largest value of each row but the last, since rare exponents let fewer candidates pass; if possible one whose
    last eight bits are far from their ends, so that a rounding changes nothing above them."""
    some = np.ascontiguousarray(values[:, : SIZE - 1])
    last = some.view(np.uint32) & np.uint32(0xFF)
    steady = (last >= ULPS) & (last < 256 - ULPS)
    return np.asarray(np.where(steady, np.abs(some), np.abs(some) * 1e-3).argmax(axis=1))


def _spelt(vectors: Sequence[Vectors]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The fragments of the vectors as they are stored, and at unit length. Both have the same rows."""
    stored, unit = list[NDArray[np.float32]](), list[NDArray[np.float32]]()
    for vector in vectors:
        one = np.asarray(vector, dtype=np.float64)
        length = float(np.linalg.norm(one))
        if len(one) < SIZE or not np.isfinite(length) or length == 0:
            continue
        with np.errstate(over="ignore"):
            stored.append(_cut(one.astype(np.float32)))
        unit.append(stored[-1] if abs(length - 1) < 1e-6 else _cut((one / length).astype(np.float32)))
    empty = np.empty((0, SIZE), np.float32)
    both = (np.concatenate(stored) if stored else empty, np.concatenate(unit) if unit else empty)
    ordered = np.sort(both[0], axis=1)
    distinct = 1 + np.count_nonzero(np.diff(ordered, axis=1), axis=1)
    usable = (distinct >= DISTINCT) & np.isfinite(both[0]).all(axis=1)
    return both[0][usable], both[1][usable]


def _cut(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    whole = len(vector) // SIZE * SIZE
    rows = [vector[:whole].reshape(-1, SIZE)]
    if whole < len(vector):
        rows.append(vector[None, -SIZE:])
    return np.concatenate(rows)


def _pieces(needles: Needles) -> list[bytes]:
    found: dict[bytes, None] = {}
    for code in needles.codes:
        for start in range(0, max(len(code) - BYTES, 0) + 1, BYTES):
            found[code[start : start + BYTES]] = None
    found |= dict.fromkeys(needles.contents)
    return [piece for piece in found if len(piece) >= SHORTEST and len(set(piece)) >= DISTINCT]


def ordered(values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Numbers whose differences are units in the last place."""
    bits = np.ascontiguousarray(values).view(np.int32).astype(np.int64)
    return np.where(bits >= 0, bits, -(bits & 0x7FFFFFFF))
