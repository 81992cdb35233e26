"""Exact evaluation beside its peers, in one process and on the same arrays: `make bench-eval`.

Prints ratios; on a shared machine only these mean something. Each side runs in turn, several times over, and its best
time counts.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable

import faiss
import history
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance
from sklearn.metrics import roc_curve

from damnatio.metrics.distributions import Sample, wasserstein1
from damnatio.metrics.verification import threshold_at
from damnatio.scanning import Kind, Units, fastest_kind, on_grid, top_two
from damnatio.tails import scan_tail

TARGETS = (1e-4, 1e-2)
RATIOS: dict[str, float] = {}
"""time of each peer to ours, as `show` printed them"""
PEAK = """
import sys
import numpy as np
from damnatio.tails import scan_tail
count, dim = map(int, sys.argv[1:])
rng = np.random.default_rng(2)
vectors = np.empty((count, dim))
for row in vectors:
    row[:] = rng.standard_normal(dim)
    row[:] = np.rint(row / np.linalg.norm(row) * 2**26) / 2**26
def peak():  # not getrusage, which remembers the process that this one was forked from
    return next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
before = peak()
scan_tail(vectors, np.arange(count), (1e-4, 1e-2))
print(before, peak())
"""


def units(count: int, dim: int, seed: int) -> Units:
    drawn = np.random.default_rng(seed).standard_normal((count, dim))
    return on_grid(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def race(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The best time of each side, in seconds; the sides take turns."""
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(rounds):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def show(title: str, times: dict[str, float], ours: str) -> None:
    print(f"\n{title}")
    for name, seconds in times.items():
        ratio = "" if name == ours else f"   ours is {seconds / times[ours]:.2f} x as fast"
        print(f"  {name:<44} {seconds:8.2f} s{ratio}")
        if name != ours:
            RATIOS[f"{title}: {name}"] = seconds / times[ours]


def bare_product(a: torch.Tensor, b: torch.Tensor) -> Callable[[], None]:
    """fp32 products alone, by the block size that is fastest here."""

    def run(rows: int) -> None:
        for start in range(0, len(a), rows):
            torch.mm(a[start : start + rows], b.T)

    sizes = (512, 1024, 2048, 4096)
    taken = race({str(rows): lambda rows=rows: torch.mm(a[:rows], b.T) for rows in sizes}, 2)  # type: ignore[misc]
    best = min(sizes, key=lambda rows: taken[str(rows)] / rows)
    return lambda: run(best)


def identification(templates: int, probes: int, dim: int, rounds: int) -> None:
    gallery, probe = units(templates, dim, 0), units(probes, dim, 1)
    narrow = gallery.astype(np.float32), probe.astype(np.float32)
    index = faiss.IndexFlatIP(dim)
    index.add(narrow[0])
    found = top_two(probe, gallery)
    scores, places = index.search(narrow[1], 1)
    differing = np.flatnonzero(places[:, 0] != found.best)
    apart = np.abs(scores[:, 0] - found.score).max()
    print(f"identities that differ from faiss: {len(differing)}; scores differ by at most {apart:.1e}")
    kinds: tuple[Kind, ...] = ("float32", "bfloat16", "int8")
    few = probe[: max(len(probe) // 40, 64)]
    for kind in kinds:
        same = top_two(few, gallery, kind)
        assert np.array_equal(same.best, found.best[: len(few)])
        assert np.array_equal(same.score, found.score[: len(few)])
    print(f"the same best templates and scores by {', '.join(kinds)}; fastest here: {fastest_kind(dim)}")
    times = race(
        {
            "top_two (exact, two best)": lambda: top_two(probe, gallery),
            "faiss IndexFlatIP, k = 1": lambda: index.search(narrow[1], 1),
            "bare fp32 product": bare_product(torch.from_numpy(narrow[1]), torch.from_numpy(narrow[0])),
        },
        rounds,
    )
    show(f"1:N, {templates:,} templates x {probes:,} probes, d = {dim}", times, "top_two (exact, two best)")


def threshold(count: int, dim: int, rounds: int) -> None:
    vectors = units(count, dim, 2)
    codes = np.arange(count)
    fp32 = torch.from_numpy(vectors.astype(np.float32))
    times = race(
        {
            "scan_tail (exact, all pairs)": lambda: scan_tail(vectors, codes, TARGETS),
            "bare fp32 product of the whole square": bare_product(fp32, fp32),
        },
        rounds,
    )
    show(f"threshold over {count * (count - 1) // 2:,} pairs, d = {dim}", times, "scan_tail (exact, all pairs)")
    print("  growth with the number of pairs:")
    for share in (4, 2, 1):
        part = vectors[: int(count / share**0.5)]
        start = time.perf_counter()
        scan_tail(part, codes[: len(part)], TARGETS)
        seconds = time.perf_counter() - start
        pairs = len(part) * (len(part) - 1) // 2
        print(f"    {pairs:>15,} pairs {seconds:8.2f} s   {seconds / pairs * 1e9:6.2f} ns a pair")


def threshold_from_scores(count: int, rounds: int) -> None:
    """The same question on scores that are already there, as the peers ask it."""
    scores: NDArray[np.float64] = np.random.default_rng(3).normal(0, 0.044, count)
    labels = np.zeros(count, bool)
    labels[:100] = True
    times = race(
        {
            "threshold_at": lambda: threshold_at(scores, 1e-4),
            "NumPy partition (no ties, no rule)": lambda: np.partition(scores, count - count // 10_000),
            "scikit-learn roc_curve": lambda: roc_curve(labels, scores, drop_intermediate=False),
        },
        rounds,
    )
    show(f"threshold of {count:,} scores in memory", times, "threshold_at")


def distance(count: int, rounds: int) -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(0.3, 0.1, count // 10), rng.normal(0, 0.044, count)
    x, y = Sample.of(a), Sample.of(b)
    assert abs(wasserstein1(x, y) - wasserstein_distance(a, b)) < 1e-12
    times = race(
        {
            "Sample.of + wasserstein1": lambda: wasserstein1(Sample.of(a), Sample.of(b)),
            "SciPy wasserstein_distance": lambda: wasserstein_distance(a, b),
        },
        rounds,
    )
    show(f"W1 of {len(a):,} and {len(b):,} scores", times, "Sample.of + wasserstein1")


def peak_memory(count: int, dim: int) -> None:
    """Of the threshold alone, in a process of its own."""
    out = subprocess.run([sys.executable, "-c", PEAK, str(count), str(dim)], capture_output=True, text=True, check=True)
    before, after = map(int, out.stdout.split())
    print(f"  peak memory of the threshold: {after / 1e6:.2f} GB ({before / 1e6:.2f} GB are the vectors and torch)")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--templates", type=int, default=53_000)
    options.add_argument("--probes", type=int, default=20_000)
    options.add_argument("--vectors", type=int, default=50_000, help="embeddings whose pairs are all compared")
    options.add_argument("--scores", type=int, default=5_000_000)
    options.add_argument("--dim", type=int, default=512)
    options.add_argument("--rounds", type=int, default=2)
    o = options.parse_args()
    faiss.omp_set_num_threads(torch.get_num_threads())
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, faiss {faiss.__version__}")
    identification(o.templates, o.probes, o.dim, o.rounds)
    threshold(o.vectors, o.dim, o.rounds)
    peak_memory(o.vectors, o.dim)
    threshold_from_scores(o.scores, o.rounds)
    distance(o.scores, o.rounds)
    history.append("evaluation", RATIOS, rounds=o.rounds)


if __name__ == "__main__":
    main()
