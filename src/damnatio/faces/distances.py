"""How far two images are apart: the L2 distance of their pixels (III-B, IV-B of the paper), on one of two scales:

    input        each value as the network takes it, (x - 127.5) / 127.5
    normalised   each image with zero mean and unit variance over all its values

The distance of two images grows with the square root of the number n of their values, so every distance is stated as
for 112 x 112 x 3 values, which the paper has.

On the input scale, the squared distance is sum (a - b)^2 / 127.5^2. On the normalised scale it is 2 n (1 - r), with r
the correlation of the images. All sums behind both are sums of whole numbers, and float64 holds them exactly. So a
distance does not depend on the order of the sums: it is the same with any number of threads and on every processor. It
is kept as float32.

Stage 1 computes the distances within each identity while it has the pixels at hand, and stores them in `distances.npy`,
one row per pair and one column per scale. Stage 2 then needs no pixels, whatever its threshold and scale. All pairs are
stored: at 20 images per identity they take 80 bytes per image, a five-hundredth of its pixels.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from damnatio.recipe.schema import PixelScale
from damnatio.support.manifests import checked

FILE = "distances.npy"
SCALES: tuple[PixelScale, ...] = ("input", "normalised")
"""in the order of the columns of `distances.npy`"""
PAPER_VALUES = 112 * 112 * 3
"""values of an image in the paper"""
ROWS = 256
"""images whose pixels are held in float64 at once: 77 MB at 112 x 112 x 3"""
Array = NDArray[np.float64]


def pixel_distances(images: NDArray[np.uint8], scale: PixelScale) -> Array:
    """All pairwise distances of images [n, size, size, 3] on a scale, a symmetric matrix."""
    return _distances(_Sums(images), scale)


def stored_pairs(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The distances of the pairs i < j, row by row; one column per scale."""
    sums, above = _Sums(images), np.triu_indices(len(images), 1)
    return np.stack([_distances(sums, scale)[above].astype(np.float32) for scale in SCALES], axis=1)


class _Sums:
    """What all scales have in common: the sum of the values of each image, and of the products of each two images."""

    def __init__(self, images: NDArray[np.uint8]) -> None:
        import torch

        flat = torch.from_numpy(np.ascontiguousarray(images).reshape(len(images), -1))
        count, self.values = flat.shape
        self.sums, self.products = np.empty(count, np.int64), np.empty((count, count), np.int64)
        for start in range(0, count, ROWS):
            rows = flat[start : start + ROWS].double()
            self.sums[start : start + ROWS] = rows.sum(dim=1).long().numpy()
            for other in range(start, count, ROWS):
                columns = rows if other == start else flat[other : other + ROWS].double()
                block = torch.mm(rows, columns.T).long().numpy()
                self.products[start : start + ROWS, other : other + ROWS] = block
                self.products[other : other + ROWS, start : start + ROWS] = block.T


def _distances(sums: _Sums, scale: PixelScale) -> Array:
    squared = _input(sums) if scale == "input" else _normalised(sums)
    np.fill_diagonal(squared, 0.0)
    distances: Array = np.sqrt(np.maximum(squared, 0.0) * PAPER_VALUES).astype(np.float32).astype(np.float64)
    return distances


def _input(sums: _Sums) -> Array:
    """Squared distances, divided by the number of values."""
    squares = sums.products.diagonal()
    squared: Array = (squares[:, None] + squares[None, :] - 2 * sums.products) / (127.5**2 * sums.values)
    return squared


def _normalised(sums: _Sums) -> Array:
    """The same. An image of one colour is normalised to zeros."""
    covariances = sums.values * sums.products - sums.sums[:, None] * sums.sums[None, :]  # times n^2: below 2^56
    variances = covariances.diagonal().astype(np.float64)
    scale = np.sqrt(variances[:, None] * variances[None, :])
    correlations = np.divide(covariances, scale, out=np.zeros_like(scale), where=scale > 0)
    lengths = (variances > 0).astype(np.float64)  # of the normalised images, squared and divided by n
    squared: Array = lengths[:, None] + lengths[None, :] - 2 * correlations
    return squared


def runs_of(identities: NDArray[Any]) -> NDArray[np.int64]:
    """Where each identity begins in a table that has the rows of an identity together; and the end of the table."""
    changes = np.flatnonzero(identities[1:] != identities[:-1]) + 1
    ends = [len(identities)] if len(identities) else []
    return np.concatenate([[0], changes, ends]).astype(np.int64)


class Distances:
    """The distances within each identity that stage 1 stored, on one scale, by the rows of the table of faces."""

    def __init__(self, folder: Path, identities: NDArray[Any], scale: PixelScale) -> None:
        stored: NDArray[np.float32] = np.load(checked(folder / FILE), mmap_mode="r")
        self._pairs = stored[:, SCALES.index(scale)]
        self._starts = runs_of(identities)
        counts = np.diff(self._starts)
        self._places = np.concatenate([[0], np.cumsum(counts * (counts - 1) // 2)])

    def of(self, rows: NDArray[np.int64]) -> Array:
        """The distances of all images of one identity, a symmetric matrix."""
        run = int(np.searchsorted(self._starts, rows[0]))
        square = np.zeros((len(rows), len(rows)))
        above = np.triu_indices(len(rows), 1)
        square[above] = self._pairs[self._places[run] : self._places[run + 1]]
        return square + square.T
