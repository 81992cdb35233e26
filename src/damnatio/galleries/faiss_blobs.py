"""The faiss index that deepface keeps in a database: it only ever grows, so it is built anew without the person."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from damnatio.galleries.base import need
from damnatio.galleries.items import Vectors
from damnatio.support.errors import DamnatioError


def ids_in(content: bytes, where: str) -> set[int]:
    """The ids of the rows in an index."""
    return set(_read(content, where)[1].tolist())


def only(content: bytes, ids: Iterable[int], where: str) -> bytes:
    """The same index with these ids only: same kind, same settings, the same vectors."""
    faiss = need("faiss", "faiss")
    index, held, _owner = _read(content, where)
    kept = np.isin(held, np.fromiter(ids, dtype=np.int64))
    inner = faiss.downcast_index(index.index)
    fresh = faiss.IndexIDMap(_empty(faiss, inner, where))
    if kept.any():
        vectors: Vectors = inner.reconstruct_n(0, inner.ntotal)
        fresh.add_with_ids(np.ascontiguousarray(vectors[kept]), held[kept])
    return bytes(faiss.serialize_index(fresh).tobytes())


def _empty(faiss: Any, inner: Any, where: str) -> Any:
    if isinstance(inner, faiss.IndexHNSWFlat):
        new = faiss.IndexHNSWFlat(inner.d, inner.hnsw.nb_neighbors(1), inner.metric_type)
        new.hnsw.efConstruction, new.hnsw.efSearch = inner.hnsw.efConstruction, inner.hnsw.efSearch
        return new
    if isinstance(inner, faiss.IndexFlat):
        return faiss.IndexFlat(inner.d, inner.metric_type)
    raise DamnatioError(f"The index {where} is of a kind that cannot be built anew ({type(inner).__name__}).")


def _read(content: bytes, where: str) -> tuple[Any, Any, Any]:
    """The index as what it is, its ids, and the object that must live as long as it does."""
    faiss = need("faiss", "faiss")
    try:
        owner = faiss.deserialize_index(np.frombuffer(content, np.uint8))
        index = faiss.downcast_index(owner)
        return index, faiss.vector_to_array(index.id_map), owner
    except (RuntimeError, AttributeError) as error:
        said = " ".join(str(error).split())[:120]
        raise DamnatioError(f"The index {where} is no faiss index with ids ({said}).") from error
