"""Fig. 7 and Fig. 3: what they place where, on the paper's own numbers and by hand."""

import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from damnatio.reporting import trade_off
from damnatio.reporting.looks import METHODS
from damnatio.reporting.lookup import Results
from damnatio.reporting.panels import Panel
from damnatio.reporting.weak_strong import Chosen, choose
from damnatio.support.tables import Table

COLUMNS = ("scale", "method", "task", "group", "operating_point", "metric", "value", "count", "low", "high")
STRONG = {
    "original": (0.0, 0.480),
    "PD": (0.021, 0.162),
    "HD": (0.015, 0.100),
    "CP": (0.027, 0.435),
    "EC": (0.018, 0.058),
    "OF": (0.102, 0.006),
}
"""footprint and W1 of Ftr-Ftr on S1, of the paper's Table III"""
WEAK = {
    "original": (0.99, 0.95),
    "PD": (0.97, 0.50),
    "HD": (0.97, 0.40),
    "CP": (0.98, 0.70),
    "EC": (0.985, 0.60),
    "OF": (0.9, 0.3),
}
"""made up: TMR of T and of Fev-Fev at the equal-error threshold"""
ABOVE = {"original": 0.95, "PD": 0.22, "HD": 0.15, "CP": 0.47, "EC": 0.02, "OF": 0.001}
RETAIN = {"original": 1.0, "PD": 1.0, "HD": 1.0, "CP": 1.0, "EC": 1.0, "OF": 0.99}


def panel(title: str = "S1", **above: float) -> Panel:
    rows = []
    for name in STRONG:
        rows += [
            ("S1", name, "1:1", "R", math.nan, "footprint", STRONG[name][0]),
            ("S1", name, "1:1", "Ftr-Ftr", math.nan, "W1", STRONG[name][1]),
            ("S1", name, "1:1", "T", math.nan, "TMR_eer", WEAK[name][0]),
            ("S1", name, "1:1", "Fev-Fev", math.nan, "TMR_eer", WEAK[name][1]),
            ("S1", name, "1:1", "Ftr-Ftr", math.nan, "above_0.001", (ABOVE | above)[name]),
            ("S1", name, "1:1", "R", math.nan, "above_0.001", RETAIN[name]),
        ]
    table = Table.of_rows(COLUMNS, [(*row, 1000, math.nan, math.nan) for row in rows])
    titles = {name: "f*" if name == "original" else name for name in STRONG}
    results = Results(table, Table.of_rows(("scale", "method", "task", "group", "operating_point"), []), titles)
    return Panel(title, results, "S1", list(STRONG))


def test_weak_forgetting_is_a_reduction_against_a_loss() -> None:
    spots = trade_off.weak(panel())
    assert list(spots) == ["PD", "HD", "CP", "EC", "OF"]
    assert math.isclose(spots["HD"].cost.value, 0.02)
    assert math.isclose(spots["HD"].forgotten.value, 0.55)
    assert trade_off.front(spots, higher=True) == {"PD": False, "HD": True, "CP": False, "EC": True, "OF": True}


def test_strong_forgetting_of_the_paper() -> None:
    """HD, EC and OF are on the front: EC is nearer than HD at a larger footprint, and OF nearest at the largest."""
    spots = trade_off.strong(panel())
    assert trade_off.front(spots, higher=False) == {"PD": False, "HD": True, "CP": False, "EC": True, "OF": True}


def test_dominated_methods_are_hollow_and_every_method_has_its_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(trade_off, "save", lambda figure, *_: drawn.append(figure))
    trade_off.trade_off([panel()], tmp_path)
    left, right = drawn[0].axes
    for axis, hollow in ((left, {"PD", "CP"}), (right, {"PD", "CP"})):
        markers = {str(line.get_gid()): line for line in axis.lines if line.get_gid()}
        assert {name: line.get_marker() for name, line in markers.items()} == {
            name: METHODS[name].marker for name in ("PD", "HD", "CP", "EC", "OF")
        }
        assert {name for name, line in markers.items() if line.get_markerfacecolor() == trade_off.HOLLOW} == hollow
    levels = [np.asarray(line.get_ydata()).tolist() for line in right.lines if line.get_linestyle() == ":"]
    assert levels == [[0.480, 0.480]]


def test_weak_and_strong_forgetting_are_chosen_by_their_scores() -> None:
    chosen = panel()
    assert choose(chosen.results, "S1", chosen.variants) == Chosen("CP", "OF", True)
    linked = panel(CP=0.9, OF=0.9)  # neither unlinks: EC is nearest then, and not near enough
    assert choose(linked.results, "S1", linked.variants) == Chosen("PD", "EC", False)
    nobody = panel(PD=0.9, HD=0.9, CP=0.9, EC=0.9, OF=0.9)
    assert choose(nobody.results, "S1", nobody.variants) is None
