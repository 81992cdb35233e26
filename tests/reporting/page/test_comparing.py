"""Runs side by side, from contents made by hand."""

import json
import math
import statistics
from pathlib import Path

import pytest
import scipy.stats

from damnatio.metrics.intervals import wilson
from damnatio.reporting.page.comparing import Side, compared, lines_of, panels_of, rate_at, read_content, titles_of
from damnatio.support.errors import DamnatioError
from tests.reporting.page.contents import TARGETS, Json, a_content, a_panel

T, NEW = "TMR T", "TMR Fev-Fev"


def run(recognised: int, new: int, scale: str = "S1", targets: list[float] | None = None, name: str = "HD") -> Json:
    """A run whose f* recognises 950 of 1,000, and whose method links so many of 200 new pairs."""
    targets = targets or TARGETS
    models = {
        "original": {T: (1000, [940] * len(targets)), NEW: (200, [190] * len(targets))},
        name: {T: (1000, [recognised] * len(targets)), NEW: (200, [new] * len(targets))},
    }
    return a_content([a_panel(scale, models, targets)])


def test_two_runs_differ_by_newcombes_interval() -> None:
    found = compared([Side("one", [run(930, 10)]), Side("two", [run(900, 40)])])
    assert found["targets"] == TARGETS
    first, second = found["scales"]["S1"]["HD"][NEW][0]
    assert first == [0.05, None]
    mean, spread, difference, low, high = second
    assert (mean, spread) == (0.2, None)
    a, b = wilson(10, 200), wilson(40, 200)
    assert difference == pytest.approx(0.15)
    assert low == pytest.approx(0.15 - math.hypot(0.2 - b[0], a[1] - 0.05), abs=1e-4)
    assert high == pytest.approx(0.15 + math.hypot(b[1] - 0.2, 0.05 - a[0]), abs=1e-4)
    same = found["scales"]["S1"]["original"][T][1][1]
    assert same[2] == 0
    assert same[3] < 0 < same[4]


def test_seeds_have_mean_and_spread_and_welchs_interval() -> None:
    one, two = [930, 920, 935], [900, 880]
    sides = [Side("one", [run(n, 10) for n in one]), Side("two", [run(n, 10) for n in two], "another")]
    found = compared(sides)
    first, second = found["scales"]["S1"]["HD"][T][1]
    assert first == pytest.approx([statistics.fmean(one) / 1000, statistics.stdev(one) / 1000])
    interval = scipy.stats.ttest_ind(two, one, equal_var=False).confidence_interval(0.95)
    wanted = [statistics.fmean(two) - statistics.fmean(one), interval.low, interval.high]
    assert second[2:] == pytest.approx([value / 1000 for value in wanted], abs=1e-6)
    assert found["sides"] == [
        {"title": "one", "seeds": 3, "differs": ""},
        {"title": "two", "seeds": 2, "differs": "another"},
    ]


def test_seeds_on_one_side_alone_give_a_difference_without_an_interval() -> None:
    found = compared([Side("one", [run(930, 10), run(910, 10)]), Side("two", [run(900, 10)])])
    cell = found["scales"]["S1"]["HD"][T][0][1]
    assert cell[:2] == [0.9, None]
    assert cell[2] == pytest.approx(-0.02)
    assert cell[3:] == [None, None]


def test_what_one_run_lacks_is_left_empty() -> None:
    found = compared([Side("one", [run(930, 10, name="HD")]), Side("two", [run(900, 40, name="GS")])])
    assert found["scales"]["S1"]["HD"][T][0][1] is None
    assert found["scales"]["S1"]["GS"][T][0] == [None, [0.9, None]]
    seeds = compared([Side("one", [run(930, 10), run(930, 10, name="OF")])])
    assert seeds["scales"]["S1"]["HD"][T][0] == [None], "a seed that lacks it has no mean"


def test_targets_and_scales_are_those_that_all_have() -> None:
    found = compared(
        [Side("one", [run(930, 10, targets=[0.001, 0.01])]), Side("two", [run(900, 40, targets=[0.01, 0.1])])]
    )
    assert found["targets"] == [0.01]
    other = compared([Side("one", [run(930, 10)]), Side("two", [run(900, 40, "S2")])])
    assert other["scales"] == {}


def test_panels_are_named_by_their_run_and_leave_out_its_people() -> None:
    sides = [Side("one", [run(930, 10), run(920, 10)]), Side("two", [run(900, 40)])]
    panels = panels_of(sides)
    assert [panel["title"] for panel in panels] == ["one, seed 1 of 2", "one, seed 2 of 2", "two"]
    for panel in panels:
        assert all(not model["links"] and not model["forgotten"] for model in panel["models"].values())
    assert sides[0].contents[0]["panels"][0]["models"]["HD"]["links"], "the run's own content stays"
    assert list(titles_of([Side("x", [run(1, 1, name="GS")]), Side("y", [run(1, 1, name="HD")])])) == [
        "original",
        "HD",
        "GS",
    ]


def test_rate_of_a_panel() -> None:
    panel = run(930, 10)["panels"][0]
    rate = rate_at(panel, "HD", T, 0.01)
    assert rate is not None
    assert rate.value == 0.93
    assert rate_at(panel, "HD", T, 0.02) is None
    assert rate_at(panel, "OF", T, 0.01) is None
    assert rate_at(panel, "HD", "TMR B", 0.01) is None
    panel["models"]["HD"]["rates"][T]["accepted"][1] = None
    assert rate_at(panel, "HD", T, 0.01) is None


def test_lines_for_a_terminal() -> None:
    content = compared([Side("one", [run(930, 10)]), Side("two", [run(900, 40)])])
    lines = lines_of(content, {"original": "f*", "HD": "HD"}, 0.01)
    assert lines[0] == "At a false match rate of 0.01:"
    assert "  two new photographs link (S1)" in lines
    (line,) = [line for line in lines if "HD" in line and "0.050" in line]
    assert "one 0.050, two 0.200 (+0.150, +0.0" in line


def test_report_without_content_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        DamnatioError, match=r"has no page\.json: it was made by an earlier damnatio\. Make it again: dam"
    ):
        read_content(tmp_path / "report")
    file = tmp_path / "page.json"
    for text in ("{", "[]", '{"panels": []}', '{"panels": 3}', "\x00"):
        file.write_text(text)
        with pytest.raises(DamnatioError, match="make the report again"):
            read_content(tmp_path)
    file.write_text(json.dumps(run(930, 10)))
    assert read_content(tmp_path)["panels"][0]["scale"] == "S1"
