"""Vectors of chosen rows and of a sample of everybody else, in one pass each."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from damnatio.galleries.items import Key, Vectors

if TYPE_CHECKING:
    from damnatio.galleries.base import Store


def vectors_of(store: "Store", keys: Iterable[Key]) -> dict[Key, Vectors]:
    """The vectors of these rows, as they are stored. A row without a vector, or that is gone, is left out."""
    wanted, found = set(keys), dict[Key, Vectors]()
    for place in store.places():
        for block in store.blocks(place.name):
            if block.vectors is None:
                continue
            for row, id in enumerate(block.ids):
                if (key := Key(place.name, id)) in wanted:
                    found[key] = np.array(block.vectors[row])
    return found


def sample(store: "Store", without: Iterable[Key], count: int, seed: int = 0) -> dict[Key, Vectors]:
    """Vectors of `count` other rows, each as likely as the next; all of them where there are fewer."""
    left_out, random = set(without), np.random.default_rng(seed)
    kept: list[tuple[float, Key, Vectors]] = []
    worst = np.inf
    for place in store.places():
        for block in store.blocks(place.name):
            if block.vectors is None:
                continue
            draws = random.random(len(block.ids))
            for row in np.flatnonzero(draws < worst).tolist():
                if (key := Key(place.name, block.ids[row])) not in left_out:
                    kept.append((float(draws[row]), key, np.array(block.vectors[row])))
            if len(kept) > 2 * count:
                kept = sorted(kept, key=lambda entry: entry[0])[:count]
                worst = kept[-1][0] if count else 0.0
    return {key: vector for _, key, vector in sorted(kept, key=lambda entry: entry[0])[:count]}
