"""Exact evaluation beside its peers, in one process and on the same arrays: `make bench-eval`.

It prints ratios: on a shared machine only ratios mean something. Each side runs in turn, several times over, and its
best time counts.
"""

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance
from sklearn.metrics import roc_curve

import history
from damnatio.evaluation import choosing, scanning, searching
from damnatio.evaluation.scanning import Kind, Narrow, Units, on_grid
from damnatio.evaluation.searching import top_two
from damnatio.evaluation.tails import scan, scan_tail, tail, zoom
from damnatio.metrics.distributions import Sample, wasserstein1
from damnatio.metrics.verification import threshold_at

TARGETS = (1e-4, 1e-2)
RATIOS: dict[str, float] = {}
"""time of each peer to ours, as `show` printed them"""
KINDS: tuple[Kind, ...] = ("float32", "bfloat16", "int8")
PEAK = """
import sys
import numpy as np
from damnatio.evaluation.tails import scan_tail
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
    """Only the fp32 products, with the block size that is fastest here."""

    def run(rows: int) -> None:
        for start in range(0, len(a), rows):
            torch.mm(a[start : start + rows], b.T)

    sizes = (512, 1024, 2048, 4096)
    taken = race({str(rows): lambda rows=rows: torch.mm(a[:rows], b.T) for rows in sizes}, 2)  # type: ignore[misc]
    best = min(sizes, key=lambda rows: taken[str(rows)] / rows)
    return lambda: run(best)


@contextmanager
def replaced(name: str, made: Callable[..., Any]) -> Iterator[None]:
    """Replace a function of the scans wherever it is called."""
    modules = [module for module in (scanning, searching, tail, scan, zoom) if hasattr(module, name)]
    before = [getattr(module, name) for module in modules]
    for module in modules:
        setattr(module, name, made)
    try:
        yield
    finally:
        for module, function in zip(modules, before, strict=True):
            setattr(module, name, function)


def chosen_kind(run: Callable[[], object]) -> str:
    """The kind of product that a job chooses."""
    taken = ["float32"]

    def noted(*arguments: Any) -> tuple[Any, int]:
        kind, done = choosing.trial(*arguments)
        taken.append(kind)
        return kind, done

    with replaced("trial", noted):
        run()
    return taken[-1]


def processor_seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def breakdown(title: str, run: Callable[[Kind], object], bare: Callable[[], None]) -> None:
    """Print the time that each kind spends outside its products: on the scan, and on scoring what the bound leaves
    open. It counts processor time, which other programs on the machine disturb less."""
    lock = threading.Lock()
    spent: dict[str, float] = {}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any) -> Any:
            start = time.thread_time() if name == "product" else time.process_time()
            result = function(*arguments)
            end = time.thread_time() if name == "product" else time.process_time()
            with lock:
                spent[name] += end - start
            return result

        return made

    whole = min(processor_seconds(bare) for _ in range(3))
    print(f"\n{title}: shares of the bare fp32 product")
    for kind in KINDS:
        spent.update(product=0.0, Narrow=0.0)
        with replaced("product", timed("product", scanning.product)), replaced("Narrow", timed("Narrow", Narrow)):
            total = processor_seconds(lambda kind=kind: run(kind))  # type: ignore[misc]
        rest = total - sum(spent.values())
        shares = {"product": spent["product"], "rest": rest, "narrow copies (once)": spent["Narrow"]}
        print(f"  {kind + ':':<10}", ", ".join(f"{name} {seconds / whole:.2f}" for name, seconds in shares.items()))


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
    few = probe[: max(len(probe) // 40, 64)]
    for kind in KINDS:
        same = top_two(few, gallery, kind)
        assert np.array_equal(same.best, found.best[: len(few)])
        assert np.array_equal(same.score, found.score[: len(few)])
    print(f"the same best templates and scores by {', '.join(KINDS)}")
    print(f"chosen for the search: {chosen_kind(lambda: top_two(probe, gallery))}")
    times = race(
        {
            "top_two (exact, two best)": lambda: top_two(probe, gallery),
            "faiss IndexFlatIP, k = 1": lambda: index.search(narrow[1], 1),
            "bare fp32 product": bare_product(torch.from_numpy(narrow[1]), torch.from_numpy(narrow[0])),
        },
        rounds,
    )
    show(f"1:N, {templates:,} templates x {probes:,} probes, d = {dim}", times, "top_two (exact, two best)")
    some = probe[: max(probes // 16, 1024)]
    product = bare_product(torch.from_numpy(some.astype(np.float32)), torch.from_numpy(narrow[0]))
    breakdown(f"search with {len(some):,} probes", lambda kind: top_two(some, gallery, kind), product)


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
    for targets in (TARGETS, TARGETS[:1]):
        kind = chosen_kind(lambda targets=targets: scan_tail(vectors, codes, targets))  # type: ignore[misc]
        print(f"  chosen for targets {targets}: {kind}")
        some = vectors[: max(count // 4, 8192)]
        product = bare_product(fp32[: len(some)], fp32[: len(some)])
        breakdown(
            f"threshold of {len(some):,} vectors at {targets}",
            lambda kind, some=some, targets=targets: scan_tail(some, np.arange(len(some)), targets, kind=kind),  # type: ignore[misc]
            product,
        )
    print("  growth with the number of pairs:")
    for share in (4, 2, 1):
        part = vectors[: int(count / share**0.5)]
        start = time.perf_counter()
        scan_tail(part, codes[: len(part)], TARGETS)
        seconds = time.perf_counter() - start
        pairs = len(part) * (len(part) - 1) // 2
        print(f"    {pairs:>15,} pairs {seconds:8.2f} s   {seconds / pairs * 1e9:6.2f} ns per pair")


def threshold_from_scores(count: int, rounds: int) -> None:
    """The threshold of scores that are already in memory, as the peers compute it."""
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
    """The peak memory of only the threshold, in a process of its own."""
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
