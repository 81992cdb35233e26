"""K-means by matrix products, on the device of the vectors."""

import numpy as np
import torch
from torch import Tensor

ITERATIONS = 20
ROWS = 16_384
"""vectors whose distances to all centroids are held at once: 34 MB at 256 clusters"""


def k_means(vectors: Tensor, clusters: int, seed: int) -> tuple[Tensor, Tensor]:
    """The centroids in float64, and the cluster of each vector.

    K-means++ chooses the first centroids (Arthur and Vassilvitskii, 2007): each is a vector drawn by its squared
    distance to the nearest centroid before it. Then each vector joins its nearest centroid, the first of several, and
    each centroid becomes the mean of its vectors, `ITERATIONS` times at most. A centroid that loses all of them stays.

    The draws are those of SciPy's `kmeans2(..., minit="++")`, and so is the result up to rounding, which computes the
    distances to all centroids anew for each one that it draws. Here it is one product of all vectors with one vector.
    Memory beyond the vectors in float64: `ROWS` x clusters.
    """
    points = vectors.double()
    squares = points.square().sum(dim=1)
    centroids = _drawn(points, squares, clusters, np.random.default_rng(seed))
    members = torch.full((len(points),), -1, dtype=torch.long, device=points.device)
    for _ in range(ITERATIONS):
        before, members = members, _nearest(points, centroids)
        if torch.equal(before, members):  # it would go on like this
            break
        counts = torch.bincount(members, minlength=clusters)
        means = torch.zeros_like(centroids).index_add_(0, members, points) / counts.clamp_min(1)[:, None]
        centroids = torch.where(counts[:, None] > 0, means, centroids)
    return centroids, members


def _drawn(points: Tensor, squares: Tensor, clusters: int, rng: np.random.Generator) -> Tensor:
    centroids = points.new_empty(clusters, points.shape[1])
    nearest = torch.full_like(squares, torch.inf)
    place = int(rng.integers(len(points)))
    for k in range(clusters):
        centroids[k] = points[place]
        if k + 1 < clusters:
            distances = (squares + squares[place] - 2 * (points @ points[place])).clamp_min_(0)
            distances[place] = 0
            nearest = torch.minimum(nearest, distances)
            shares = (nearest / nearest.sum()).cumsum(dim=0).cpu().numpy()
            place = min(int(np.searchsorted(shares, rng.uniform())), len(points) - 1)
    return centroids


def _nearest(points: Tensor, centroids: Tensor) -> Tensor:
    lengths = centroids.square().sum(dim=1)
    return torch.cat([(lengths - 2 * (block @ centroids.T)).argmin(dim=1) for block in torch.split(points, ROWS)])


def farthest(centroids: Tensor) -> Tensor:
    """For each centroid the farthest other one; the first of them on a tie."""
    far = torch.empty(len(centroids), dtype=torch.long, device=centroids.device)
    for k, centroid in enumerate(centroids):
        distances = (centroids - centroid).square().sum(dim=1)
        distances[k] = -torch.inf
        far[k] = distances.argmax()
    return far
