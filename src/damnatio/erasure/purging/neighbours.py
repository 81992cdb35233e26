"""Everybody else: the results of searches before the delete, kept on the disk, and compared after it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from damnatio.galleries.base import Store
from damnatio.galleries.items import Key, Vectors
from damnatio.galleries.searching import SearchesCompared, compared, searches_without
from damnatio.support.files import private, write_atomically

SEARCHES = 1_000


def keep_searches(store: Store, rows: Mapping[Key, Vectors], keys: Sequence[Key], path: Path) -> int:
    """Search with the vectors of rows that stay, and keep which rows were found. Returns how many searches."""
    used = {key: vector for key, vector in rows.items() if _searchable(store, key)}
    found = _searched(store, used, keys)
    with private():
        write_atomically(path, json.dumps([[list(key), [list(hit) for hit in found[key]]] for key in used]))
    return len(used)


def kept_searches(path: Path) -> dict[Key, list[Key]]:
    """The rows that were searched with, and what was found."""
    return {Key(*key): [Key(*hit) for hit in hits] for key, hits in json.loads(path.read_text())}


def compare_searches(
    store: Store, before: Mapping[Key, list[Key]], rows: Mapping[Key, Vectors], keys: Sequence[Key]
) -> SearchesCompared:
    """The same searches again."""
    after = _searched(store, rows, keys)
    return compared(list(before.values()), [after.get(key, []) for key in before])


def _searched(store: Store, rows: Mapping[Key, Vectors], keys: Sequence[Key]) -> dict[Key, list[Key]]:
    found: dict[Key, list[Key]] = {}
    for dim in {vector.shape[-1] for vector in rows.values()}:
        some = [key for key, vector in rows.items() if vector.shape[-1] == dim]
        queries = np.stack([rows[key] for key in some]).astype(np.float32)
        found |= dict(zip(some, searches_without(store, queries, keys), strict=True))
    return found


def _searchable(store: Store, key: Key) -> bool:
    return any(place.name == key.place and place.searched for place in store.places())
