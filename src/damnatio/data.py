"""What a training loop of one's own needs around a forget loss: images that know their places, and batches of pairs."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from damnatio.support.errors import DamnatioError
from damnatio.support.tables import groups_of

_FORGET = 5  # a stream of random numbers of its own


class Sized(Protocol):
    """A dataset with places, as torch's are."""

    def __len__(self) -> int: ...
    def __getitem__(self, place: int) -> Any: ...


class Numbered:
    """A dataset whose entries end with their own place, 0 to n - 1: the `images` that a loss with a tensor per image
    needs. An entry (image, identity) becomes (image, identity, place).

    >>> Numbered([("a.png", 7), ("b.png", 7)])[1]
    ('b.png', 7, 1)
    """

    def __init__(self, dataset: Sized) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, place: int) -> tuple[Any, ...]:
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        entry = self.dataset[place]
        return (*(entry if isinstance(entry, tuple | list) else (entry,)), int(place) % len(self))


class IdentityBalanced:
    """Batches of places for `DataLoader(batch_sampler=...)`: in each, `people` identities, and `images` distinct images
    of each of them. An identity with a single image has no pair to forget and is never drawn; an identity with fewer
    images gives all of them, so that batches differ in length.

    A batch is a function of (seed, epoch, its number): `set_epoch` chooses the epoch, as of torch's DistributedSampler,
    and otherwise each new pass over the batches is the next epoch.

    >>> len(IdentityBalanced([3, 3, 3, 9, 9], people=2, images=2, batches=10).batch(0))
    4
    """

    def __init__(self, identities: ArrayLike, *, people: int, images: int, batches: int = 0, seed: int = 0) -> None:
        _, codes = np.unique(np.asarray(identities), return_inverse=True)
        self._groups = [group for group in groups_of(codes) if len(group) > 1]
        if not self._groups:
            raise DamnatioError(
                "No identity to forget has two images of different capture instances: there is no pair to forget. Add "
                "images of the people to forget."
            )
        if people < 1 or images < 2:
            raise DamnatioError(f"A batch needs at least one person and two images of each, not {people} and {images}.")
        self.people, self.images, self.batches, self.seed = people, images, batches, seed
        self._next = 0

    def __len__(self) -> int:
        return self.batches

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next pass."""
        self._next = epoch

    def __iter__(self) -> Iterator[list[int]]:
        first = self._next * self.batches
        self._next += 1
        return (self.batch(first + number).tolist() for number in range(self.batches))

    def batch(self, step: int) -> NDArray[np.int64]:
        """The places of a step, counted from the first step of the training."""
        rng = np.random.default_rng([self.seed, _FORGET, step])
        drawn = rng.choice(len(self._groups), min(self.people, len(self._groups)), replace=False)
        return np.concatenate([rng.permutation(self._groups[i])[: self.images] for i in drawn])
