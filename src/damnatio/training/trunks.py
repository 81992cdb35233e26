"""Between stages 4 and 5: the trunk of f*, which no method changes, is run once over every image that training reads.

    f(x) = tail(trunk(x)),    trunk: the layers up to a cut point, frozen and in evaluation mode

The trunk gives an image the same activations at every step. So the activations of the image and of its mirror image are
kept on disk in half precision. The training loop reads them instead of pixels, and trains the tail.
"""

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.lib.format import write_array_header_1_0
from numpy.typing import NDArray
from torch import Tensor, nn

from damnatio.models.inputs import Inputs, Mask, Rows
from damnatio.support.errors import DamnatioError
from damnatio.support.manifests import checked
from damnatio.support.progress import progress

ACTIVATIONS, ROWS = "activations.npy", "rows.npy"


def keep_activations(
    trunk: nn.Module, images: Inputs, rows: Rows, batch: int, folder: Path, say: Callable[[str], None]
) -> None:
    """Write the activations of the images at these rows, and of their mirror images, to `folder`."""
    rows = np.sort(rows)
    device = next(trunk.parameters()).device
    trunk.eval()

    def run(block: Rows, mirrored: bool) -> NDArray[np.float16]:
        mask = np.full(len(block), mirrored)
        return _as_kept(trunk(images.prepare(images.read(block, mask), device)))

    with torch.inference_mode():
        shape = (len(rows), 2, *run(rows[:1], False).shape[1:])
        _check_room(2 * math.prod(shape), images=len(rows), folder=folder, say=say)
        with (folder / ACTIVATIONS).open("wb") as file, progress("trunk", len(rows), "images") as advance:
            # a stream and no memory map: on a full disk a stream raises an error, a map ends the process
            write_array_header_1_0(file, {"descr": "<f2", "fortran_order": False, "shape": shape})
            for start in range(0, len(rows), batch):
                block = rows[start : start + batch]
                both = np.stack([run(block, False), run(block, True)], axis=1)
                if not np.isfinite(both).all():
                    raise DamnatioError(
                        "The trunk's activations exceed what half precision holds (65,504): set forget.freeze to "
                        "another cut point."
                    )
                file.write(np.ascontiguousarray(both).data)
                advance(len(block))
    np.save(folder / ROWS, rows)


def _check_room(size: int, images: int, folder: Path, say: Callable[[str], None]) -> None:
    say(f"  the activations of {images:,} images and of their mirror images take {size / 1e9:.2f} GB")
    free = shutil.disk_usage(folder).free
    if size > free:
        raise DamnatioError(
            f"The trunk's activations take {size / 1e9:.2f} GB and the disk of {folder} has {free / 1e9:.2f} GB left: "
            "make room, or set forget.freeze to a cut point with smaller maps."
        )


def _as_kept(activations: Tensor) -> NDArray[np.float16]:
    """Maps with their channels last, as the networks compute them; tokens unchanged."""
    ordered = activations.permute(0, 2, 3, 1) if activations.ndim == 4 else activations
    kept: NDArray[np.float16] = ordered.half().cpu().numpy()
    return kept


class Activations:
    """The activations that `keep_activations` wrote to a folder, as inputs of the tail."""

    def __init__(self, folder: Path) -> None:
        self._rows: Rows = np.load(checked(folder / ROWS))
        self._kept: NDArray[np.float16] = np.load(checked(folder / ACTIVATIONS), mmap_mode="r")

    def read(self, rows: Rows, mirrored: Mask | None = None) -> NDArray[np.float16]:
        places = np.searchsorted(self._rows, rows).clip(max=len(self._rows) - 1)
        strangers = rows[self._rows[places] != rows]
        if len(strangers):
            raise DamnatioError(f"No activations were kept of image {strangers[0]}: training does not read this image.")
        view = np.zeros(len(rows), dtype=np.int64) if mirrored is None else mirrored.astype(np.int64)
        return np.asarray(self._kept[places, view])

    def prepare(self, entries: NDArray[np.float16], device: torch.device) -> Tensor:
        x = torch.from_numpy(entries).to(device, non_blocking=True).float()
        return x.permute(0, 3, 1, 2) if x.ndim == 4 else x
