"""The front of a set of points, by hand and against a definition in other words."""

import math

import numpy as np

from damnatio.reporting.pareto import dominated


def test_front_worked_by_hand() -> None:
    points = [(1, 5), (2, 3), (2, 4), (3, 3), (4, 1), (5, 1)]
    assert dominated(points) == [False, False, True, True, False, True]
    assert dominated([]) == []


def test_equal_points_share_the_front_and_unknown_ones_are_off_it() -> None:
    assert dominated([(1, 1), (1, 1), (math.nan, 0), (2, 2)]) == [False, False, True, True]


def test_order_and_scale_of_the_axes_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    points = rng.integers(0, 6, (40, 2)).astype(float)
    found = np.array(dominated(points.tolist()))
    better = np.all(points[None] <= points[:, None], axis=-1) & np.any(points[None] < points[:, None], axis=-1)
    assert found.tolist() == np.any(better, axis=1).tolist()
    order = rng.permutation(len(points))
    assert (np.array(dominated((7 * points[order, ::-1]).tolist())) == found[order]).all()
