"""The comparison of charting libraries: its data, its ratios, and what it finds in a page."""

import json
import math
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from charts import browser, data, peers, tables
from charts.__main__ import main, turned
from damnatio.support.errors import DamnatioError

ROOT = Path(__file__).resolve().parents[2]


def _deviate(share: float) -> float:
    """The normal deviate above which this share lies, by bisection."""
    low, high = -9.0, 9.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.5 * math.erfc(middle / math.sqrt(2)) > share else (low, middle)
    return low


def test_lines_are_the_tails_of_normal_distributions_and_end_at_the_lowest_rate() -> None:
    drawn = data.made()
    assert len(drawn.y) == len(set(drawn.names)) == 80
    assert {len(line) for line in drawn.y} == {len(drawn.x)} == {200}
    for line in drawn.y:
        shares = [share for share in line if share is not None]
        assert line == shares + [None] * (200 - len(shares)), "ends once"
        assert shares == sorted(shares, reverse=True)
        assert min(shares) >= 1e-6
    assert sum(None in line for line in drawn.y) > 40, "most lines reach the lowest rate"
    tail = [(x, _deviate(y)) for x, y in zip(drawn.x, drawn.y[0], strict=True) if y is not None and y < 0.5]
    (x, start), (last, end) = tail[0], tail[-1]
    line = [start + (place - x) * (end - start) / (last - x) for place, _ in tail]
    assert [deviate for _, deviate in tail] == pytest.approx(line, abs=1e-2), "normal: straight in deviates"
    assert len(drawn.before) == len(drawn.after) == 400
    assert drawn.before != drawn.after


def test_a_day_that_a_mirror_states_too_late_is_corrected_by_later_releases() -> None:
    times = {
        "1.9.0": "2026-09-01T00:00:00Z",  # the mirror held it late: 1.10.0 is newer
        "1.10.0": "2025-03-01T00:00:00Z",
        "1.10.1": "2025-05-01T00:00:00Z",
        "2.0.0": "2025-04-01T00:00:00Z",  # another major version: 1.10.1 may come after it
        "2.1.0-rc.1": "2024-01-01T00:00:00Z",
        "created": "2020-01-01T00:00:00Z",
    }
    assert peers.first_known(times) == {
        "1.9.0": "2025-03-01",
        "1.10.0": "2025-03-01",
        "1.10.1": "2025-05-01",
        "2.0.0": "2025-04-01",
    }


def test_ratios_are_medians_divided_by_ours() -> None:
    ours = browser.Seen({action: [2.0, 4.0, 90.0] for action in browser.ACTIONS})
    other = browser.Seen({action: [6.0, 1.0, 7.0] for action in browser.ACTIONS})
    found = tables.ratios({peers.OURS.name: ours, "uPlot": other}, {peers.OURS.name: 600, "uPlot": 60})
    assert found.pop("uPlot to ours: size") == 0.1
    assert found == {f"uPlot to ours: {action}": 1.5 for action in browser.ACTIONS}


def test_every_library_begins_a_round() -> None:
    assert [turned(["a", "b", "c"], number) for number in (0, 1, 2, 3)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]


def test_it_measures_the_version_that_the_report_carries() -> None:
    ours = json.loads((ROOT / "assets/echarts/package.json").read_text())
    theirs = json.loads((ROOT / "benchmarks/charts/package.json").read_text())["devDependencies"]
    assert theirs["echarts"] == ours["dependencies"]["echarts"]
    assert theirs["esbuild"] == ours["devDependencies"]["esbuild"]
    assert {package for peer in peers.PEERS for package in peer.packages} < set(theirs)


def test_a_missing_browser_or_npm_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--chromium", "no-such-browser", "--work", str(tmp_path)]) == 2
    assert "there is no no-such-browser: install it" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--work", str(tmp_path)]) == 2
    assert "there is no chromium: install it" in capsys.readouterr().err
    assert main(["--chromium", sys.executable, "--work", str(tmp_path)]) == 2
    assert "npm, which is not installed" in capsys.readouterr().err


def program() -> str | None:
    try:
        return browser.chromium(None)
    except DamnatioError:
        return None


DRAWING = """
const lines = document.getElementById("lines"), points = document.getElementById("points");
lines.innerHTML = '<svg aria-label="tails" width="900" height="400"><rect width="900" height="400" fill="grey"/></svg>';
lines.innerHTML += "<button>zoom</button>";
lines.onmousemove = () => { lines.style.background = "red"; lines.firstChild.style.opacity = 0.5 };
points.innerHTML = '<div style="width: 9px; height: 9px; background: blue; transition: margin 8s"></div>';
window.chart = { move: () => { points.firstChild.style.marginLeft = "300px" } };
window.firstDrawing = Promise.resolve(1);
"""
PICTURE = """
const canvas = document.getElementById("lines").appendChild(document.createElement("canvas"));
canvas.getContext("2d").fillRect(0, 0, 90, 90);
window.chart = { move: () => { document.getElementById("points").innerHTML = "there at once" } };
window.firstDrawing = Promise.resolve(1);
"""


@pytest.mark.cli
@pytest.mark.skipif(not program(), reason="Chromium is not installed")
@pytest.mark.skipif(not find_spec("playwright"), reason="playwright is not installed: pip install -e '.[bench]'")
def test_what_is_looked_for_in_a_page_is_found_there_and_only_there(tmp_path: Path) -> None:
    drawn = data.made()
    with browser.tabs(str(program()), ["drawing", "picture"]) as (version, pages):
        seen = {name: browser.Seen() for name in pages}
        for (name, page), script in zip(pages.items(), (DRAWING, PICTURE), strict=True):
            browser.look(page, browser.write_page(tmp_path, name, script, "", drawn), drawn, seen[name], tmp_path)
    assert version
    assert seen["drawing"] == browser.Seen(hover=True, animated=True, keyboard=True, label=True, vector=True)
    assert seen["picture"] == browser.Seen()
    page_that_asks = browser.write_page(tmp_path, "asks", "new Image().src = 'http://127.0.0.1:9/x.png'", "", drawn)
    with (
        pytest.raises(DamnatioError, match=r"asked the network for something: http://127\.0\.0\.1:9/x\.png"),
        browser.tabs(str(program()), ["asks"]) as (_, pages),
    ):
        pages["asks"].goto(page_that_asks.as_uri())
