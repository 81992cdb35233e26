"""Frames for the forget images: naive greedy, ours and the closed form, in one process.

usage: python benchmarks/frames.py [--targets N] [--rows R] [--dim D] [--candidates C] [--naive-targets M]

Naive greedy draws fresh candidates for every target and compares each with all rows and all targets placed: its time is
measured on the first few targets and scaled, which flatters it, since later targets cost more.
"""

import argparse
import resource
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from damnatio.frames import ClosedFrame, greedy_frame


def naive_greedy(count: int, rows: Tensor, candidates: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    placed = rows
    for _ in range(count):
        pool = F.normalize(torch.randn(candidates, rows.shape[1], generator=generator), dim=1)
        worst = (pool @ placed.T).amax(dim=1)
        placed = torch.cat([placed, pool[worst.argmin()][None]])
    return placed[len(rows) :]


def coherence(frame: Tensor, rows: Tensor) -> tuple[float, float]:
    """The largest absolute cosine between two targets, and the largest cosine of a target to a row."""
    among, to_rows = 0.0, -1.0
    for start in range(0, len(frame), 512):
        block = frame[start : start + 512]
        products = (block @ frame.T).abs()
        products[torch.arange(len(block)), start + torch.arange(len(block))] = 0
        among = max(among, float(products.max()))
        to_rows = max(to_rows, *(float((block @ part.T).max()) for part in torch.split(rows, 8192)))
    return among, to_rows


def timed(build: Callable[[], Tensor]) -> tuple[float, Tensor]:
    started = time.perf_counter()
    frame = build()
    return time.perf_counter() - started, frame


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--candidates", type=int, default=4096)
    parser.add_argument("--naive-targets", type=int, default=3)
    o = parser.parse_args()
    rows = F.normalize(torch.randn(o.rows, o.dim, generator=torch.Generator().manual_seed(0)), dim=1)
    print(f"{o.targets:,} targets against {o.rows:,} rows at d = {o.dim}, {torch.get_num_threads()} threads\n")
    print(f"{'frame':<14} {'time':>10} {'stored':>10} {'coherence':>10} {'to rows':>9}   note")

    seconds, some = timed(lambda: naive_greedy(o.naive_targets, rows, o.candidates, 1))
    naive = seconds / o.naive_targets * o.targets
    among, to_rows = coherence(some, rows)
    stored = o.targets * o.dim * 4 / 1e6
    note = f"scaled from {o.naive_targets} targets"
    print(f"{'naive greedy':<14} {naive:>8.0f} s {stored:>7.1f} MB {among:>10.4f} {to_rows:>9.4f}   {note}")

    ours, frame = timed(lambda: greedy_frame(o.targets, rows, o.candidates, 1))
    among, to_rows = coherence(frame, rows)
    note = f"{naive / ours:.0f} x as fast as naive"
    print(f"{'greedy':<14} {ours:>8.1f} s {stored:>7.1f} MB {among:>10.4f} {to_rows:>9.4f}   {note}")

    closed, frame = timed(lambda: ClosedFrame(o.dim, 1)(torch.arange(o.targets)))
    among, to_rows = coherence(frame, rows)
    note = f"{naive / closed:.0f} x; any target from its index, {1e6 * closed / o.targets:.0f} us each"
    print(f"{'closed form':<14} {closed:>8.1f} s {o.dim**2 * 4 / 1e6:>7.1f} MB {among:>10.4f} {to_rows:>9.4f}   {note}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"\npeak memory of the process: {peak:.2f} GB, of which {o.rows * o.dim * 4 / 1e9:.2f} GB are the rows")


if __name__ == "__main__":
    main()
