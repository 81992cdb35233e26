"""The page of a run as a reader has it, in a real browser: rates, words, controls, map, themes, keyboard, paper."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from damnatio.evaluation.chance import LINKED, linked_people
from damnatio.evaluation.measuring import ORIGINAL
from damnatio.evaluation.protocol import FALSE_MATCHES, SINGLE_GROUPS, Comparisons
from damnatio.metrics.verification import acceptance_rate, threshold_at
from damnatio.reporting.answers import QUESTIONS, SIGNS, Model
from tests.reporting.page.browser import Opened, chromium, opened
from tests.reporting.page.world import HOSTILE, METHODS, POINTS, World

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.cli, pytest.mark.xdist_group("browser")]


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with chromium() as started:
        yield started


@pytest.fixture
def shown(browser: "Browser", page: Path) -> Iterator[Opened]:
    with opened(browser, page) as found:
        yield found


# --- numbers ---------------------------------------------------------------------------------------------------------


def rate(c: Comparisons, column: str, target: float) -> float:
    """A rate at a target, from the scores."""
    metric, group = column.split(" ", 1)
    if metric == "TPIR":
        tau = threshold_at(c.alarms["Dev" if group == "Fev" else "D"].scores, target)
        return acceptance_rate(c.searches[group].won, tau)
    tau = threshold_at(c.development.scores, target)
    if metric == "TMR":
        return acceptance_rate(c.mated[group].scores, tau)
    if metric == "FMR":
        name = next(name for name, shown in FALSE_MATCHES.items() if shown == group)
        return acceptance_rate(c.nonmated[name].scores, tau)
    if metric == LINKED:
        (beyond,), measured = linked_people(c, [tau], [target])
        return beyond / measured
    linked = {who for g in SINGLE_GROUPS for who in c.mated[g].subjects[c.mated[g].scores >= tau]}
    everybody = {who for g in SINGLE_GROUPS for who in c.mated[g].subjects}
    return (len(everybody) - len(linked)) / len(everybody)


def cells(found: Opened) -> dict[tuple[str, str], float]:
    """By variant and column, every rate that the table shows."""
    script = "cells => cells.map(c => [c.closest('tr').dataset.variant, c.dataset.column, c.dataset.rate])"
    rows = found.page.locator("#rates td[data-rate]").evaluate_all(script)
    return {(variant, column): float(value) for variant, column, value in rows}


def test_every_rate_is_pythons_wherever_the_slider_is(shown: Opened, world: World) -> None:
    shown.page.evaluate("document.querySelectorAll('#groups input:not(:checked)').forEach(box => box.click())")
    for number, scale in enumerate(("S1", "S2")):
        shown.page.select_option("#panel", str(number))
        targets = shown.state("panel().targets")
        seen = set()
        for place in sorted(
            {0, len(targets) // 2, targets.index(POINTS[0]), targets.index(POINTS[1]), len(targets) - 1}
        ):
            shown.move(place)
            found = cells(shown)
            seen |= set(found)
            for (variant, column), value in found.items():
                wanted = rate(world.compared[scale, variant], column, targets[place])
                assert value == wanted, (scale, variant, column, targets[place])
            thresholds = dict(shown.state("variants().map(name => [name, thresholdOf(name)])"))
            for variant, tau in thresholds.items():
                assert tau == threshold_at(world.compared[scale, variant].development.scores, targets[place])
        wanted_columns = set(shown.state("panel().columns"))
        assert seen == {(variant, column) for variant in (ORIGINAL, *METHODS) for column in wanted_columns}


def test_sentences_and_marks_are_pythons(shown: Opened, world: World) -> None:
    results = world.results[2]
    for method in METHODS:
        shown.page.locator("#marks button", has_text=re.compile(rf"^{method}\b")).click()
        targets = shown.state("panel().targets")
        for place in (0, targets.index(POINTS[-1]), len(targets) - 1):
            shown.move(place)
            python = Model("S1", method, world.range("S1", ORIGINAL), world.range("S1", method), results, POINTS)
            answers = python.answers(targets[place])
            for answer, question in zip(answers, QUESTIONS, strict=True):
                line = shown.page.locator(f'[data-question="{question}"]')
                assert line.locator(".text").text_content() == answer.text
                assert line.locator(".mark").text_content() == f"{SIGNS[answer.mark]} {answer.mark}"
            row = shown.texts("#marks tr.chosen td .mark")
            assert row == [f"{SIGNS[answer.mark]} {answer.mark}" for answer in answers]


def test_slider_says_where_it_is_and_what_that_rests_on(shown: Opened) -> None:
    targets, enough = shown.state("panel().targets"), shown.state("content.enough")
    errors = shown.state("panel().models.original.thresholds['1:1 D'].errors")
    for place in (0, targets.index(0.01)):
        shown.move(place)
        words = shown.page.locator("#target-words").inner_text()
        assert f"1 in {1 / targets[place]:,.0f}" in words
        assert ("rests on" in words) == (errors[place] < enough)
    assert shown.page.locator("#target").get_attribute("aria-valuetext") == words


def test_pointing_at_a_rate_tells_counts_and_interval(shown: Opened, world: World) -> None:
    shown.move(shown.state("panel().targets").index(0.01))
    found = world.range("S1", "HD").at("TMR", "T", 0.01)
    cell = shown.page.locator('tr[data-variant="HD"] td[data-column="TMR T"]')
    title = cell.get_attribute("title") or ""
    assert title.startswith(f"{found.accepted} of {found.count}, 95 %: {found.low:.3f} to {found.high:.3f}")


# --- toggles and order -----------------------------------------------------------------------------------------------


def test_methods_and_groups_come_and_go(shown: Opened) -> None:
    def rows() -> list[str]:
        return [
            str(v)
            for v in shown.state(
                "[...document.querySelectorAll('#rates tbody tr[data-variant]')].map(r => r.dataset.variant)"
            )
        ]

    assert rows() == [ORIGINAL, *METHODS]
    shown.page.locator('#methods input[value="HD"]').uncheck()
    assert rows() == [ORIGINAL, "OF", "GS"]
    assert "HD" not in shown.state("charts.map(c => c.getOption().series.map(s => s.name)).flat()")
    shown.page.locator('#methods input[value="HD"]').check()
    assert rows() == [ORIGINAL, *METHODS]
    assert shown.page.locator('#rates td[data-column="TMR T"]').count() == 4
    shown.page.locator('#groups input[value="TMR T"]').uncheck()
    assert shown.page.locator('#rates td[data-column="TMR T"]').count() == 0
    assert shown.page.locator('#rates td[data-column="TMR R"]').count() == 4
    shown.page.locator('#groups input[value="TMR T"]').check()
    assert shown.page.locator('#rates td[data-column="TMR T"]').count() == 4


@pytest.mark.parametrize(
    ("column", "heading", "best"), [("TMR T", "strangers recognised", 1), ("TMR Ftr-Ftr", "two photographs used", -1)]
)
def test_heading_sorts_by_its_column_both_ways(shown: Opened, column: str, heading: str, best: int) -> None:
    def order() -> list[float]:
        return [
            float(v)
            for v in shown.page.locator(f'#rates tr:not([data-variant="GS"]) td[data-column="{column}"]').evaluate_all(
                "c => c.map(x => x.dataset.rate)"
            )
        ]

    button = shown.page.locator("#rates th button", has_text=heading).first
    button.click()
    assert order() == sorted(order(), reverse=best > 0), "the best first"
    assert len(set(order())) > 1
    button.click()
    assert order() == sorted(order(), reverse=best < 0)
    sorts = shown.page.locator("#rates th[aria-sort]")
    assert sorts.count() == 1
    assert sorts.get_attribute("aria-sort") == ("ascending" if best > 0 else "descending")
    shown.move(0)
    assert order() == sorted(order(), reverse=best < 0), "another operating point is sorted as well"


def test_panel_shows_the_other_people(shown: Opened) -> None:
    place = shown.state("panel().targets").index(0.001)
    shown.move(place)
    first = cells(shown)
    shown.page.select_option("#panel", "1")
    assert shown.state("target()") == 0.001, "the operating point stays"
    assert cells(shown) != first
    assert (
        "12 of 12" in shown.page.locator("#people-count").inner_text()
        or "of 12" in shown.page.locator("#people-count").inner_text()
    )


# --- people ----------------------------------------------------------------------------------------------------------


def test_people_are_told_by_their_highest_score(shown: Opened, world: World) -> None:
    for method in ("original", "OF"):
        shown.page.select_option("#people-model", method)
        c = world.compared["S1", method]
        tau = threshold_at(c.development.scores, shown.state("target()"))
        highest: dict[str, float] = {}
        for group, pairing in (("Ftr-Ftr", "FtrxFtr"), ("Ftr-Fev", "FtrxFev"), ("Fev-Fev", "FevxFev")):
            a, _ = c.pairings[pairing].mated()
            for who, score in zip(c.pairings[pairing].first.people[a], c.mated[group].scores, strict=True):
                highest[who] = max(highest.get(who, -1), score)
        rows = shown.page.locator("#forgotten tbody tr").evaluate_all(
            "r => r.map(x => [...x.cells].slice(0, 3).map(c => c.textContent))"
        )
        ordered = sorted(highest, key=lambda who: -highest[who])
        assert [row[0] for row in rows] == ordered
        assert [row[1] for row in rows] == ["✗ links" if highest[who] >= tau else "✓ no link" for who in ordered]
        free = sum(score < tau for score in highest.values())
        said = shown.page.locator("#people-count").inner_text()
        assert said.startswith(f"{free} of {len(highest)} people")
        each = sum(len(c.mated[group].scores) for group in SINGLE_GROUPS) / len(highest)
        assert f"A person has about {each:.0f} pairs here." in said
        assert f"about {each * shown.state('target()'):.1f} would link by chance" in said


def test_others_are_listed_who_lost_most(shown: Opened, world: World) -> None:
    shown.page.select_option("#people-model", "GS")
    assert shown.page.locator("#losses tbody tr").count() == 0, "it touches nobody else"
    assert "Nobody" in shown.page.locator("#losses-count").inner_text()
    shown.page.select_option("#people-model", "OF")
    changes = [float(text) for text in shown.texts("#losses tbody td:nth-child(4)")]
    assert len(changes) > 5
    assert changes == sorted(changes)
    assert changes[-1] < 0
    assert shown.page.locator("#losses-count").inner_text() == ""


def test_names_are_text(shown: Opened) -> None:
    shown.page.select_option("#panel", "1")
    listed = "".join(shown.texts("#forgotten td:first-child"))
    for hostile in HOSTILE:
        assert hostile.strip() in listed
    assert shown.page.locator("main img, main [onerror], main [onmouseover]").count() == 0
    assert shown.page.title().startswith("a </script> run")
    assert "</pre><script>" in (shown.page.locator("#provenance pre").first.text_content() or "")


# --- charts ----------------------------------------------------------------------------------------------------------


DRAWN = "[...document.querySelectorAll('#map-chart path')].map(path => path.getAttribute('transform'))"


def test_map_moves_between_before_and_after(shown: Opened) -> None:
    def places() -> Any:
        return shown.state("plane.chart.getOption().series[0].data.map(({value}) => value)")

    def drawn() -> Any:
        return shown.state(DRAWN)

    shown.page.select_option("#map-model", "GS")
    after, pictured = places(), drawn()
    assert after == shown.state("panel().models.GS.plane")
    assert "After: GS" in shown.page.locator("#map-state").inner_text()
    shown.page.click("#map-play")
    assert places() == shown.state("panel().models.original.plane")
    assert "Before" in shown.page.locator("#map-state").inner_text()
    shown.page.wait_for_function(
        f"first => {DRAWN}.some((place, number) => place !== first[number])",
        arg=pictured,
    )
    kinds = shown.state("panel().images.map(([, , kind]) => kind)")
    moved = np.linalg.norm(np.array(after) - np.array(places()), axis=1)
    seen = np.array([kind in ("seen", "unseen") for kind in kinds])
    assert np.median(moved[seen]) > 2 * np.median(moved[~seen]), "the forgotten leave, the others stay"


def test_map_names_the_person_and_the_image(shown: Opened) -> None:
    shown.page.locator("#map-chart").scroll_into_view_if_needed()
    number = shown.state("panel().images.findIndex(([, who]) => who.includes('onerror'))")
    image, who, _ = shown.state(f"panel().images[{number}]")
    box = shown.page.locator("#map-chart").bounding_box()
    assert box
    x, y = shown.state(
        f"plane.chart.convertToPixel({{seriesIndex: 0}}, plane.chart.getOption().series[0].data[{number}].value)"
    )
    shown.page.mouse.move(box["x"] + x, box["y"] + y)
    tip = shown.page.locator(".tip")
    tip.wait_for()
    text = tip.inner_text()
    listed = shown.state("panel().images.map(([image, who]) => [who, image])")
    assert any(text.split("\n")[:2] == pair for pair in listed), text
    assert tip.locator("img").count() == 0, "no picture, for the recipe does not allow it"
    assert image.startswith(who)


UPRIGHT = "document.querySelector('#{0} .over:not([hidden]) line')?.x1.baseVal.value ?? null"
ZOOM_TO = """([id, start, end]) => echarts.getInstanceByDom(byId(id)).dispatchAction(
    { type: 'dataZoom', dataZoomIndex: 0, start, end })"""
PLACE = "echarts.getInstanceByDom(byId('{0}')).convertToPixel({{xAxisIndex: 0}}, {1})"


@pytest.mark.parametrize(("chart", "value"), [("scores-chart", "thresholdOf('HD')"), ("det-chart", "target()")])
def test_upright_line_stands_at_the_operating_point(shown: Opened, chart: str, value: str) -> None:
    """It moves with the slider, the zoom and the window, and nothing else of the chart is drawn again."""
    shown.page.select_option("#scores-model", "HD")
    lines = f"[...document.querySelectorAll('#{chart} > div path')].map(p => p.getAttribute('d')).join()"
    places, drawn = set(), shown.state(lines)
    shown.page.evaluate(
        f"window.changes = 0; new MutationObserver(found => {{ changes += found.length; }})"
        f".observe(document.querySelector('#{chart} > div'), {{subtree: true, childList: true, attributes: true}})"
    )
    for place in (3, 5, 8):
        shown.move(place)
        places.add(shown.state(UPRIGHT.format(chart)))
        assert shown.state(UPRIGHT.format(chart)) == pytest.approx(shown.state(PLACE.format(chart, value)), abs=0.01)
    assert len(places) == 3
    around, line = (shown.page.locator(f"#{chart}{inner}").bounding_box() for inner in ("", " .over line"))
    assert around
    assert line
    assert around["x"] < line["x"] < around["x"] + around["width"]
    assert around["y"] < line["y"] < line["y"] + line["height"] < around["y"] + around["height"]
    assert shown.state(lines) == drawn
    assert shown.state("changes") == 0
    shown.page.set_viewport_size({"width": 900, "height": 900})
    shown.page.wait_for_function("() => state.size === 900")
    assert shown.state(UPRIGHT.format(chart)) == pytest.approx(shown.state(PLACE.format(chart, value)), abs=0.01)
    shown.page.evaluate(ZOOM_TO, [chart, 0, 90])
    assert shown.state(UPRIGHT.format(chart)) == pytest.approx(shown.state(PLACE.format(chart, value)), abs=0.01)
    shown.page.evaluate(ZOOM_TO, [chart, 99, 100])
    assert shown.state(UPRIGHT.format(chart)) is None, "it is outside"


def test_scores_have_tails_and_the_threshold(shown: Opened) -> None:
    shown.page.select_option("#scores-model", "HD")
    for place in (0, 5):
        shown.move(place)
        tau = float(shown.state("thresholdOf('HD')"))
        assert shown.page.locator("#scores-chart .over text").text_content() == f"threshold τ {tau:.3f}"
    shown.page.check("#scores-log")
    option = shown.state("charts[1].getOption().yAxis[0].type")
    assert option == "log"
    shares = shown.state("charts[1].getOption().series[0].data.map(([, share]) => share)")
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1


def test_small_rates_have_a_logarithmic_axis(shown: Opened) -> None:
    for log, kind in ((False, "value"), (True, "log")):
        shown.page.set_checked("#det-log", log)
        option = shown.state(
            "(({yAxis, series}) => ({type: yAxis[0].type, min: yAxis[0].min, series}))(charts[2].getOption())"
        )
        values = [value for line in option["series"] for _, value, _ in line["data"]]
        assert option["type"] == kind
        assert option["min"] <= min(values)
        assert (0 in values) != log, "a logarithmic axis has no 0"


def test_lines_of_the_scores_come_and_go(shown: Opened) -> None:
    def lines() -> set[str]:
        return set(shown.state("charts[1].getOption().series.map(({ name }) => name)"))

    names = shown.state("Object.fromEntries(Object.entries(content.scores).map(([key, { name }]) => [key, name]))")
    checked = shown.page.locator("#scores-lines input:checked").evaluate_all("boxes => boxes.map(b => b.value)")
    assert lines() == {names[key] for key in checked}
    assert len(checked) == len(names) - 2
    shown.page.focus('#scores-lines input[value="mated/T"]')
    shown.page.keyboard.press("Space")
    assert lines() == {names[key] for key in checked if key != "mated/T"}
    shown.page.locator('#scores-lines input[value="non-mated/FtrxFtr"]').check()
    assert names["non-mated/FtrxFtr"] in lines()


# --- zoom ------------------------------------------------------------------------------------------------------------


ZOOM = "echarts.getInstanceByDom(byId('{0}')).getOption().dataZoom.map(({{ start, end }}) => [start, end])"
WHOLE = [[0, 100], [0, 100]]


@pytest.mark.parametrize("chart", ["map-chart", "scores-chart", "det-chart", "weak-chart"])
def test_wheel_scrolls_the_page_and_zooms_with_control(shown: Opened, chart: str) -> None:
    def turned(by: int) -> float:
        box = shown.page.locator(f"#{chart}").bounding_box()
        assert box
        shown.page.mouse.move(box["x"] + 200, box["y"] + 120)
        before = shown.state("scrollY")
        shown.page.mouse.wheel(0, by)
        shown.page.wait_for_timeout(300)
        return float(shown.state("scrollY") - before)

    shown.page.locator(f"#{chart}").scroll_into_view_if_needed()
    assert turned(-60) == -60
    assert shown.state(ZOOM.format(chart)) == WHOLE
    shown.page.keyboard.down("Control")
    assert turned(-60) == 0
    shown.page.keyboard.up("Control")
    assert all(end - start < 100 for start, end in shown.state(ZOOM.format(chart)))


def test_keys_zoom_a_chart(shown: Opened) -> None:
    for chart in ("map-chart", "scores-chart"):
        shown.page.focus(f"#{chart}")
        for key, wanted in (
            ("+", [[15, 85], [15, 85]]),
            ("ArrowRight", [[29, 99], [15, 85]]),
            ("ArrowUp", [[29, 99], [29, 99]]),
            ("ArrowLeft", [[15, 85], [29, 99]]),
            ("-", [[0, 100], [14, 100]]),
            ("0", WHOLE),
            ("-", WHOLE),
        ):
            shown.page.keyboard.press(key)
            assert np.allclose(shown.state(ZOOM.format(chart)), wanted), key


# --- looks and controls ----------------------------------------------------------------------------------------------


def test_theme_is_that_of_the_system_and_can_be_changed(browser: "Browser", page: Path) -> None:
    for system in ("light", "dark"):
        with opened(browser, page, theme=system) as found:
            assert found.state("document.documentElement.dataset.theme") == system
            before = found.state("getComputedStyle(document.body).backgroundColor")
            found.page.click("#theme")
            assert found.state("document.documentElement.dataset.theme") != system
            assert found.state("getComputedStyle(document.body).backgroundColor") != before
            assert found.page.locator("#theme").get_attribute("aria-pressed") == str(system == "light").lower()


def test_keyboard_moves_the_slider_and_reaches_everything(shown: Opened) -> None:
    shown.page.focus("#target")
    place, words = shown.state("state.place"), shown.page.locator("#target-words").inner_text()
    shown.page.keyboard.press("ArrowLeft")
    shown.page.wait_for_function("place => state.place === place - 1", arg=place)
    assert shown.page.locator("#target-words").inner_text() != words
    shown.page.keyboard.press("Home")
    shown.page.wait_for_function("() => state.place === 0")
    wanted = """() => [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
        .filter(e => !e.disabled && e.checkVisibility())"""
    shown.page.evaluate(f"window.missing = new Set(({wanted})())")
    count = shown.state("missing.size")
    shown.page.evaluate("document.activeElement.blur()")
    for _ in range(count + 20):
        shown.page.keyboard.press("Tab")
        shown.page.evaluate("missing.delete(document.activeElement)")
    assert shown.state("[...missing].map(e => e.outerHTML.slice(0, 120))") == []


@pytest.mark.parametrize("width", [390, 1024, 1920])
def test_page_is_no_wider_than_the_window(browser: "Browser", page: Path, width: int, tmp_path: Path) -> None:
    for theme in ("light", "dark"):
        with opened(browser, page, width, theme) as found:
            assert found.overflow == 0
            found.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
            assert found.overflow == 0, "with everything unfolded"
            found.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = false; })")
            found.page.screenshot(path=tmp_path / f"{theme}-{width}.png", full_page=True)
            assert (tmp_path / f"{theme}-{width}.png").stat().st_size > 10_000


def test_marks_of_all_methods_are_seen_on_a_phone(browser: "Browser", page: Path) -> None:
    with opened(browser, page, 390) as found:
        inner, outer = found.state("(t => [t.offsetWidth, t.parentElement.clientWidth])(byId('marks'))")
        assert inner <= outer, "nobody has to scroll for the answer"


def test_method_stays_beside_its_rates(browser: "Browser", page: Path) -> None:
    with opened(browser, page, 390) as found:
        name = found.page.locator("#rates tbody tr").first.locator("td").first
        before = name.bounding_box()
        found.page.evaluate("byId('rates').parentElement.scrollLeft = 200")
        after = name.bounding_box()
        assert before
        assert after
        assert after["x"] == pytest.approx(before["x"], abs=1)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(browser: "Browser", page: Path, theme: str) -> None:
    reason = "axe looks for barriers: pip install axe-playwright-python (it is in the extra `dev`)"
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=reason)
    with opened(browser, page, theme=theme) as found:
        found.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        response = axe.Axe().run(found.page).response
        assert [(v["id"], [node["html"][:120] for node in v["nodes"][:3]]) for v in response["violations"]] == []


def test_page_prints_to_a_few_sheets(shown: Opened, tmp_path: Path) -> None:
    shown.page.click("#theme")
    shown.page.pdf(path=tmp_path / "page.pdf", format="A4")
    written = (tmp_path / "page.pdf").read_bytes()
    assert written.startswith(b"%PDF")
    sheets = len(re.findall(rb"/Type\s*/Page\b", written))
    assert 1 <= sheets <= 8
    assert shown.state("document.documentElement.dataset.theme") == "dark", "on the screen, all is as before"
    if shutil.which("pdftotext"):
        command = ["pdftotext", str(tmp_path / "page.pdf"), "-"]
        text = " ".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
        assert "The answer" in text
        chosen = shown.page.locator('[data-question="used"] .text').inner_text()
        assert " ".join(chosen.split())[:60] in text
