"""A faiss index in memory: its rows, and the index without some of them.

| kind | ids | how rows go |
|---|---|---|
| Flat, SQ (so fp16), PQ | the position, unless an ID map holds others | `remove_ids`: what follows moves up |
| IVF of these | its own | `remove_ids` |
| HNSW of these; IVF in an ID map | the position, or the ID map's | faiss removes none: built anew from its vectors |
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
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
LISTS = 1 << 22
"""lists that an IVF may have, however small its file is: of empty ones faiss stores nothing"""
INNER, CODERS = ("index", "quantizer", "storage"), ("pq", "sq")
"""what an index may be built of, by the names of faiss: other indexes, and coders of vectors"""


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


@contextmanager
def readable(what: str) -> Iterator[None]:
    """What a damaged index makes faiss throw, when it is read or later, becomes a sentence."""
    try:
        yield
    except (RuntimeError, MemoryError, IndexError) as error:
        version = need("faiss", "faiss").__version__
        said = re.sub(r".*\.(cpp|h):\d+: (Error: )?", "", " ".join(str(error).split()))[-160:]
        raise DamnatioError(
            f"{what} cannot be read by faiss {version}: it is damaged, or of a newer version ({said})."
        ) from error


@contextmanager
def _bounded(size: int) -> Iterator[None]:
    """faiss allocates what a file says: an array longer than the whole file, or more lists than it could hold, is a
    damaged number. Older versions of faiss have no such bounds."""
    faiss = need("faiss", "faiss")
    bounds = {"vector_byte": size, "loop": max(size, LISTS)}
    known = [name for name in bounds if hasattr(faiss, f"set_deserialization_{name}_limit")]
    before = {name: getattr(faiss, f"get_deserialization_{name}_limit")() for name in known}
    for name in known:
        getattr(faiss, f"set_deserialization_{name}_limit")(bounds[name])
    try:
        yield
    finally:
        for name in known:
            getattr(faiss, f"set_deserialization_{name}_limit")(before[name])


def read(source: Path | bytes, what: str) -> "HeldIndex":
    """The index in a file, or in the bytes of one."""
    faiss = need("faiss", "faiss")
    with readable(what), _bounded(source.stat().st_size if isinstance(source, Path) else len(source)):
        if isinstance(source, Path):
            return HeldIndex(faiss.read_index(str(source)), what)
        return HeldIndex(faiss.deserialize_index(np.frombuffer(source, np.uint8)), what)


class HeldIndex:
    """An index of a known kind. `what` names it in sentences."""

    def __init__(self, index: Any, what: str) -> None:
        self._faiss, self._what = need("faiss", "faiss"), what
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
        if not (self.index.d > 0 and self._fits(self.index)):
            raise DamnatioError(f"{what} is damaged: its parts are of different sizes.")
        self.kind = f"{type(self.index).__name__} of {kind}" if self._map is not None else kind
        self.is_ivf, self._is_hnsw = kind in IVF, kind in HNSW
        self.trained = kind not in ("IndexFlat", "IndexFlatIP", "IndexFlatL2", "IndexHNSWFlat")

    def _fits(self, index: Any) -> bool:
        """Whether the parts of an index agree on sizes: faiss reads and writes past the end of memory where not."""
        parts = {name: getattr(index, name) for name in (*INNER, *CODERS) if hasattr(index, name)}
        inner = {name: self._faiss.downcast_index(part) for name, part in parts.items() if name in INNER}
        return (
            all(part.d == index.d for part in parts.values())
            and all(part.ntotal == index.ntotal for name, part in inner.items() if name != "quantizer")
            and all(parts[name].code_size == index.code_size for name in CODERS if name in parts)
            and (not hasattr(index, "invlists") or index.invlists.code_size == index.code_size)
            and all(self._fits(part) for part in inner.values())
        )

    def __len__(self) -> int:
        return int(self.index.ntotal)

    @property
    def has_ids(self) -> bool:
        """Whether a row has an id that stays; else its id is its position."""
        return self._map is not None or self.is_ivf

    # --- reading -----------------------------------------------------------------------------------------------------

    def rows(self) -> Iterator[Rows]:
        """All rows, in blocks."""
        with readable(self._what):
            yield from self._listed() if self.is_ivf else self._placed()

    def _placed(self) -> Iterator[Rows]:
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
        """By the index itself, as it is set. Queries of another length find nothing."""
        wanted = np.ascontiguousarray(queries, dtype=np.float32)
        count, width = min(k, len(self)), wanted.shape[1]
        if not count or width != self.index.d:
            nothing = Found(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, width), np.float32))
            return [nothing] * len(wanted)
        mapped, found = self._mapped(), []
        with readable(self._what):
            _, places, vectors = self._inner.search_and_reconstruct(wanted, count)
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
        with readable(self._what):
            codes = coder.sa_encode(np.ascontiguousarray(vectors, dtype=np.float32))
        skipped = self._inner.coarse_code_size() if self.is_ivf else 0
        return [code[skipped:].tobytes() for code in codes]

    # --- changing ----------------------------------------------------------------------------------------------------

    def remove(self, places: Sequence[int], ids: Sequence[int]) -> None:
        """Take rows out: `places` and `ids` name the same ones."""
        with readable(self._what):
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
