"""CURE's K-means beside SciPy's, scikit-learn's and faiss's, on random unit vectors.

usage: python benchmarks/clusters.py [--vectors N] [--clusters K] [--dim D]

All do 20 iterations from K-means++ (faiss: from random vectors). SciPy finds the same clusters as ours. It computes the
distances to all centroids anew for each first centroid that it draws, which takes K times as long. The error is the
mean squared distance of a vector to its centroid.
"""

import argparse
import time
import warnings

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

import history
from damnatio.losses.clusters import ITERATIONS, k_means
from damnatio.support.devices import device


def error(vectors: Tensor, centroids: Tensor) -> float:
    blocks = torch.split(vectors.double(), 8192)
    return float(torch.cat([torch.cdist(block, centroids.double()).amin(dim=1).square() for block in blocks]).mean())


def ours(vectors: Tensor, clusters: int) -> Tensor:
    return k_means(vectors.to(device()), clusters, 1)[0].cpu()


def with_scipy(vectors: Tensor, clusters: int) -> Tensor:
    from scipy.cluster.vq import kmeans2

    points = vectors.double().numpy()
    return torch.from_numpy(kmeans2(points, clusters, iter=ITERATIONS, minit="++", rng=np.random.default_rng(1))[0])


def with_sklearn(vectors: Tensor, clusters: int) -> Tensor:
    from sklearn.cluster import KMeans

    fitted = KMeans(clusters, n_init=1, max_iter=ITERATIONS, tol=0, random_state=1).fit(vectors.numpy())
    return torch.from_numpy(fitted.cluster_centers_)


def with_faiss(vectors: Tensor, clusters: int) -> Tensor:
    import faiss

    most = len(vectors) // clusters + 1
    fitted = faiss.Kmeans(vectors.shape[1], clusters, niter=ITERATIONS, seed=1, max_points_per_centroid=most)
    fitted.train(vectors.numpy())
    return torch.from_numpy(fitted.centroids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=4_000)
    parser.add_argument("--clusters", type=int, default=128)
    parser.add_argument("--dim", type=int, default=512)
    o = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    people = F.normalize(torch.randn(o.vectors // 20 + 1, o.dim, generator=generator), dim=1)
    noise = torch.randn(o.vectors, o.dim, generator=generator) * o.dim**-0.5
    vectors = F.normalize(people[torch.arange(o.vectors) // 20] + noise, dim=1)
    print(f"{o.vectors:,} vectors, {o.clusters} clusters, d = {o.dim}, {torch.get_num_threads()} threads\n")
    seconds: dict[str, float] = {}
    for name, run in {"ours": ours, "SciPy": with_scipy, "scikit-learn": with_sklearn, "faiss": with_faiss}.items():
        started = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                centroids = run(vectors, o.clusters)
        except ImportError as missing:
            print(f"{name:<14} not installed ({missing.name})")
            continue
        seconds[name] = time.perf_counter() - started
        print(f"{name:<14} {seconds[name]:>8.1f} s   error {error(vectors, centroids):.4f}", flush=True)
    ratios = {f"{name} to ours": taken / seconds["ours"] for name, taken in seconds.items() if name != "ours"}
    history.append("clusters", ratios, vectors=o.vectors, clusters=o.clusters, dim=o.dim)


if __name__ == "__main__":
    main()
