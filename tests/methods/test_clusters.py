"""K-means against loops with the same draws, and against SciPy's."""

import numpy as np
import pytest
import torch
from scipy.cluster.vq import kmeans2
from torch.nn import functional as F

from damnatio.losses import clusters
from damnatio.losses.clusters import farthest, k_means


def units(count: int, dim: int, groups: int, seed: int = 0, spread: float = 0.3) -> torch.Tensor:
    """Unit vectors in float32, in groups that overlap a little."""
    generator = torch.Generator().manual_seed(seed)
    centres = F.normalize(torch.randn(groups, dim, generator=generator), dim=1)
    noise = torch.randn(count, dim, generator=generator) * spread / dim**0.5
    return F.normalize(centres[torch.arange(count) % groups] + noise, dim=1)


def naive(points: list[list[float]], k: int, seed: int) -> tuple[list[list[float]], list[int]]:
    """One vector at a time."""
    rng = np.random.default_rng(seed)

    def apart(a: list[float], b: list[float]) -> float:
        return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))

    centroids = [points[rng.integers(len(points))]]
    while len(centroids) < k:
        nearest = [min(apart(point, c) for c in centroids) for point in points]
        limit, total, place = rng.uniform() * sum(nearest), 0.0, -1
        while total < limit:
            place += 1
            total += nearest[place]
        centroids.append(points[max(place, 0)])
    members: list[int] = []
    for _ in range(20):
        members = [min(range(k), key=lambda c: apart(point, centroids[c])) for point in points]
        groups = [[point for point, own in zip(points, members, strict=True) if own == c] for c in range(k)]
        centroids = [
            [sum(column) / len(group) for column in zip(*group, strict=True)] if group else old
            for group, old in zip(groups, centroids, strict=True)
        ]
    return centroids, members


@pytest.mark.parametrize("rows", [7, 16_384])
@pytest.mark.parametrize("seed", range(4))
def test_clusters_are_those_of_loops(seed: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "ROWS", rows)
    points = units(60, 5, 6, seed)
    centroids, members = k_means(points, 6, seed)
    wanted, groups = naive(points.double().tolist(), 6, seed)
    assert members.tolist() == groups
    assert torch.allclose(centroids, torch.tensor(wanted, dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_those_of_scipy(seed: int) -> None:
    points = units(900, 32, 40, seed, spread=1.0)
    centroids, members = k_means(points, 24, seed)
    wanted, groups = kmeans2(points.double().numpy(), 24, iter=20, minit="++", rng=np.random.default_rng(seed))
    assert np.array_equal(members.numpy(), groups)
    assert np.allclose(centroids.numpy(), wanted, atol=1e-12)


def test_a_cluster_without_members_keeps_its_centroid() -> None:
    """There are more clusters than different vectors."""
    points = torch.eye(3).repeat(4, 1)
    centroids, members = k_means(points, 5, 1)
    assert {int(m) for m in members} <= set(range(5))
    assert all(any(torch.equal(c, e) for e in torch.eye(3, dtype=torch.float64)) for c in centroids)


def test_the_farthest_cluster_is_never_the_cluster_itself() -> None:
    centroids = torch.tensor([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0], [5.0, 0.0]])
    assert farthest(centroids).tolist() == [2, 2, 0, 0]
    assert farthest(torch.zeros(3, 2)).tolist() == [1, 0, 0]
