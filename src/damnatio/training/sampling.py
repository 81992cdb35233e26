"""The images of each step: a pure function of (seed, step), so that a run resumes exactly where it stopped."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from damnatio.data import IdentityBalanced
from damnatio.methods.base import ForgetSet
from damnatio.models.inputs import Inputs, Rows
from damnatio.support import processes
from damnatio.support.errors import DamnatioError

_ORDER, _FLIP = 4, 6  # different streams of random numbers from one seed


class RetainSampler:
    """All retain images in a new order each epoch, divided into batches; a last short batch is left out."""

    def __init__(self, rows: Rows, labels: NDArray[np.int64], batch: int, seed: int) -> None:
        if len(rows) < batch:
            raise DamnatioError(
                f"There are {len(rows)} retain images, fewer than one batch of {batch}: set a smaller batch."
            )
        self.rows, self.labels, self.batch, self.seed = rows, labels, batch, seed
        self.steps_per_epoch = len(rows) // batch
        self._epoch, self._order = -1, np.arange(0)

    def __call__(self, step: int) -> tuple[Rows, NDArray[np.int64]]:
        """The rows and the labels of a step."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = np.random.default_rng([self.seed, _ORDER, epoch]).permutation(len(self.rows))
            self._epoch = epoch
        chosen = self._order[place * self.batch : (place + 1) * self.batch]
        return self.rows[chosen], self.labels[chosen]


class ForgetSampler:
    """The batches of `IdentityBalanced`, as rows of the table of faces."""

    def __init__(self, forget: ForgetSet, identities: int, images: int, seed: int) -> None:
        self._forget = forget
        self._drawn = IdentityBalanced(forget.identities, people=identities, images=images, seed=seed)

    def __call__(self, step: int) -> tuple[Rows, NDArray[np.int64]]:
        """The rows and the identity codes of a step."""
        places = self._drawn.batch(step)
        return self._forget.images[places], self._forget.identities[places]


@dataclass(frozen=True)
class Batch:
    """The images of a step: the retain images first, then the forget images. The inputs are those of the share of this
    process; everything else is that of the whole batch."""

    inputs: Tensor
    places: Tensor
    """of the inputs in the whole batch"""
    labels: Tensor
    forget_rows: Tensor
    forget_identities: Tensor

    def __len__(self) -> int:
        return len(self.labels) + len(self.forget_rows)

    def pin_memory(self) -> "Batch":
        """The batch in memory from which a GPU copies without waiting; a loader asks for it."""
        return replace(self, inputs=self.inputs.pin_memory())


class Batches(Dataset[Batch]):
    """The batch of each step. A loader may read ahead with any number of workers; the batches stay the same. Only the
    images of the process's own share are read."""

    def __init__(
        self, inputs: Inputs, retain: RetainSampler, forget: ForgetSampler | None, flip: bool, seed: int
    ) -> None:
        self._inputs, self._retain, self._forget, self._flip, self._seed = inputs, retain, forget, flip, seed
        self._place = processes.rank(), processes.size()  # a worker of a loader is in no group
        if retain.batch < processes.size():
            raise DamnatioError(
                f"A batch of {retain.batch} retain images cannot be shared by {processes.size()} processes: start "
                "fewer, or set a larger batch."
            )

    def __getitem__(self, step: int) -> Batch:
        rows, labels = self._retain(step)
        forget_rows, forget_identities = self._forget(step) if self._forget else (rows[:0], rows[:0])
        everyone = np.concatenate([rows, forget_rows])
        flips = np.random.default_rng([self._seed, _FLIP, step])
        mirrored = flips.random(len(everyone)) < 0.5 if self._flip else None
        mine = self.places(len(rows), len(forget_rows), self._place)
        return Batch(
            inputs=torch.from_numpy(self._inputs.read(everyone[mine], None if mirrored is None else mirrored[mine])),
            places=torch.from_numpy(mine),
            labels=torch.from_numpy(labels),
            forget_rows=torch.from_numpy(forget_rows),
            forget_identities=torch.from_numpy(forget_identities),
        )

    @staticmethod
    def places(retained: int, forgotten: int, place: tuple[int, int]) -> Rows:
        """The places in the whole batch that a process has: its share of the retain images and of the forget images."""
        first, second = processes.share_of(retained, place), processes.share_of(forgotten, place)
        return np.concatenate([np.arange(retained)[first], retained + np.arange(forgotten)[second]])
