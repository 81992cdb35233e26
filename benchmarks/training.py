"""The training loop beside the bare forward and backward pass of the same network, on the same number of images.

usage: python benchmarks/training.py [--backbone NAME] [--size S] [--batch B] [--rounds R] [--parts PART ...]

overhead    a step of the loop for f*, HD and OF (reading, embedding, loss, backward, clipping, optimiser), as a share
            of the bare pass: at most 5 % more. They run in turn in one process. A share is the ratio of two medians of
            processor time: a neighbour on the machine takes wall time, not processor time.
keys        a step of f* under other settings of the recipe, as a share of the step with the defaults.
loaders     the time to read a batch from stored pixels, and to decode it from JPEG, as a share of the step.
processes   wall time of a step of two processes on a core each, against one process on one core, of the same batch: it
            wants an idle machine of two cores. Beside it the bound that processor time sets: twice that of one process
            over the sum of both, which a busy machine tells as well.
"""

import argparse
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import history
from damnatio.faces.decoding import decode
from damnatio.heads.cosface import CosFace
from damnatio.methods.base import ForgetSet, fine_tuning
from damnatio.models.card import Card
from damnatio.models.inputs import Pixels, Rows
from damnatio.models.store import new_backbone
from damnatio.recipe.schema import Optimisation
from damnatio.support import processes
from damnatio.support.devices import set_threads
from damnatio.training.batch_norm import synchronised
from damnatio.training.loop import Forgetting, Job, _Loop

DIM, CLASSES, IMAGES = 512, 1000, 4096
TARGET, SPEEDUP = 0.05, 1.6
"""the most that a step may cost beyond the bare pass; the least that a second process on a second core must give"""
KEYS: dict[str, dict[str, Any]] = {
    "precision: bf16": {"precision": "bf16"},
    "channels_last: false": {"channels_last": False},
    "compile: true": {"compile": True},
    "micro_batch: a quarter": {"micro_batch": 0},
}


class Stored:
    """Pixels in memory, as those of a run's cache are once they were read."""

    def __init__(self, size: int) -> None:
        self.pixels = np.random.default_rng(0).integers(0, 256, (IMAGES, size, size, 3), dtype=np.uint8)

    def read(self, rows: Rows) -> Any:
        return self.pixels[rows]


def loop_of(o: argparse.Namespace, method: str | None = None, **settings: Any) -> _Loop:
    """The loop over a batch of `batch` images, of which a method takes a third as forget images."""
    torch.manual_seed(0)
    backbone = new_backbone(o.backbone, o.size, DIM)
    head, card = CosFace(CLASSES, DIM), Card(backbone=o.backbone, dim=DIM, size=o.size)
    forgetting, retained = None, o.batch
    if method:
        original = new_backbone(o.backbone, o.size, DIM).eval().requires_grad_(False)
        images = ForgetSet(np.arange(3000, 3960), np.arange(960) // 8)
        kind = fine_tuning(method)
        people = max(1, o.batch // 24)
        retained = o.batch - 8 * people
        made = kind(kind.Settings(method=method, retain="classify"), images, head)
        forgetting = Forgetting(made, images, original, people, 8, False)
    if settings.get("micro_batch") == 0:
        settings["micro_batch"] = max(2, o.batch // 4)
    chosen = Optimisation(batch=retained, epochs=1000, **settings)
    rows = np.arange(2 * CLASSES)
    inputs = Pixels(Stored(o.size), card)
    job = Job(method or "f*", backbone, head, card, inputs, rows, rows // 2, chosen, 0.01, 1, forgetting)
    loop = _Loop(job, Path(tempfile.mkdtemp()))
    loop.begin()
    return loop


def stepper(loop: _Loop) -> Callable[[], Any]:
    steps = iter(range(loop.steps))

    def run() -> None:
        step = next(steps)
        loop._step(step, loop.batches[step])

    return run


def bare_pass(o: argparse.Namespace) -> Callable[[], Any]:
    network = new_backbone(o.backbone, o.size, DIM).train()
    x = torch.randn(o.batch, 3, o.size, o.size).contiguous(memory_format=torch.channels_last)

    def run() -> None:
        network.zero_grad(set_to_none=True)
        network(x).sum().backward()

    return run


def medians(runs: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Seconds of processor time of each, in turn; the first round does not count."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            started = time.process_time()
            run()
            if turn:
                times[name].append(time.process_time() - started)
    return {name: statistics.median(taken) for name, taken in times.items()}


def overhead(o: argparse.Namespace) -> dict[str, float]:
    runs = {"bare": bare_pass(o), "f*": stepper(loop_of(o))}
    runs |= {method: stepper(loop_of(o, method)) for method in ("HD", "OF")}
    found = medians(runs, o.rounds)
    bare = found.pop("bare")
    print(f"bare pass: {o.batch / bare:,.0f} images per second of processor time")
    for name, seconds in found.items():
        print(f"  {name:<3} {o.batch / seconds:8,.0f} images/s  {100 * (seconds / bare - 1):+5.1f} %  (target: 5 %)")
    return {f"overhead {name}": seconds / bare for name, seconds in found.items()}


def keys(o: argparse.Namespace) -> dict[str, float]:
    runs = {"": stepper(loop_of(o)), **{name: stepper(loop_of(o, **settings)) for name, settings in KEYS.items()}}
    found = medians(runs, o.rounds)
    plain = found.pop("")
    for name, seconds in found.items():
        print(f"  {name:<24} {seconds / plain:5.2f} of the time of a step with the defaults")
    return {name: seconds / plain for name, seconds in found.items()}


def loaders(o: argparse.Namespace) -> dict[str, float]:
    loop = loop_of(o)
    content = io.BytesIO()
    smooth = Image.effect_noise((o.size // 4, o.size // 4), 60).convert("RGB").resize((o.size, o.size))
    smooth.save(content, "JPEG", quality=95)
    image = content.getvalue()
    runs = {
        "step": stepper(loop),
        "stored pixels": lambda: loop.batches[7],
        "JPEG": lambda: [decode(image) for _ in range(o.batch)],
    }
    found = medians(runs, o.rounds)
    step = found.pop("step")
    for name, seconds in found.items():
        print(f"  {name:<14} {o.batch / seconds:9,.0f} images/s: {100 * seconds / step:5.2f} % of a step")
    return {f"reading {name}": seconds / step for name, seconds in found.items()}


def work(o: argparse.Namespace) -> None:
    """Some steps of f* in this process or group; the main process prints the wall seconds of the median step, and the
    processor seconds of all processes."""
    processes.join()
    loop = loop_of(o)
    run, walls, works = stepper(loop), [], []
    with synchronised(loop.job.backbone):
        for turn in range(o.rounds + 1):
            started, worked = time.perf_counter(), time.process_time()
            run()
            if turn:
                walls.append(time.perf_counter() - started)
                works.append(time.process_time() - worked)
    total = sum(processes.from_all(statistics.median(works)))
    if processes.is_main():
        print(statistics.median(walls), total, flush=True)
    processes.leave()


def several(o: argparse.Namespace) -> dict[str, float]:
    """One process and two take turns, since each has to start."""
    words = [sys.executable, __file__, "--work", "--backbone", o.backbone, "--size", str(o.size)]
    words += ["--batch", str(o.batch), "--rounds", str(o.rounds)]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    found: dict[int, list[list[float]]] = {1: [], 2: []}
    for _ in range(o.starts):
        for count, prefix in ((1, []), (2, torchrun)):
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = subprocess.run([*prefix, *words], env=environment, capture_output=True, text=True, check=True)
            found[count].append([float(number) for number in done.stdout.split()[-2:]])
    one, two = (np.median(found[count], axis=0) for count in (1, 2))
    print(
        f"  two processes: {one[0] / two[0]:.2f} times one (target: {SPEEDUP}); the bound is {2 * one[1] / two[1]:.2f}"
    )
    return {"two processes": float(one[0] / two[0]), "two processes, bound": float(2 * one[1] / two[1])}


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, float]]] = {
    "overhead": overhead,
    "keys": keys,
    "loaders": loaders,
    "processes": several,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="iresnet-small")
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--starts", type=int, default=3, help="of one process and of two, for the part `processes`")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    o = parser.parse_args()
    set_threads(1)
    if o.work:
        return work(o)
    print(f"{o.backbone} at {o.size} pixels, {o.batch} images, {CLASSES:,} classes, one thread")
    ratios: dict[str, float] = {}
    for part in o.parts:
        print(f"\n{part}")
        ratios |= PARTS[part](o)
    history.append("training", ratios, backbone=o.backbone, size=o.size, batch=o.batch, rounds=o.rounds)


if __name__ == "__main__":
    main()
