"""The inputs of a network, by row of the table of faces: pixels, or the kept activations of a trunk."""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.models.card import Card
from damnatio.support.progress import progress

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Readable(Protocol):
    """Anything that reads images by row, such as the faces of a run."""

    def read(self, rows: Rows) -> NDArray[np.uint8]: ...


class Inputs(Protocol):
    """`read` runs in any process and gives arrays, which a queue can carry; `prepare` gives what the network takes."""

    def read(self, rows: Rows, mirrored: Mask | None = None) -> NDArray[Any]:
        """One entry per row; that of the mirror image where `mirrored` is true."""

    def prepare(self, entries: NDArray[Any], device: torch.device) -> Tensor: ...


class Pixels:
    """The images themselves, fed as the card says."""

    def __init__(self, faces: Readable, card: Card) -> None:
        self._faces, self._card = faces, card

    def read(self, rows: Rows, mirrored: Mask | None = None) -> NDArray[np.uint8]:
        images = self._faces.read(rows)
        if mirrored is not None:
            images[mirrored] = images[mirrored, :, ::-1]
        return images

    def prepare(self, entries: NDArray[np.uint8], device: torch.device) -> Tensor:
        return self._card.prepare(entries, device)


def embed_inputs(
    backbone: nn.Module, inputs: Inputs, *, dim: int, rows: Rows, batch: int, title: str = ""
) -> NDArray[np.float32]:
    """f(x) of the inputs at these rows, N x dim unit vectors. The network stays in the mode that it was in."""
    device = next(backbone.parameters()).device
    training = backbone.training
    backbone.eval()
    units = np.empty((len(rows), dim), dtype=np.float32)
    with torch.inference_mode(), progress(title, len(rows) if title else 0, "images") as advance:
        for start in range(0, len(rows), batch):
            block = rows[start : start + batch]
            raw = backbone(inputs.prepare(inputs.read(block), device)).float()
            units[start : start + len(block)] = F.normalize(raw, dim=1).cpu().numpy()
            advance(len(block))
    backbone.train(training)
    return units
