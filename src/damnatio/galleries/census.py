"""Counts and hashes of all rows of a store, in one pass of bounded memory: 32 bytes per row."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from damnatio.galleries.items import Block, Census, Key, Place
from damnatio.galleries.walking import walk

if TYPE_CHECKING:
    from damnatio.galleries.base import Store

WIDTH = hashlib.sha256().digest_size


def census(store: "Store", keys: Iterable[Key]) -> Census:
    """See `Store.census`."""
    counted = Counted(keys)
    walk(store, counted)
    return counted.censuses()[0]


class Counted:
    """Censuses in a walk, one for each set of keys. Each row is hashed once."""

    def __init__(self, *sets: Iterable[Key]) -> None:
        self._sets = [set(keys) for keys in sets]
        self._rows = dict[str, int]()
        self._matched, self._others = ([bytearray() for _ in sets] for _ in range(2))

    def see(self, place: Place, block: Block) -> None:
        self._rows[place.name] = self._rows.get(place.name, 0) + len(block.ids)
        for id, digest in zip(block.ids, row_digests(place.name, block), strict=True):
            key = Key(place.name, id)
            for keys, matched, others in zip(self._sets, self._matched, self._others, strict=True):
                (matched if key in keys else others).extend(digest)

    def censuses(self) -> list[Census]:
        return [
            Census(rows=self._rows, matched=_joined(mine), matched_rows=len(mine) // WIDTH, others=_joined(rest))
            for mine, rest in zip(self._matched, self._others, strict=True)
        ]


def row_digests(place: str, block: Block) -> Iterator[bytes]:
    """The hash of each row: its place, id, name, vector and other content, after their lengths."""
    vectors = None if block.vectors is None else np.ascontiguousarray(block.vectors)
    kind = b"" if vectors is None else vectors.dtype.str.encode()
    for row, (id, name) in enumerate(zip(block.ids, block.names, strict=True)):
        texts = [text.encode("utf-8", "surrogatepass") for text in (place, id, name)]
        vector = b"" if vectors is None else vectors[row].tobytes()
        parts = (*texts, kind, vector, block.contents[row] if block.contents else b"")
        lengths = b"".join(len(part).to_bytes(8, "little") for part in parts)
        yield hashlib.sha256(lengths + b"".join(parts)).digest()


def _joined(digests: bytearray) -> str:
    """One hash of a set of hashes, whatever their order."""
    words = np.frombuffer(digests, dtype=">u8") if digests else np.zeros(0, dtype=">u8")
    rows = words.reshape(-1, WIDTH // 8)
    return hashlib.sha256(rows[np.lexsort(rows.T[::-1])].tobytes()).hexdigest()
