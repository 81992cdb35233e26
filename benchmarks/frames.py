"""Frames for the forget images: naive greedy, ours and the closed form, in one process; and why candidates are fresh.

usage: python benchmarks/frames.py [--targets N] [--class-vectors V] [--dim D] [--candidates C] [--naive-targets M]

Naive greedy draws the same candidates and compares those of one target at a time with all class vectors and all targets
placed. Its time is measured on the first few targets and multiplied, which flatters it, since later targets cost more.
The time at the paper's size follows from the operations: count x candidates x (class vectors + count/2) x 2 d.

The second table shows the quality of a frame at d = 64: the mean over the targets of their highest cosine to any class
vector or other target, for 500 targets and 1,500 class vectors. A shared pool of which 86 % is used up is hardly better
than random directions (0.403 against 0.414); 256 fresh candidates per target give 0.335.
"""

import argparse
import resource
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

import history
from damnatio.frames import Closed, _drawn, greedy
from damnatio.support.devices import device

PAPER = {"S1": 25_000, "S2": 124_000}
"""forget images of the paper's scales, about; its head has 100,000 class vectors at d = 512"""


def naive_greedy(count: int, class_vectors: Tensor, candidates: int, seed: int) -> Tensor:
    placed = class_vectors
    for target in range(count):
        own = _drawn(slice(target, target + 1), candidates, class_vectors.shape[1], seed)[0].to(placed)
        worst = (own @ placed.T).amax(dim=1)
        placed = torch.cat([placed, own[worst.argmin()][None]])
    return placed[len(class_vectors) :]


def shared_pool(count: int, class_vectors: Tensor, pool: Tensor) -> Tensor:
    """Greedy targets that all come from one pool, each of its candidates at most once."""
    worst = (pool @ class_vectors.T).amax(dim=1)
    chosen = torch.empty(count, dtype=torch.long)
    for i in range(count):
        chosen[i] = best = int(worst.argmin())
        worst = torch.maximum(worst, pool @ pool[best])
        worst[best] = torch.inf
    return pool[chosen]


def operations(count: int, class_vectors: int, dim: int, candidates: int) -> float:
    return count * candidates * (class_vectors + count / 2) * 2 * dim


def coherence(frame: Tensor, class_vectors: Tensor) -> tuple[float, float]:
    """The largest absolute cosine between two targets, and the largest cosine of a target to a class vector."""
    among, to_class = 0.0, -1.0
    for start in range(0, len(frame), 512):
        block = frame[start : start + 512]
        products = (block @ frame.T).abs()
        products[torch.arange(len(block)), start + torch.arange(len(block))] = 0
        among = max(among, float(products.max()))
        to_class = max(to_class, *(float((block @ chunk.T).max()) for chunk in torch.split(class_vectors, 8192)))
    return among, to_class


def highest(frame: Tensor, class_vectors: Tensor) -> float:
    """The mean over the targets of their highest cosine to any class vector or other target."""
    cosines = frame @ torch.cat([class_vectors, frame]).T
    cosines[:, len(class_vectors) :].fill_diagonal_(-1)
    return float(cosines.amax(dim=1).mean())


def unit(count: int, dim: int, seed: int) -> Tensor:
    return F.normalize(torch.randn(count, dim, generator=torch.Generator().manual_seed(seed)), dim=1)


def timed(build: Callable[[], Tensor]) -> tuple[float, Tensor]:
    started = time.perf_counter()
    frame = build().cpu()  # a GPU has finished then
    return time.perf_counter() - started, frame


def quality() -> None:
    others, count = unit(1500, 64, 0), 500
    kinds = {
        "random directions": unit(count, 64, 1),
        "one pool, 86 % used up": shared_pool(count, others, unit(round(count / 0.86), 64, 2)),
        "256 fresh per target": greedy(count, others, 256, 1),
    }
    print("\nmean highest cosine at d = 64, 500 targets and 1,500 class vectors")
    for name, frame in kinds.items():
        print(f"  {name:<24} {highest(frame, others):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=int, default=300)
    parser.add_argument("--class-vectors", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--candidates", type=int, default=256)
    parser.add_argument("--naive-targets", type=int, default=20)
    o = parser.parse_args()
    class_vectors = unit(o.class_vectors, o.dim, 0).to(device())
    sizes = f"{o.targets:,} targets against {o.class_vectors:,} class vectors at d = {o.dim}"
    print(f"{sizes}, {o.candidates} candidates each, on {device()}, {torch.get_num_threads()} threads\n")
    print(f"{'frame':<14} {'time':>10} {'stored':>10} {'peak':>8} {'coherence':>10} {'to class':>9}   note")

    def line(name: str, seconds: float, stored: float, frame: Tensor, note: str) -> None:
        # the peak of the process so far: the lightest frame comes first
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        among, to_class = coherence(frame, class_vectors.cpu())
        print(
            f"{name:<14} {seconds:>8.1f} s {stored / 1e6:>7.1f} MB {peak:>5.2f} GB {among:>10.4f} {to_class:>9.4f}   "
            f"{note}",
            flush=True,
        )

    targets = o.targets * o.dim * 4
    closed, frame = timed(lambda: Closed(o.dim, 1)(torch.arange(o.targets)))
    line("closed form", closed, 3 * o.dim * 8, frame, f"{1e6 * closed / o.targets:.0f} us per target, from its index")
    took, frame = timed(lambda: greedy(o.targets, class_vectors, o.candidates, 1))
    speed = operations(o.targets, o.class_vectors, o.dim, o.candidates) / took
    line("greedy", took, targets, frame, f"{speed / 1e9:,.0f} GFLOP/s")
    seconds, some = timed(lambda: naive_greedy(o.naive_targets, class_vectors, o.candidates, 1))
    naive = seconds / o.naive_targets * o.targets
    note = f"{naive / took:.1f} x the time of greedy; multiplied from {o.naive_targets} targets"
    line("naive greedy", naive, targets, some, note)
    for scale, count in PAPER.items():
        work = operations(count, 100_000, 512, 256)
        print(f"\nthe paper's {scale}: {work:.2g} operations, {work / speed / 3600:.1f} hours here", end="")
    print()
    quality()
    ratios = {"greedy to closed form": took / closed, "naive greedy to greedy": naive / took}
    history.append(
        "frames", ratios, targets=o.targets, class_vectors=o.class_vectors, dim=o.dim, candidates=o.candidates
    )


if __name__ == "__main__":
    main()
