"""Stage 2: find the images of an identity that were taken at one moment (III-B, IV-B of the paper).

Two images of one identity belong to one capture instance if a chain of images leads from one to the other, each closer
to the next than the threshold. The distance is the L2 distance of intensity-normalised pixels: each image has zero mean
and unit variance over all its values. It grows with the square root of the number of values, so every distance is
stated as for 112 x 112 x 3 values, which the paper has.
"""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from damnatio.faces.base import POOL, Faces, Images
from damnatio.support.files import write_atomically
from damnatio.support.progress import progress
from damnatio.support.tables import Table, codes_of, groups_of

PAPER_VALUES = 112 * 112 * 3
"""values of an image in the paper"""
Array = NDArray[np.float64]


def normalised(images: Images) -> NDArray[np.float32]:
    """Each image as a vector of zero mean and unit variance; an image of one colour is a vector of zeros."""
    flat = images.reshape(len(images), -1).astype(np.float32)
    flat -= flat.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)
    spread = np.sqrt(np.mean(np.square(flat), axis=1, keepdims=True))
    return np.divide(flat, spread, out=np.zeros_like(flat), where=spread > 0)


def pixel_distances(images: Images) -> Array:
    """All pairwise distances, by one matrix product: |a - b|^2 = |a|^2 + |b|^2 - 2ab. Stated as for 112x112x3 values.

    The terms cancel where images are close, so the product runs in float64.
    """
    vectors = normalised(images).astype(np.float64)
    squares = np.einsum("ij,ij->i", vectors, vectors)
    squared = squares[:, None] + squares[None, :] - 2 * (vectors @ vectors.T)
    np.fill_diagonal(squared, 0.0)
    distances: Array = np.sqrt(np.maximum(squared, 0.0) * (PAPER_VALUES / vectors.shape[1]))
    return distances


def instances_of(distances: Array, threshold: float) -> NDArray[np.int64]:
    """The capture instance of each image: components of "closer than the threshold", numbered by first member."""
    from scipy.sparse.csgraph import connected_components  # slow to import, and not needed by a finished run

    labels: NDArray[np.int64] = connected_components(distances < threshold, directed=False)[1]
    _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes]


def medoids(distances: Array, instances: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each image the one that is kept of its instance: it has the least sum of distances to the others of the
    instance, and is the first of several that tie."""
    same = instances[:, None] == instances[None, :]
    sums = np.where(same, distances, 0.0).sum(axis=1).round(6)  # equal sums must tie in any order of addition
    order = np.lexsort((np.arange(len(sums)), sums))
    kept_of = np.empty(instances.max() + 1, dtype=np.int64)
    kept_of[instances[order[::-1]]] = order[::-1]
    return kept_of[instances]


def find_captures(faces: Faces, threshold: float, folder: Path) -> None:
    """Write `captures.parquet` (each image with its instance, and whether it is kept) and `dropped.parquet`."""
    codes, _ = codes_of(faces.table["identity"])
    instance = np.zeros(len(codes), dtype=np.int64)
    kept = np.ones(len(codes), dtype=bool)
    dropped: list[tuple[str, str, str, float]] = []
    names, identities = faces.table["image"], faces.table["identity"]
    with progress("capture instances", len(codes), "images") as advance:
        for rows in groups_of(codes):
            distances = pixel_distances(faces.read(rows))
            instance[rows] = instances_of(distances, threshold)
            keeper = medoids(distances, instance[rows])
            for place in np.flatnonzero(keeper != np.arange(len(rows))):
                kept[rows[place]] = False
                row, by = rows[place], keeper[place]
                dropped.append((names[row], identities[row], names[rows[by]], float(distances[place, by])))
            advance(len(rows))
    columns = {"image": names, "identity": identities, "capture": instance, "kept": kept}
    if POOL in faces.table.columns:
        columns[POOL] = faces.table[POOL]
    Table(columns).write(folder / "captures.parquet")
    Table.of_rows(["image", "identity", "kept_image", "distance"], dropped).write(folder / "dropped.parquet")
    summary = {
        "images": len(codes),
        "capture_instances": int(kept.sum()),
        "dropped": len(dropped),
        "threshold": threshold,
        "threshold_at_this_size": threshold * (faces.size * faces.size * 3 / PAPER_VALUES) ** 0.5,
    }
    write_atomically(folder / "summary.json", json.dumps(summary, indent=1) + "\n")
