"""Stage 2: find the images of an identity that were taken at one moment (III-B, IV-B of the paper).

Two images of one identity belong to one capture instance if a chain of images leads from one to the other, each closer
to the next than the threshold. Stage 1 has stored the distances (`faces/distances.py`), so no image is decoded here.
"""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from damnatio.faces.base import POOL, Faces
from damnatio.faces.distances import PAPER_VALUES, Array
from damnatio.recipe.schema import CaptureSettings
from damnatio.support import processes
from damnatio.support.files import write_atomically
from damnatio.support.progress import progress
from damnatio.support.tables import Table, codes_of, groups_of


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


def find_captures(faces: Faces, settings: CaptureSettings, folder: Path) -> None:
    """Write `captures.parquet` (each image with its instance, and whether it is kept) and `dropped.parquet`. It takes
    seconds, and the main process does it alone."""
    processes.from_main(lambda: _find_captures(faces, settings, folder))


def _find_captures(faces: Faces, settings: CaptureSettings, folder: Path) -> None:
    threshold = settings.threshold
    codes, _ = codes_of(faces.table["identity"])
    instance = np.zeros(len(codes), dtype=np.int64)
    kept = np.ones(len(codes), dtype=bool)
    dropped: list[tuple[str, str, str, float]] = []
    names, identities, stored = faces.table["image"], faces.table["identity"], faces.distances(settings.scale)
    with progress("capture instances", len(codes), "images") as advance:
        for rows in groups_of(codes):
            advance(len(rows))
            distances = stored.of(rows)
            if np.count_nonzero(distances < threshold) == len(
                rows
            ):  # no two images are close: the diagonal is all there is
                instance[rows] = np.arange(len(rows))
                continue
            instance[rows] = instances_of(distances, threshold)
            keeper = medoids(distances, instance[rows])
            for place in np.flatnonzero(keeper != np.arange(len(rows))):
                kept[rows[place]] = False
                row, by = rows[place], keeper[place]
                dropped.append((names[row], identities[row], names[rows[by]], float(distances[place, by])))
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
        "scale": settings.scale,
        "threshold_at_this_size": threshold * (faces.size * faces.size * 3 / PAPER_VALUES) ** 0.5,
    }
    write_atomically(folder / "summary.json", json.dumps(summary, indent=1) + "\n")
