"""A faiss index in memory: its rows, and the index without some of them.

| kind | ids | how rows go |
|---|---|---|
| Flat, SQ (so fp16), PQ | the position, unless an ID map holds others | `remove_ids`: what follows moves up |
| IVF of these | its own | `remove_ids` |
| HNSW of these; IVF in an ID map | the position, or the ID map's | faiss removes none: built anew from its vectors |
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from damnatio.galleries.base import BLOCK, need
from damnatio.galleries.items import Vectors
from damnatio.support.errors import DamnatioError

Ids = NDArray[np.int64]
FLAT = ("IndexFlat", "IndexFlatIP", "IndexFlatL2", "IndexScalarQuantizer", "IndexPQ")
IVF = ("IndexIVFFlat", "IndexIVFScalarQuantizer", "IndexIVFPQ")
HNSW = ("IndexHNSWFlat", "IndexHNSWSQ", "IndexHNSWPQ")
MAPS = ("IndexIDMap", "IndexIDMap2")


class Rows(NamedTuple):
    """Some rows: the place of each in the index, its id, and its vector."""

    places: Ids
    ids: Ids
    vectors: NDArray[np.float32]


class Found(NamedTuple):
    """The results of one search, best first."""

    places: Ids
    ids: Ids
    vectors: NDArray[np.float32]


class HeldIndex:
    """An index of a known kind. `what` names it in sentences."""

    def __init__(self, index: Any, what: str) -> None:
        self._faiss = need("faiss", "faiss")
        self._owner = index  # what follows points into it
        self.index = self._faiss.downcast_index(index)
        self._map = self.index if type(self.index).__name__ in MAPS else None
        self._inner = self._faiss.downcast_index(self._map.index) if self._map is not None else self.index
        kind = type(self._inner).__name__
        if kind not in (*FLAT, *IVF, *HNSW):
            raise DamnatioError(
                f"{what} holds a faiss index of the kind {kind}, of which single rows cannot be told apart: known are "
                f"{', '.join((*FLAT, *IVF, *HNSW))}, with ID maps or without."
            )
        self.kind = f"{type(self.index).__name__} of {kind}" if self._map is not None else kind
        self.is_ivf, self._is_hnsw = kind in IVF, kind in HNSW
        self.trained = kind not in ("IndexFlat", "IndexFlatIP", "IndexFlatL2", "IndexHNSWFlat")

    def __len__(self) -> int:
        return int(self.index.ntotal)

    @property
    def has_ids(self) -> bool:
        """Whether a row has an id that stays; else its id is its position."""
        return self._map is not None or self.is_ivf

    # --- reading -----------------------------------------------------------------------------------------------------

    def rows(self) -> Iterator[Rows]:
        """All rows, in blocks."""
        if self.is_ivf:
            yield from self._listed()
            return
        ids = self._mapped()
        for start in range(0, len(self), BLOCK):
            count = min(BLOCK, len(self) - start)
            places = np.arange(start, start + count)
            yield Rows(places, places if ids is None else ids[places], self._inner.reconstruct_n(start, count))

    def _listed(self) -> Iterator[Rows]:
        lists, mapped, before = self._inner.invlists, self._mapped(), 0
        flat = type(self._inner).__name__ == "IndexIVFFlat"
        for number in range(self._inner.nlist):
            size = lists.list_size(number)
            if not size:
                continue
            ids = self._faiss.rev_swig_ptr(lists.get_ids(number), size).copy()
            for start in range(0, size, BLOCK):
                count = min(BLOCK, size - start)
                vectors = np.empty((count, self._inner.d), np.float32)
                if flat:
                    code = self._inner.code_size
                    codes = self._faiss.rev_swig_ptr(lists.get_codes(number), size * code).reshape(size, code)
                    vectors[:] = np.ascontiguousarray(codes[start : start + count]).view(np.float32)
                else:
                    for row in range(count):
                        self._inner.reconstruct_from_offset(number, start + row, self._faiss.swig_ptr(vectors[row]))
                some = ids[start : start + count]
                places = np.arange(before + start, before + start + count)
                yield Rows(places, some if mapped is None else mapped[some], vectors)
            before += size

    def _mapped(self) -> Ids | None:
        if self._map is None:
            return None
        return np.array(self._faiss.vector_to_array(self._map.id_map), dtype=np.int64)

    def search(self, queries: Vectors, k: int) -> list[Found]:
        """By the index itself, as it is set."""
        wanted = np.ascontiguousarray(queries, dtype=np.float32)
        count = min(k, len(self))
        if not count:
            return [Found(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, self.index.d), np.float32))] * len(
                wanted
            )
        _, places, vectors = self._inner.search_and_reconstruct(wanted, count)
        mapped, found = self._mapped(), []
        for row in range(len(wanted)):
            real = places[row] >= 0
            at = places[row][real]
            found.append(Found(at, at if mapped is None else mapped[at], vectors[row][real]))
        return found

    def codes(self, vectors: Vectors) -> list[bytes]:
        """How the index spells vectors, where it keeps no floats."""
        if not self.trained or type(self._inner).__name__ == "IndexIVFFlat":
            return []
        coder = self._faiss.downcast_index(self._inner.storage) if self._is_hnsw else self._inner
        codes = coder.sa_encode(np.ascontiguousarray(vectors, dtype=np.float32))
        skipped = self._inner.coarse_code_size() if self.is_ivf else 0
        return [code[skipped:].tobytes() for code in codes]

    # --- changing ----------------------------------------------------------------------------------------------------

    def remove(self, places: Sequence[int], ids: Sequence[int]) -> None:
        """Take rows out: `places` and `ids` name the same ones."""
        if self._is_hnsw or (self._map is not None and self.is_ivf):
            self._build_without(set(places))
            return
        chosen = np.unique(np.asarray(ids if self.has_ids else places, dtype=np.int64))
        self.index.remove_ids(self._faiss.IDSelectorBatch(chosen))

    def _build_without(self, gone: set[int]) -> None:
        kept = [(rows.ids[stay], rows.vectors[stay]) for rows in self.rows() for stay in [_outside(rows.places, gone)]]
        self.index.reset()
        for ids, vectors in kept:
            if self._map is not None:
                self.index.add_with_ids(np.ascontiguousarray(vectors), np.ascontiguousarray(ids))
            else:
                self.index.add(np.ascontiguousarray(vectors))

    def add(self, vectors: Vectors) -> Ids:
        """Enrol vectors; returns their ids."""
        more = np.ascontiguousarray(vectors, dtype=np.float32)
        if not self.has_ids:
            first = len(self)
            self.index.add(more)
            return np.arange(first, first + len(more))
        highest = max((int(rows.ids.max()) for rows in self.rows()), default=-1)
        ids = np.arange(highest + 1, highest + 1 + len(more), dtype=np.int64)
        self.index.add_with_ids(more, ids)
        return ids


def _outside(places: Ids, gone: set[int]) -> NDArray[np.bool_]:
    return np.array([place not in gone for place in places.tolist()], dtype=bool)
