"""Pareto fronts: which of several points no other point beats. On every axis less is better."""

import math
from collections.abc import Sequence


def dominated(points: Sequence[Sequence[float]]) -> list[bool]:
    """For each point, whether another one is as low on every axis and lower on one. Equal points do not dominate each
    other. A point that lacks a coordinate (NaN) counts as dominated, and dominates none."""
    known = [tuple(point) for point in points if not any(map(math.isnan, point))]
    return [tuple(point) not in known or any(beats(other, point) for other in known) for point in points]


def beats(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether `one` is as low on every axis and lower on one."""
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
