"""Findings are judged by the numbers and by nothing else."""

import math

import numpy as np
import pytest

from damnatio.reporting.findings import FAILS, HOLDS, UNKNOWN, judge, markdown
from damnatio.support.tables import Table

NAMES = ["backbone", "scale", "method", "task", "group", "operating_point", "metric", "value", "count"]
WARNED = ["backbone", "scale", "method", "task", "group", "operating_point", "warning"]

# The paper's own numbers on S1 with the iResNet-34 (Tables III and IV, and the text for Ftr-Fev and averaging).
MODELS = ["original", "CURE", "NG+", "PD", "HD", "CP", "EC", "OF"]
PAPER = {
    ("1:1", "T", "TMR"): [0.988, 0.869, 0.978, 0.978, 0.980, 0.979, 0.982, 0.952],
    ("1:1", "Ftr-Ftr", "TMR"): [0.912, 0.351, 0.998, 0.165, 0.097, 0.423, 0.001, 0.000],
    ("1:1", "Ftr-Fev", "TMR"): [0.911, 0.3, 0.9, 0.170, 0.103, 0.429, 0.044, 0.005],
    ("1:1", "avg(Ftr)-Fev", "TMR"): [0.99, 0.5, 0.95, 0.4, 0.3, 0.6, 0.95, 0.27],
    ("1:1", "Fev-Fev", "TMR"): [0.912, 0.256, 0.829, 0.216, 0.128, 0.485, 0.232, 0.106],
    ("1:1", "FtrxFtr", "FMR"): [0.0001, 0.0, 0.013, 0.036, 0.012, 0.265, 0.0, 0.0],
    ("1:N", "R", "TPIR"): [0.902, 0.137, 0.015, 0.946, 0.933, 0.000, 0.951, 0.694],
    ("1:1", "Ftr-Ftr", "W1"): [0.480, 0.026, 0.968, 0.162, 0.100, 0.435, 0.058, 0.006],
    ("1:1", "Ftr-Fev", "W1"): [0.480, 0.026, 0.8, 0.16, 0.094, 0.4, 0.1, 0.02],
    ("1:1", "Fev-Fev", "W1"): [0.480, 0.025, 0.740, 0.153, 0.103, 0.370, 0.155, 0.110],
    ("1:1", "R", "footprint"): [0.0, 1.256, 0.029, 0.021, 0.015, 0.027, 0.018, 0.102],
}


def results(
    changed: dict[tuple[str, str, str], dict[str, float]] | None = None, backbone: str = "iresnet34", scale: str = "S1"
) -> Table:
    rows = []
    for key, values in PAPER.items():
        task, group, metric = key
        point = math.nan if metric in ("W1", "footprint") else 1e-4
        for method, value in zip(MODELS, values, strict=True):
            now = (changed or {}).get(key, {}).get(method, value)
            rows.append([backbone, scale, method, task, group, point, metric, now, 100_000])
    return Table.of_rows(NAMES, rows)


NO_WARNINGS = Table.of_rows(WARNED, [])


def verdicts(table: Table, warnings: Table = NO_WARNINGS) -> list[str]:
    return [finding.verdict for finding in judge([(table, warnings)])]


def test_the_papers_own_numbers_bear_its_findings_out() -> None:
    """All but the backbones', which one run cannot show, and the last, which needs two scales."""
    assert verdicts(results()) == [HOLDS] * 6 + [UNKNOWN, UNKNOWN]
    both = [(results(), NO_WARNINGS), (results(scale="S2"), NO_WARNINGS)]
    assert judge(both)[7].verdict == HOLDS


@pytest.mark.parametrize(
    ("key", "method", "value", "broken"),
    [
        (("1:1", "Ftr-Ftr", "W1"), "EC", 0.5, 1),
        (("1:1", "FtrxFtr", "FMR"), "HD", 0.0, 1),
        (("1:1", "Ftr-Ftr", "TMR"), "NG+", 0.2, 2),
        (("1:N", "R", "TPIR"), "CURE", 0.9, 2),
        (("1:1", "Ftr-Fev", "W1"), "OF", 0.2, 3),
        (("1:1", "Fev-Fev", "TMR"), "CP", 0.1, 4),
        (("1:1", "avg(Ftr)-Fev", "TMR"), "EC", 0.01, 5),
        (("1:1", "R", "footprint"), "HD", 0.3, 6),
        (("1:1", "T", "TMR"), "HD", 0.5, 8),
    ],
)
def test_a_number_that_contradicts_a_finding_breaks_it(
    key: tuple[str, str, str], method: str, value: float, broken: int
) -> None:
    assert verdicts(results({key: {method: value}}))[broken - 1] == FAILS


def test_a_missing_method_or_an_unsound_operating_point_cannot_be_judged() -> None:
    table = results()
    without = table.where(table["method"] != "NG+")
    assert verdicts(without)[1] == UNKNOWN
    warned = Table.of_rows(WARNED, [["iresnet34", "S1", "OF", "1:1", "D", 1e-4, "too few"]])
    assert verdicts(table, warned)[3] == UNKNOWN


def test_a_claim_that_one_comparison_would_turn_is_not_decided() -> None:
    """Of 51 searches none against 0.005 of a thousand: whether averaging helps cannot be said."""
    table = results({("1:1", "Ftr-Fev", "TMR"): {"OF": 0.005}, ("1:1", "avg(Ftr)-Fev", "TMR"): {"OF": 0.0}})
    assert verdicts(table)[4] == FAILS
    counts = np.where((table["method"] == "OF") & (table["group"] == "avg(Ftr)-Fev"), 51, table["count"])
    few = Table({**table.columns, "count": counts})
    assert verdicts(few)[4] == UNKNOWN


def test_several_backbones_can_be_compared() -> None:
    other = results({("1:N", "R", "TPIR"): {"original": 1.0, "OF": 0.982}}, backbone="vit-b")
    runs = [(results(), NO_WARNINGS), (other, NO_WARNINGS)]
    assert judge(runs)[6].verdict == HOLDS
    worse = results({("1:1", "Ftr-Ftr", "W1"): {"OF": 0.4}}, backbone="vit-b")
    assert judge([(results(), NO_WARNINGS), (worse, NO_WARNINGS)])[6].verdict == FAILS


def test_the_text_gives_each_claim_with_its_numbers() -> None:
    text = markdown(judge([(results(), NO_WARNINGS)]))
    assert "3. **holds**: Strong forgetting" in text
    assert "original 0.48, OF 0.006" in text
    assert "7. **cannot be judged here**" in text
