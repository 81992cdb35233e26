"""Which kind of product a job takes: the one with which the whole job costs least, by the clock.

Not the clock of the product alone: a narrow type leaves more pairs open, and what these cost depends on the vectors.
So the first parts of a job are done by one kind after the other, scan and rescoring included, and the rest by the kind
that took least. Each part is done once and stays done: the trial costs what the slower kinds lose on it.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
Clock = Callable[[], float]

PAIRS = 1 << 28
"""A job of fewer pairs takes the usual kind: it ends within seconds, and copies for a trial would be much of it."""
PROMISE = 0.8
"""A kind is worth a trial if its bare tile takes at most this share of the usual one's time: more work follows it."""
GAIN = 0.9
"""A kind is chosen if its part of the trial took at most this share of the usual one's time. A smaller gain is within
the error of a short measurement."""
SHARE = 16
"""A trial of one kind is at most one part in so many of the job."""


def seconds(run: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    start = clock()
    run()
    return clock() - start


def promising(usual: T, others: Sequence[T], tile: Callable[[T], float]) -> list[T]:
    """The kinds whose tile is quicker than the usual one's. `tile` measures one, or raises RuntimeError where this
    machine has no such product."""
    limit = PROMISE * min(tile(usual) for _ in range(3))
    found = []
    for kind in others:
        try:
            if tile(kind) < 4 * limit and min(tile(kind) for _ in range(3)) <= limit:  # the first may be a slow start
                found.append(kind)
        except RuntimeError:
            continue
    return found


def trial(
    kinds: Sequence[T],
    prepare: Callable[[T], object],
    run: Callable[[T, int, int], object],
    parts: int,
    size: int,
    clock: Clock = time.perf_counter,
) -> tuple[T, int]:
    """(kind, done): the kind that the rest of a job of so many parts should take, and how many parts are done.

    `run(kind, start, stop)` does these parts, after `prepare(kind)`, which is done by then whatever is chosen and so
    does not count. The first of `kinds` is the usual one; each does up to `size` parts.
    """
    size = min(size, parts // SHARE)
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
