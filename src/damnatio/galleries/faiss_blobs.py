"""The faiss index that deepface keeps in a database: it only ever grows, so it is built anew without the person."""

from collections.abc import Set as AbstractSet

from damnatio.galleries.base import need
from damnatio.galleries.faiss_indexes import read


def ids_in(content: bytes, where: str) -> set[int]:
    """The ids of the rows in an index."""
    return {id for rows in read(content, f"The index {where}").rows() for id in rows.ids.tolist()}


def only(content: bytes, ids: AbstractSet[int], where: str) -> bytes:
    """The same index with these ids only: same kind, same settings, the same vectors."""
    held = read(content, f"The index {where}")
    rows = [(place, id) for some in held.rows() for place, id in zip(*some[:2], strict=True) if int(id) not in ids]
    held.remove([int(place) for place, _ in rows], [int(id) for _, id in rows])
    return bytes(need("faiss", "faiss").serialize_index(held.index).tobytes())
