"""Frames for the forget images: naive greedy, ours and the closed form, in one process.

usage: python benchmarks/frames.py [--targets N] [--class-vectors V] [--dim D] [--candidates C] [--naive-targets M]

Naive greedy draws fresh candidates for every target and compares each with all class vectors and all targets placed.
Its time is measured on the first few targets and multiplied, which flatters it, since later targets cost more.
"""

import argparse
import resource
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

import history
from damnatio.methods.frames import ClosedFrame, greedy_frame


def naive_greedy(count: int, class_vectors: Tensor, candidates: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    placed = class_vectors
    for _ in range(count):
        pool = F.normalize(torch.randn(candidates, class_vectors.shape[1], generator=generator), dim=1)
        worst = (pool @ placed.T).amax(dim=1)
        placed = torch.cat([placed, pool[worst.argmin()][None]])
    return placed[len(class_vectors) :]


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


def timed(build: Callable[[], Tensor]) -> tuple[float, Tensor]:
    started = time.perf_counter()
    frame = build()
    return time.perf_counter() - started, frame


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=int, default=20_000)
    parser.add_argument("--class-vectors", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--candidates", type=int, default=4096)
    parser.add_argument("--naive-targets", type=int, default=3)
    o = parser.parse_args()
    class_vectors = F.normalize(torch.randn(o.class_vectors, o.dim, generator=torch.Generator().manual_seed(0)), dim=1)
    sizes = f"{o.targets:,} targets against {o.class_vectors:,} class vectors at d = {o.dim}"
    print(f"{sizes}, {torch.get_num_threads()} threads\n")
    print(f"{'frame':<14} {'time':>10} {'stored':>10} {'peak':>8} {'coherence':>10} {'to class':>9}   note")

    def line(name: str, seconds: float, stored: float, frame: Tensor, note: str) -> None:
        # the peak of the process so far: the lightest frame comes first
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        among, to_class = coherence(frame, class_vectors)
        print(
            f"{name:<14} {seconds:>8.1f} s {stored / 1e6:>7.1f} MB {peak:>5.2f} GB {among:>10.4f} {to_class:>9.4f}   "
            f"{note}",
            flush=True,
        )

    targets = o.targets * o.dim * 4
    closed, frame = timed(lambda: ClosedFrame(o.dim, 1)(torch.arange(o.targets)))
    line("closed form", closed, 3 * o.dim * 8, frame, f"{1e6 * closed / o.targets:.0f} us per target, from its index")
    greedy, frame = timed(lambda: greedy_frame(o.targets, class_vectors, o.candidates, 1))
    line("greedy", greedy, targets, frame, f"{greedy / closed:.0f} x the time of the closed form")
    seconds, some = timed(lambda: naive_greedy(o.naive_targets, class_vectors, o.candidates, 1))
    naive = seconds / o.naive_targets * o.targets
    note = f"{naive / greedy:.0f} x the time of greedy; multiplied from {o.naive_targets} targets"
    line("naive greedy", naive, targets, some, note)
    ratios = {"greedy to closed form": greedy / closed, "naive greedy to greedy": naive / greedy}
    history.append(
        "frames", ratios, targets=o.targets, class_vectors=o.class_vectors, dim=o.dim, candidates=o.candidates
    )


if __name__ == "__main__":
    main()
