"""Stage 6: images to embeddings, unit vectors in float32, with the rows they belong to."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file
from torch import nn
from torch.nn import functional as F

from damnatio.errors import DamnatioError
from damnatio.faces.base import Faces
from damnatio.inputs import Inputs, Pixels
from damnatio.models import Card, save_tensors
from damnatio.progress import progress

FILE = "embeddings.safetensors"


def embed(
    backbone: nn.Module, card: Card, faces: Faces, rows: NDArray[np.int64], batch: int, title: str = ""
) -> NDArray[np.float32]:
    """f(x) of the images at these rows."""
    return embed_inputs(backbone, Pixels(faces, card), card.dim, rows, batch, title)


def embed_inputs(
    backbone: nn.Module, inputs: Inputs, dim: int, rows: NDArray[np.int64], batch: int, title: str = ""
) -> NDArray[np.float32]:
    """The same from any inputs, in `dim` dimensions. The network is left in the mode it was found in."""
    device = next(backbone.parameters()).device
    training = backbone.training
    backbone.eval()
    units = np.empty((len(rows), dim), dtype=np.float32)
    with torch.inference_mode(), progress(title, len(rows) if title else 0, "images") as advance:
        for start in range(0, len(rows), batch):
            part = rows[start : start + batch]
            raw = backbone(inputs.prepare(inputs.read(part), device)).float()
            units[start : start + len(part)] = F.normalize(raw, dim=1).cpu().numpy()
            advance(len(part))
    backbone.train(training)
    return units


def save_embeddings(units: NDArray[np.float32], rows: NDArray[np.int64], folder: Path) -> None:
    save_tensors({"embeddings": torch.from_numpy(units), "rows": torch.from_numpy(rows)}, folder / FILE)


def load_embeddings(folder: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Unit vectors in float64, normalised again there: scores near 1 tie in float32. A vector of no length or with a
    value that is no number has no direction, and its row is named."""
    tensors = load_file(folder / FILE)
    units, rows = tensors["embeddings"].astype(np.float64), tensors["rows"]
    lengths = np.linalg.norm(units, axis=1)
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise DamnatioError(
            f"{len(bad)} embeddings in {folder} are zero or not finite, first that of row {rows[bad[0]]}: "
            "the model has diverged."
        )
    return units / lengths[:, None], rows
