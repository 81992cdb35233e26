"""What a network is fed, by row of the table of faces: pixels, or the activations of a trunk that were kept."""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from damnatio.faces.base import Faces, Images
from damnatio.models import Card

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Inputs(Protocol):
    """Reading happens in any process and gives what a queue can carry; preparing gives what the network takes."""

    def read(self, rows: Rows, mirrored: Mask | None = None) -> NDArray[Any]:
        """One entry a row, those of `mirrored` of the image seen in a mirror."""

    def prepare(self, entries: NDArray[Any], device: torch.device) -> Tensor: ...


class Pixels:
    """The images themselves, fed as the card says."""

    def __init__(self, faces: Faces, card: Card) -> None:
        self._faces, self._card = faces, card

    def read(self, rows: Rows, mirrored: Mask | None = None) -> Images:
        images = self._faces.read(rows)
        if mirrored is not None:
            images[mirrored] = images[mirrored, :, ::-1]
        return images

    def prepare(self, entries: Images, device: torch.device) -> Tensor:
        return self._card.prepare(entries, device)
