"""Vectors of chosen rows and of a sample of everybody else, as they are met in a walk."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from damnatio.galleries.items import Block, Key, Place, Vectors
from damnatio.galleries.walking import walk

if TYPE_CHECKING:
    from damnatio.galleries.base import Store


class Picked:
    """The vectors of these rows, as they are stored. A row without a vector, or that is gone, is left out."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._wanted = set(keys)
        self.vectors: dict[Key, Vectors] = {}

    def see(self, place: Place, block: Block) -> None:
        if block.vectors is None:
            return
        for row, id in enumerate(block.ids):
            if (key := Key(place.name, id)) in self._wanted:
                self.vectors[key] = np.array(block.vectors[row])


class Tallied:
    """How many rows each of these keys names. An id that somebody gave to several rows names all of them."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self.rows = dict.fromkeys(keys, 0)

    def see(self, place: Place, block: Block) -> None:
        for id in block.ids:
            if (key := Key(place.name, id)) in self.rows:
                self.rows[key] += 1


class Sampled:
    """Vectors of `count` other rows, each as likely as the next; all of them where there are fewer."""

    def __init__(self, without: Iterable[Key], count: int, seed: int = 0) -> None:
        self._left_out, self._count, self._random = set(without), count, np.random.default_rng(seed)
        self._kept: list[tuple[float, Key, Vectors]] = []
        self._worst = np.inf

    def see(self, place: Place, block: Block) -> None:
        if block.vectors is None:
            return
        draws = self._random.random(len(block.ids))
        for row in np.flatnonzero(draws < self._worst).tolist():
            if (key := Key(place.name, block.ids[row])) not in self._left_out:
                self._kept.append((float(draws[row]), key, np.array(block.vectors[row])))
        if len(self._kept) > 2 * self._count:
            self._kept = sorted(self._kept, key=lambda entry: entry[0])[: self._count]
            self._worst = self._kept[-1][0] if self._count else 0.0

    @property
    def vectors(self) -> dict[Key, Vectors]:
        """In a random order: the first of them are a sample as well."""
        return {key: vector for _, key, vector in sorted(self._kept, key=lambda entry: entry[0])[: self._count]}


def vectors_of(store: "Store", keys: Iterable[Key]) -> dict[Key, Vectors]:
    picked = Picked(keys)
    walk(store, picked)
    return picked.vectors


def sample(store: "Store", without: Iterable[Key], count: int, seed: int = 0) -> dict[Key, Vectors]:
    sampled = Sampled(without, count, seed)
    walk(store, sampled)
    return sampled.vectors
