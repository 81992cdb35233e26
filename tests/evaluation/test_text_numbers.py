"""The numbers of the paper's text, worked by hand: every embedding is an axis, so that a score of single images is 0 or
1, and one with an average of n axes 0 or 1 / sqrt(n)."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from damnatio.evaluation.measuring import Measured, measure
from damnatio.partitions import Partitions
from damnatio.support.tables import Table
from tests.evaluation.small_world import SCALES, compared, keyed, partitions


def embedded(table: Table, hidden: bool) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Everybody is an axis. If the forgotten are hidden, each forget-train image is an axis of its own, and every
    forget-eval image lies on the axis of the first forget-train image of its person."""
    rows = Partitions(table, SCALES).evaluated()
    axes: dict[tuple[str, int], int] = {}
    seen: dict[str, int] = {}
    chosen = []
    for row in rows:
        name, part, role = (str(table[column][row]) for column in ("identity", "partition", "role"))
        number = 0
        if hidden and part == "F" and role == "train":
            number = seen[name] = seen.get(name, -1) + 1
        chosen.append(axes.setdefault((name, number), len(axes)))
    return np.eye(len(axes))[chosen], rows


def measured(hidden: bool) -> tuple[Table, Measured]:
    table = partitions()
    return table, measure(compared(table, *embedded(table, hidden), "S2"), [0.01], None, replicates=5)


def images(table: Table, role: str) -> dict[str, int]:
    """How many forget images of a role each person has."""
    mine = (table["partition"] == "F") & (table["role"] == role)
    names, counts = np.unique(table["identity"][mine], return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


GROUPS = ("R", "T", "T single", "Ftr-Ftr", "Ftr-Fev", "Fev-Fev", "avg(Ftr)-Fev")


def test_before_forgetting_every_mated_score_is_one_and_every_other_is_none() -> None:
    _, found = measured(hidden=False)
    results = keyed(found.results)
    assert results["1:1", "D", None, "threshold_0.001"][0] == math.nextafter(0, 1)  # all strangers tie at 0
    assert results["1:1", "R", None, "threshold_eer"][0] == 1  # the lowest at which nobody is rejected or accepted
    for group in GROUPS:
        shape = [results["1:1", group, None, metric][0] for metric in ("std", "quantile_0.001")]
        assert shape == [0, 1], group
        assert results["1:1", group, None, "above_0.001"][0] == 1, group
        assert results["1:1", group, None, "TMR_eer"][0] == 1, group
    for group in GROUPS[3:]:
        assert results["1:1", group, None, "W1_retain"][0] == 1, group


def test_averaging_relinks_what_single_images_do_not() -> None:
    table, found = measured(hidden=True)
    results = keyed(found.results)
    train, evaluated = images(table, "train"), images(table, "eval")
    pairs = sum(train[name] * count for name, count in evaluated.items())
    probes = sum(evaluated.values())
    share = probes / pairs  # each eval image meets its own axis once
    assert results["1:1", "Ftr-Ftr", None, "above_0.001"] == (0, sum(n * (n - 1) // 2 for n in train.values()))
    assert results["1:1", "Ftr-Fev", None, "above_0.001"] == (share, pairs)
    assert results["1:1", "avg(Ftr)-Fev", None, "above_0.001"] == (1, probes)  # 1 / sqrt(n) is more than 0
    assert results["1:1", "avg(Ftr)-Fev", None, "TMR_eer"] == (0, probes)  # and less than 1
    assert results["1:1", "Fev-Fev", None, "TMR_eer"][0] == 1
    assert results["1:1", "Ftr-Fev", None, "TMR_eer"] == (share, pairs)


def test_shape_and_distance_of_scores_of_which_some_are_linked() -> None:
    table, found = measured(hidden=True)
    results = keyed(found.results)
    train, evaluated = images(table, "train"), images(table, "eval")
    share = sum(evaluated.values()) / sum(train[name] * count for name, count in evaluated.items())
    assert results["1:1", "Ftr-Fev", None, "W1_retain"][0] == pytest.approx(share)  # so much moves from 0 to 1
    assert results["1:1", "Ftr-Fev", None, "std"][0] == pytest.approx(math.sqrt(share * (1 - share)))
    assert results["1:1", "Ftr-Fev", None, "quantile_0.001"][0] == 0
    averages = [1 / math.sqrt(train[name]) for name, count in evaluated.items() for _ in range(count)]
    mean = sum(averages) / len(averages)
    assert results["1:1", "avg(Ftr)-Fev", None, "W1_retain"][0] == pytest.approx(mean, abs=1e-7)  # all moved up from 0
    assert results["1:1", "avg(Ftr)-Fev", None, "quantile_0.001"][0] == pytest.approx(min(averages), abs=1e-7)
    deviation = math.sqrt(sum((score - mean) ** 2 for score in averages) / len(averages))
    assert results["1:1", "avg(Ftr)-Fev", None, "std"][0] == pytest.approx(deviation, abs=1e-7)


def test_a_threshold_that_rests_on_too_few_comparisons_is_warned_of_once() -> None:
    table = partitions()
    units = embedded(table, hidden=False)
    for points in ([0.01], [0.001, 0.01]):
        warnings = measure(compared(table, *units, "S2"), points, None).warnings
        mine = [w for w in warnings if w["task"] == "1:1" and w["operating_point"] == 0.001]
        assert len(mine) == 1
        assert mine[0]["warning"].startswith("FMR = 0.001 ")


def test_intervals_draw_the_people_of_the_group() -> None:
    _, found = measured(hidden=True)
    rows = {(r.group, r.metric): r for r in found.results}
    for metric in ("above_0.001", "TMR_eer"):
        row = rows["Ftr-Fev", metric]
        assert 0 < row.low <= row.value <= row.high < 1
        assert row.subjects == 4
