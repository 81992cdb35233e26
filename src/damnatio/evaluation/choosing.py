"""Choose the kind of product with which a whole job takes least time.

The time of the product alone does not decide: a narrow type leaves more pairs open, and their cost depends on the
vectors. So each kind in turn does some of the first pieces of the job, scan and rescoring included, and the kind that
took least time does the rest. Each piece is done once: the trial costs only what the slower kinds lose on it.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
Clock = Callable[[], float]

PAIRS = 1 << 28
"""A job of fewer pairs takes the usual kind: it ends within seconds, and the copies for a trial would take much of that
time."""
PROMISE = 0.8
"""A kind is tried if its bare tile takes at most this share of the time of the usual kind: more work follows the
tile."""
GAIN = 0.9
"""A kind is chosen if its trial took at most this share of the time of the usual kind. A smaller gain is within the
error of a short measurement."""
SHARE = 16
"""The trial of one kind takes at most one in so many pieces of the job."""


def seconds(run: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    start = clock()
    run()
    return clock() - start


def promising(usual: T, others: Sequence[T], tile: Callable[[T], float]) -> list[T]:
    """The kinds whose tile is quicker than that of the usual kind. `tile` measures a kind, and raises RuntimeError if
    this machine has no such product."""
    limit = PROMISE * min(tile(usual) for _ in range(3))
    found = []
    for kind in others:
        try:
            if tile(kind) < 4 * limit and min(tile(kind) for _ in range(3)) <= limit:  # the first run may be slow
                found.append(kind)
        except RuntimeError:
            continue
    return found


def trial(
    kinds: Sequence[T],
    prepare: Callable[[T], object],
    run: Callable[[T, int, int], object],
    pieces: int,
    size: int,
    clock: Clock = time.perf_counter,
) -> tuple[T, int]:
    """(kind, done): the kind that should do the rest of the job, and how many pieces are done.

    `run(kind, start, stop)` does these pieces. `prepare(kind)` comes first and is not timed, because it is then done
    whatever is chosen. The first of `kinds` is the usual one. Each kind does up to `size` of the job's `pieces`.
    """
    size = min(size, pieces // SHARE)
    if len(kinds) < 2 or not size:
        return kinds[0], 0
    done = 0
    best, least = kinds[0], float("inf")
    for place, kind in enumerate(kinds):
        prepare(kind)
        taken = seconds(lambda kind=kind, start=done: run(kind, start, start + size), clock)  # type: ignore[misc]
        done += size
        if taken < least:
            best, least = kind, taken if place else taken * GAIN
    return best, done
