"""A training step of the f* of rendered.yaml: one thread and two, spinning and passive, alone and beside others.

usage: python benchmarks/threads.py [--rounds N] [--busy N]

OpenMP's threads wait for each other at the end of every operation. By default they spin there: they waste a core that
another process could use, and wait for a thread that is not even scheduled. With `OMP_WAIT_POLICY=PASSIVE` they sleep.
One process per setting takes its turn of a few steps, round after round, so that all of them see the same machine.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

SPINNING, PASSIVE = "spinning", "PASSIVE"
"""libgomp's default spins for some milliseconds and then sleeps; PASSIVE sleeps at once"""
SETTINGS = [(SPINNING, 1), (PASSIVE, 1), (SPINNING, 2), (PASSIVE, 2)]


def work(steps: int) -> None:
    """Answer each line of the input with the seconds that some steps took."""
    import torch  # before damnatio, which may choose PASSIVE

    from damnatio.models.store import new_backbone, new_head
    from damnatio.recipe.files import load

    recipe = load(Path(__file__).resolve().parent / "rendered.yaml")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    backbone = new_backbone(recipe.model.backbone, recipe.faces.size, recipe.model.dim)
    head = new_head(recipe.model, recipe.partitions.retain)
    optimiser = torch.optim.AdamW([*backbone.parameters(), *head.parameters()], lr=1e-3)
    x = torch.randn(recipe.train.batch, 3, recipe.faces.size, recipe.faces.size)
    x = x.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(recipe.partitions.retain, (recipe.train.batch,))
    for _ in sys.stdin:
        started = time.perf_counter()
        for _ in range(steps):
            optimiser.zero_grad()
            head(backbone(x), labels).backward()
            optimiser.step()
        print((time.perf_counter() - started) / steps, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--busy", type=int, default=1, help="processes that compute all the time, in the second half")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options.steps)
    ratios: dict[str, float] = {}
    workers = []
    for policy, threads in SETTINGS:
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": policy}
        if policy == SPINNING:
            del environment["OMP_WAIT_POLICY"]
        command = [sys.executable, __file__, "--work", "--steps", str(options.steps)]
        workers.append(
            subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
    for busy in (0, options.busy):
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
        seconds: list[list[float]] = [[] for _ in workers]
        for turn in range(options.rounds + 1):
            for worker, taken in zip(workers, seconds, strict=True):
                assert worker.stdin
                assert worker.stdout
                worker.stdin.write("go\n")
                worker.stdin.flush()
                answer = float(worker.stdout.readline())
                if turn:  # the first turn warms up
                    taken.append(answer)
        for other in others:
            other.kill()
        print(f"beside {busy} busy processes: seconds per step, median (least to most); times the fastest setting")
        best = min(statistics.median(taken) for taken in seconds)
        for (policy, threads), taken in zip(SETTINGS, seconds, strict=True):
            middle = statistics.median(taken)
            ratios[f"beside {busy} busy: {policy}, {threads} threads"] = middle / best
            print(
                f"  {policy:<8} {threads} threads  {middle:7.3f} ({min(taken):.3f} to {max(taken):.3f})  "
                f"{middle / best:5.2f} x",
                flush=True,
            )
    for worker in workers:
        worker.kill()
    import history  # imports torch, which each process above loads with its own setting

    history.append("threads", ratios, rounds=options.rounds, steps=options.steps)


if __name__ == "__main__":
    main()
