"""The paper's whole protocol on random embeddings: the time of each job, the peak memory, and the time at full size.

`make bench-paper-eval` runs a tenth of the identities. Each job is timed at half that size and at that size. The time
at full size follows from the slope between the two, per comparison.
"""

import argparse
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

import history
from damnatio.evaluation.comparing import leave_one_out, mated_across, search, templates
from damnatio.evaluation.nonmated import nonmated_pairs
from damnatio.evaluation.pairings import Vectors, Within
from damnatio.evaluation.scanning import Units, dots, nonmated_count, on_grid
from damnatio.evaluation.tails import scan_tail
from damnatio.support.tables import Codes

FULL = {
    "development images": 700_000,
    "images per development identity": 20,
    "gallery templates": 53_000,
    "test images": 20_000,
    "forget images": 20_000,
    "images per identity": 20,
}
"""Orders of size of the paper's S1 protocol; the paper gives identities, not images."""


@dataclass
class World:
    development: tuple[Units, Codes]
    gallery: tuple[Units, Codes]
    test: tuple[Units, Codes]
    forget: tuple[Units, Codes]


def drawn(images: int, each: int, dim: int, first: int, rng: np.random.Generator) -> tuple[Units, Codes]:
    """Images of identities: each identity is a direction, each image adds noise."""
    codes = np.arange(images) // each
    centres = rng.standard_normal((int(codes.max()) + 1, dim), dtype=np.float32)
    vectors = (centres[codes] + rng.standard_normal((images, dim), dtype=np.float32)).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return on_grid(vectors), codes + first


def world(share: float, dim: int) -> World:
    rng = np.random.default_rng(0)
    size = {name: max(int(count * share), 200) for name, count in FULL.items() if not name.startswith("images ")}
    return World(
        drawn(size["development images"], FULL["images per development identity"], dim, 10**6, rng),
        drawn(size["gallery templates"], 1, dim, 2 * 10**6, rng),
        drawn(size["test images"], FULL["images per identity"], dim, 3 * 10**6, rng),
        drawn(size["forget images"], FULL["images per identity"], dim, 4 * 10**6, rng),
    )


def jobs(w: World) -> dict[str, tuple[int, Callable[[], object]]]:
    """The number of comparisons and the work of each job, by its name."""
    linked, enrolled = templates(*w.forget), templates(*w.test)
    gallery = (
        np.concatenate([w.gallery[0], linked[0], enrolled[0]]),
        np.concatenate([w.gallery[1], linked[1], enrolled[1]]),
    )
    pairs = nonmated_count(w.development[1])
    a, b = mated_across(w.forget[1], w.forget[1])
    return {
        "threshold, all development pairs": (pairs, lambda: scan_tail(*w.development, (1e-4, 1e-2))),
        "search, development probes": (
            len(w.development[1]) * len(gallery[1]),
            lambda: search(*w.development, *gallery),
        ),
        "search, mated probes": (len(w.test[1]) * len(gallery[1]), lambda: search(*w.test, *gallery)),
        "leave-one-out templates": (len(w.forget[1]), lambda: leave_one_out(*w.forget)),
        "mated forget pairs": (len(a), lambda: dots(w.forget[0], a, w.forget[0], b)),
        "non-mated test pairs, distribution": (
            nonmated_count(w.test[1]),
            lambda: nonmated_pairs(Within(Vectors(*w.test))).spread((0.1,)),
        ),
        "non-mated forget pairs, distribution": (
            nonmated_count(w.forget[1]),
            lambda: nonmated_pairs(Within(Vectors(*w.forget))).spread((0.1,)),
        ),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--share", type=float, default=0.1, help="of the paper's size (0.1)")
    options.add_argument("--dim", type=int, default=512)
    options.add_argument("--history", action=argparse.BooleanOptionalAction, default=True, help="keep the ratios")
    o = options.parse_args()
    sizes = ", ".join(f"{count:,} {name}" for name, count in FULL.items())
    print(f"{torch.get_num_threads()} threads; sizes at {o.share:g} of: {sizes}")
    times: list[dict[str, tuple[int, float]]] = []
    for share in (o.share / 2, o.share):
        taken = {}
        for name, (count, work) in jobs(world(share, o.dim)).items():
            start = time.perf_counter()
            work()
            taken[name] = count, time.perf_counter() - start
        times.append(taken)
    squared = {name: (1 / o.share) ** (1 if name.startswith(("leave", "mated")) else 2) for name in times[0]}
    print(f"\n{'job':<40}{'comparisons':>18}{'s':>9}{'ns each':>9}{'full size':>18}{'minutes':>9}")
    whole = 0.0
    for name, (count, seconds) in times[1].items():
        half_count, half_seconds = times[0][name]
        slope = max((seconds - half_seconds) / max(count - half_count, 1), 0.0)
        full = count * squared[name]
        minutes = (seconds + slope * (full - count)) / 60
        whole += minutes
        print(f"{name:<40}{count:>18,}{seconds:>9.2f}{seconds / count * 1e9:>9.2f}{full:>18,.0f}{minutes:>9.1f}")
    print(f"{'whole protocol':<40}{'':>18}{sum(s for _, s in times[1].values()):>9.2f}{'':>27}{whole:>9.1f}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    per_comparison = {f"ns: {name}": seconds / count * 1e9 for name, (count, seconds) in times[1].items()}
    if o.history:
        history.append("paper_evaluation", {**per_comparison, "minutes at full size": whole}, share=o.share, dim=o.dim)


if __name__ == "__main__":
    main()
