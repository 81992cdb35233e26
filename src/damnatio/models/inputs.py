"""The inputs of a network, by row of the table of faces: pixels, or the kept activations of a trunk."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.models.card import Card
from damnatio.support import processes
from damnatio.support.progress import progress

AHEAD = 3
"""batches that are read before they are needed: 58 MB at 512 images of 112 x 112"""
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
    backbone: nn.Module, inputs: Inputs, *, dim: int, rows: Rows, batch: int, title: str = "", raw: bool = False
) -> NDArray[np.float32]:
    """f(x) of the inputs at these rows, N x dim unit vectors unless they are wanted `raw`. The network stays in the
    mode that it was in."""
    device = next(backbone.parameters()).device
    training = backbone.training
    backbone.eval()
    found = np.empty((len(rows), dim), dtype=np.float32)
    blocks = [rows[start : start + batch] for start in range(0, len(rows), batch)]
    with torch.inference_mode(), progress(title, len(rows) if title else 0, "images") as advance:
        for number, entries in enumerate(_read_ahead(inputs, blocks, device)):
            some = backbone(inputs.prepare(entries, device)).float()
            some = some if raw else F.normalize(some, dim=1)
            found[number * batch : number * batch + len(entries)] = some.cpu().numpy()
            advance(len(entries))
    backbone.train(training)
    return found


def embed_together(
    backbone: nn.Module, inputs: Inputs, *, dim: int, rows: Rows, batch: int, title: str = "", raw: bool = False
) -> NDArray[np.float32]:
    """The same by all processes, each a share of the batches; all have all vectors in the end. One process makes the
    same batches of the rows, so that it finds the same vectors to the last bit."""
    share = processes.share_of(-(-len(rows) // batch))
    mine = rows[share.start * batch : share.stop * batch]
    found: NDArray[np.float32] = processes.joined(
        embed_inputs(backbone, inputs, dim=dim, rows=mine, batch=batch, title=title, raw=raw)
    ).astype(np.float32, copy=False)
    return found


def _read_ahead(inputs: Inputs, blocks: Sequence[Rows], device: torch.device) -> Iterator[NDArray[Any]]:
    """The entries of each block. A thread reads the next `AHEAD` blocks while the network computes."""

    def read(block: Rows) -> NDArray[Any]:
        entries = inputs.read(block)
        if device.type == "cuda":  # page-locked, so that the GPU fetches them while it computes
            entries = torch.from_numpy(entries).pin_memory().numpy()
        return entries

    with ThreadPoolExecutor(1, "read-ahead") as reader:
        waiting: deque[Future[NDArray[Any]]] = deque()
        try:
            for block in blocks:
                waiting.append(reader.submit(read, block))
                if len(waiting) > AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
