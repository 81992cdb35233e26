"""The index of a collection of Chroma: four files of hnswlib.

Each slot of data_level0.bin holds the links of an element, its vector and its label; where the distance is the cosine,
the vector is of length 1, and length.bin holds its length. A deleted element keeps its slot, because searches pass
through it. Its vector is replaced by the mean of the living vectors that it is linked to, so that they still do, and no
byte of it is left. Room that is not used yet is set to zero: it holds what was in the memory of Chroma.
"""

import os
import struct
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from damnatio.support.errors import DamnatioError

LAYOUT = struct.Struct("<i6Q")
"""version, offset of the first slot, slots, elements, bytes per slot, offset of the label, offset of the vector"""
VERSION = 1
ENOUGH = 3
"""living neighbours whose mean is nobody's vector"""
SAMPLE = 256
SLOTS = 4096
"""slots that are looked at together"""


@dataclass(frozen=True)
class Layout:
    elements: int
    slot: int
    label: int
    vector: int

    @property
    def width(self) -> int:
        return (self.label - self.vector) // 4


def elements(folder: Path) -> int:
    """How many elements the index holds, deleted ones included."""
    header = folder / "header.bin"
    return _layout(folder).elements if header.is_file() and header.stat().st_size else 0


def overwrite_dead(folder: Path, living: set[bytes], expected: int) -> int:
    """Overwrite each vector whose hash is not in `living`. At least `expected` rows live in these files and nowhere
    else: if fewer are found, the files are not what they are taken for, and nothing is written. Chroma must not have
    them open. Returns the number of overwritten vectors."""
    count = elements(folder)
    if not count:
        if expected:
            raise _odd(folder)
        clear_unused(folder)
        return 0
    layout = _layout(folder)
    path, others = folder / "data_level0.bin", folder / "length.bin"
    if path.stat().st_size < count * layout.slot or others.stat().st_size < 4 * count:
        raise _odd(folder)
    slots = np.memmap(path, np.uint8, "r+", shape=(count, layout.slot))
    lengths = np.memmap(others, "<f4", "r+", shape=(count,))
    stored, shown = _matches(slots, lengths, layout, living)
    dead = ~(stored | shown)
    if np.count_nonzero(~dead) < expected:
        raise _odd(folder)
    _replace(slots, layout, dead)
    # Where the distance is not the cosine, the lengths are memory that Chroma never set: it may hold anybody.
    lengths[dead if shown[~dead].all() else slice(None)] = 1
    slots.flush()
    lengths.flush()
    clear_unused(folder)
    return int(np.count_nonzero(dead))


def _matches(
    slots: NDArray[Any], lengths: NDArray[Any], layout: Layout, living: set[bytes]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which slots hold a living vector as it is, and which do when it gets its length back."""
    stored, shown = np.zeros(len(slots), bool), np.zeros(len(slots), bool)
    for first in range(0, len(slots), SLOTS):
        which = np.arange(first, min(first + SLOTS, len(slots)))
        vectors = _vectors(slots, layout, which)
        with np.errstate(all="ignore"):
            longer = vectors * lengths[which, None]
        stored[which] = [sha256(row.tobytes()).digest() in living for row in vectors]
        shown[which] = [sha256(row.tobytes()).digest() in living for row in longer]
    return stored, shown


def _replace(slots: NDArray[Any], layout: Layout, dead: NDArray[np.bool_]) -> None:
    alive = np.flatnonzero(~dead)
    some = _vectors(slots, layout, alive[:: max(1, len(alive) // SAMPLE)])
    for slot in np.flatnonzero(dead).tolist():
        links = _links(slots[slot, : layout.vector], len(slots))
        near = links[~dead[links]]
        means_of = _vectors(slots, layout, near) if len(near) >= ENOUGH else some
        slots[slot, layout.vector : layout.label] = _mean(means_of, layout.width).view(np.uint8)


def clear_unused(folder: Path) -> None:
    """Set the room that no element has to zero."""
    count = elements(folder)
    _clear(folder / "data_level0.bin", count * _layout(folder).slot if count else 0)
    _clear(folder / "length.bin", 4 * count)


def _clear(path: Path, begin: int) -> None:
    if path.is_file() and (size := path.stat().st_size) > begin:
        with path.open("r+b") as file:
            file.seek(begin)
            file.write(bytes(size - begin))
            file.flush()
            os.fsync(file.fileno())


def _layout(folder: Path) -> Layout:
    with (folder / "header.bin").open("rb") as file:
        head = file.read(LAYOUT.size)
    if len(head) < LAYOUT.size:
        raise _odd(folder)
    version, first, _, count, slot, label, vector = LAYOUT.unpack(head)
    if version != VERSION or first != 0 or not 4 <= vector < label <= slot - 8 or (label - vector) % 4:
        raise _odd(folder)
    return Layout(count, slot, label, vector)


def _links(head: NDArray[np.uint8], count: int) -> NDArray[np.int64]:
    """The slots that an element is linked to; the first two bytes say how many."""
    number = int(head[:2].copy().view("<u2")[0])
    found = head[4 : 4 + 4 * number].copy().view("<u4").astype(np.int64)
    return found[found < count]


def _vectors(slots: NDArray[Any], layout: Layout, which: NDArray[np.int64]) -> NDArray[np.float32]:
    raw = np.ascontiguousarray(slots[which, layout.vector : layout.label])
    return raw.view("<f4").reshape(len(which), layout.width)


def _mean(vectors: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """The mean direction, as long as the vectors are."""
    if not len(vectors):
        return np.zeros(width, np.float32)
    mean = vectors.mean(axis=0)
    length = np.linalg.norm(mean)
    return np.asarray(mean * (np.linalg.norm(vectors, axis=1).mean() / length if length else 1), dtype="<f4")


def _odd(folder: Path) -> DamnatioError:
    return DamnatioError(
        f"The index {folder} does not hold what Chroma shows, or is of a layout that is not known: nothing was "
        "overwritten in it."
    )
