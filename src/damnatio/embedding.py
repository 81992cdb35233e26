"""Stage 6: images -> embeddings, unit vectors in float32 with the row of each image.

It also keeps some example pairs of images with their similarity under f*, for a figure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file
from torch import nn
from torch.nn import functional as F

from damnatio.faces.base import Faces, Images
from damnatio.faces.distances import pixel_distances
from damnatio.models.card import Card
from damnatio.models.inputs import Pixels, embed_inputs
from damnatio.partitions import FORGET, Partitions
from damnatio.recipe.schema import PixelScale
from damnatio.support import pieces, processes
from damnatio.support.arrays import lengths, save_tensors, write_arrays
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular
from damnatio.support.manifests import checked
from damnatio.support.progress import progress
from damnatio.support.tables import Table, codes_of, groups_of

FILE, EXAMPLES = "embeddings.safetensors", "examples.safetensors"
PIECE = 8192
"""images whose vectors are stored together while the stage is unfinished: some seconds of a GPU, 17 MB at d = 512"""
EACH = 4
"""example pairs of each kind"""


def embed(
    backbone: nn.Module, card: Card, faces: Faces, rows: NDArray[np.int64], batch: int, title: str = ""
) -> NDArray[np.float32]:
    """f(x) of the images at these rows."""
    return embed_inputs(backbone, Pixels(faces, card), dim=card.dim, rows=rows, batch=batch, title=title)


def write_embeddings(
    backbone: nn.Module,
    card: Card,
    faces: Faces,
    rows: NDArray[np.int64],
    batch: int,
    folder: Path,
    title: str = "",
) -> None:
    """f(x) of the images at these rows, by all processes, in pieces: an interrupted call goes on where it stopped. The
    batches are cut by their place in `rows`, so that the vectors do not depend on the number of processes."""
    step = max(1, PIECE // batch) * batch
    parts = {
        f"units-{start}-{stop}-by-{batch}": slice(start, stop)
        for start in range(0, len(rows), step)
        for stop in [min(start + step, len(rows))]
    }
    todo = pieces.missing(folder, list(parts))
    mine = todo[processes.share_of(len(todo))]
    with progress(title, sum(parts[name].stop - parts[name].start for name in mine), "images") as advance:
        for name in mine:
            units = embed(backbone, card, faces, rows[parts[name]], batch)
            pieces.keep(folder, name, {"units": units})
            advance(len(units))
    processes.wait()

    def join() -> None:
        whole = np.empty((len(rows), card.dim), np.float32)
        for name, part in parts.items():
            whole[part] = pieces.kept(folder, name)["units"]
        save_embeddings(whole, rows, folder)
        pieces.drop(folder)

    processes.from_main(join)


def embed_batch(backbone: nn.Module, card: Card, images: Images, flip: bool = False) -> NDArray[np.float32]:
    """The unit vectors of images: f(x), or with `flip` f(x) + f(x mirrored), as face benchmarks take it."""
    with torch.inference_mode():
        x = card.prepare(images, next(backbone.parameters()).device)
        raw = backbone(x).float()
        if flip:
            raw = raw + backbone(x.flip(3)).float()
        units: NDArray[np.float32] = F.normalize(raw, dim=1).cpu().numpy()
    return units


def save_embeddings(units: NDArray[np.float32], rows: NDArray[np.int64], folder: Path) -> None:
    save_tensors({"embeddings": torch.from_numpy(units), "rows": torch.from_numpy(rows)}, folder / FILE)


def read_embeddings(path: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The unit vectors of a file as they are stored, and their rows in the table of partitions."""
    need_regular(path)
    try:
        tensors = load_file(checked(path))
        units, rows = tensors["embeddings"], tensors["rows"].astype(np.int64)
    except (OSError, SafetensorError) as error:
        raise DamnatioError(f"{path} is not a readable safetensors file ({error}).") from error
    except (TypeError, AttributeError) as error:  # NumPy has no bfloat16, nor floats of eight bits
        raise DamnatioError(f"{path}: embeddings are float32, float64 or float16, and these are not.") from error
    except KeyError as error:
        raise DamnatioError(
            f"{path} has no tensor {error}: the tensors `embeddings` [n, d] and `rows` [n] are expected."
        ) from None
    if units.dtype.kind != "f":
        raise DamnatioError(f"{path}: embeddings are float32, float64 or float16, and these are not.")
    if units.ndim != 2 or rows.shape != units.shape[:1]:
        raise DamnatioError(f"{path}: `embeddings` [n, d] and `rows` [n] do not fit each other.")
    return units, rows


def load_embeddings(path: Path, partitions: Table) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The unit vectors of a file in float64, and their rows in the table of partitions."""
    units, rows = read_embeddings(path)
    if len(rows) and not 0 <= rows.min() <= rows.max() < len(partitions):
        raise DamnatioError(
            f"{path} names rows that are not in the table of partitions: the two belong to different runs."
        )
    if len(np.unique(rows)) < len(rows):
        raise DamnatioError(f"{path} names a row twice: an image would be compared with itself.")
    return in_float64(units, lambda place: f"the image {partitions['image'][rows[place]]}", path), rows


def in_float64(units: NDArray[np.float32], whose: Callable[[int], str], where: Path) -> NDArray[np.float64]:
    """The unit vectors, normalised again in float64, since scores near 1 tie in float32. A vector of zero length or
    with a value that is not finite is an error; `whose` names its image."""
    double: NDArray[np.float64] = units.astype(np.float64)
    norms = lengths(double)
    bad = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
    if len(bad):
        raise DamnatioError(
            f"{len(bad)} embeddings in {where} are zero or not finite, the first of them that of {whose(bad[0])}: "
            "the model has diverged."
        )
    double /= norms[:, None]
    return double


@dataclass(frozen=True)
class Example:
    """Two images of one identity: of one capture instance (`within`) or of two (`across`)."""

    kind: str
    images: Images
    distance: float
    similarity: float


def save_examples(
    backbone: nn.Module,
    card: Card,
    faces: Faces,
    partitions: Partitions,
    captures: NDArray[np.int64],
    scale: PixelScale,
    folder: Path,
) -> None:
    """Write some within- and some across-instance pairs of forget identities, as in the paper's Fig. 2."""
    found = _pairs_of_each_kind(partitions, captures)
    kinds = np.array([kind == "within" for kind, pairs in found.items() for _ in pairs], bool)
    rows = np.array([row for pairs in found.values() for pair in pairs for row in pair], np.int64)
    images = faces.read(rows) if len(rows) else np.zeros((0, faces.size, faces.size, 3), np.uint8)
    images = images.reshape(len(kinds), 2, *images.shape[1:])
    units = embed(backbone, card, faces, rows, 64).reshape(len(kinds), 2, -1)
    arrays = {
        "within": kinds,
        "images": images,
        "distances": np.array([pixel_distances(pair, scale)[0, 1] for pair in images]),
        "similarities": np.array([float(a @ b) for a, b in units]),
    }
    write_arrays(arrays, folder / EXAMPLES)


def load_examples(folder: Path) -> list[Example]:
    arrays = load_file(checked(folder / EXAMPLES))
    columns = zip(*(arrays[name] for name in ("within", "images", "distances", "similarities")), strict=True)
    return [
        Example(
            kind="within" if within else "across",
            images=images,
            distance=float(distance),
            similarity=float(similarity),
        )
        for within, images, distance, similarity in columns
    ]


def _pairs_of_each_kind(partitions: Partitions, captures: NDArray[np.int64]) -> dict[str, list[tuple[int, int]]]:
    """The rows of `EACH` pairs of each kind, at most one pair of a kind per identity."""
    found: dict[str, list[tuple[int, int]]] = {"within": [], "across": []}
    forget = np.flatnonzero(partitions.has(FORGET))
    for places in groups_of(codes_of(partitions.table["identity"][forget])[0]):
        rows = forget[places]
        instance = captures[rows]
        first = {kind: len(pairs) for kind, pairs in found.items()}
        for a, b in zip(*np.triu_indices(len(rows), 1), strict=True):
            kind = "within" if instance[a] == instance[b] else "across"
            if len(found[kind]) == first[kind] < EACH:
                found[kind].append((int(rows[a]), int(rows[b])))
        if all(len(pairs) == EACH for pairs in found.values()):
            break
    return found
