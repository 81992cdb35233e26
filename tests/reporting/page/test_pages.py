"""Pages of other runs in a real browser: one method, f* alone, an erasure, runs side by side, very many people."""

import json
import math
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.reporting.comparison import write_comparison
from damnatio.reporting.drawing import Evaluated
from damnatio.reporting.joined import Run
from damnatio.reporting.page.words import COLUMNS
from damnatio.reporting.page.writing import DATA, Page, write_page
from damnatio.support.tables import Table
from tests.reporting.page.browser import Opened, chromium, opened
from tests.reporting.page.world import World, a_world, the_recipe

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.cli, pytest.mark.xdist_group("browser")]
MEGABYTE = 1_000_000
PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with chromium() as started:
        yield started


def looked_at(found: Opened) -> None:
    """Move what can be moved: nothing may fail on the way."""
    last = len(found.state("panel().targets")) - 1
    for place in (0, last):
        found.move(place)
    for name in ("scores-model", "people-model", "links-group", "det-group"):
        for value in found.state(f"[...byId('{name}').options].map(({{ value }}) => value)")[:6]:
            if found.page.locator(f"#{name}").is_visible():
                found.page.select_option(f"#{name}", value)
    found.page.click("#theme")
    assert found.overflow == 0


def test_page_of_one_method(browser: "Browser", world: World, tmp_path: Path) -> None:
    file = world.only(["S1"], [ORIGINAL, "GS"]).write_page(tmp_path)
    with opened(browser, file) as found:
        looked_at(found)
        assert not found.page.locator("#marks").is_visible(), "one method needs no table of marks"
        assert not found.page.locator("#panel").is_visible()
        assert (
            found.page.locator("#recommended")
            .inner_text()
            .startswith("1 of 6 people still link beyond chance, under gate and scatter (GS); ")
        )
        assert found.page.locator("#sentences").is_visible()
    assert file.stat().st_size < 10 * MEGABYTE


def test_page_of_the_original_model_alone(browser: "Browser", world: World, tmp_path: Path) -> None:
    """A run whose methods all failed, or are not there yet."""
    file = world.only(["S1", "S2"], [ORIGINAL]).write_page(tmp_path)
    with opened(browser, file) as found:
        looked_at(found)
        assert "No method was evaluated" in found.page.locator("#recommended").inner_text()
        assert not found.page.locator("#sentences").is_visible()
        assert found.page.locator("#map-play").is_disabled()
        assert found.page.locator('#rates tr[data-variant="original"]').count() == 1


def test_page_of_a_partial_run(browser: "Browser", world: World, tmp_path: Path) -> None:
    """One method is there at one scale only."""
    whole = world.only(["S1", "S2"], [ORIGINAL, "HD", "GS"])
    whole.evaluated = [each for each in whole.evaluated if (each.scale, each.variant) != ("S2", "HD")]
    with opened(browser, whole.write_page(tmp_path)) as found:
        found.page.locator("#marks button").first.click()
        assert found.state("state.model") == "HD"
        found.page.select_option("#panel", "1")
        assert found.state("state.model") == "GS", "whoever is not there is not shown"
        looked_at(found)
        found.page.select_option("#panel", "0")
        assert found.page.locator("#rates tbody tr[data-variant]").count() == 3


def pictured(world: World, folder: Path, pictures: dict[str, str]) -> Path:
    """The page of an erasure: one method, one scale; photographs where they are given."""
    known = world.results[2]
    write_page(Page("erasure", "One person.", world.panels(), known.titles, facts=(), pictures=pictures), folder)
    return folder / "index.html"


def test_page_of_an_erasure_shows_no_photograph(browser: "Browser", world: World, tmp_path: Path) -> None:
    file = pictured(world.only(["S1"], [ORIGINAL, "GS"]), tmp_path, {})
    assert "data:image" not in file.read_text().split('<script type="application/json"')[0]
    with opened(browser, file) as found:
        looked_at(found)
        assert found.page.locator("img").count() == 0


def test_map_shows_the_photographs_that_the_recipe_allows(browser: "Browser", world: World, tmp_path: Path) -> None:
    part = world.only(["S1"], [ORIGINAL, "GS"])
    names = [image for image, _, _ in part.panels()[0]["images"]]
    with opened(browser, pictured(part, tmp_path, dict.fromkeys(names, PIXEL))) as found:
        found.page.locator("#map-chart").scroll_into_view_if_needed()
        box = found.page.locator("#map-chart").bounding_box()
        assert box
        place = "plane.chart.getOption().series[0].data[0].value"
        x, y = found.state(f"plane.chart.convertToPixel({{seriesIndex: 0}}, {place})")
        found.page.mouse.move(box["x"] + x, box["y"] + y)
        found.page.locator(".tip img").wait_for()
        assert found.page.locator(".tip img").get_attribute("src") == PIXEL


# --- side by side ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(world: World, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Two seeds of one experiment, and a run of another protocol."""
    folder = tmp_path_factory.mktemp("runs")
    other = a_world(folder / "evaluations", ["GS"], ["S1"], seed=2)
    worlds = [world.only(["S1"], [ORIGINAL, "GS"]), other]
    found = []
    for number, each in enumerate(worlds):
        each.write_page(folder / f"seed{number}")
        found.append(Run("gate", each.recipe, folder / f"seed{number}"))
    strange = the_recipe(["GS"], ["S1"], seed=3)
    faces = strange.faces.model_copy(update={"size": 64})
    return [*found, Run("<i>small", strange.model_copy(update={"faces": faces}), folder / "seed1")]


def test_runs_stand_side_by_side(browser: "Browser", runs: list[Run], tmp_path: Path) -> None:
    lines = write_comparison("both", runs, tmp_path)
    assert lines[0].startswith("The protocols differ")
    assert "faces.size is" in lines[0]
    contents = [json.loads((run.folder / DATA).read_text())["panels"][0] for run in runs]
    with opened(browser, tmp_path / "index.html") as found:
        assert "The protocols differ" in found.page.locator("header .warn").inner_text()
        heads = found.texts("#compare-table th")
        assert heads[1].startswith("gate")
        assert "2 seeds" in heads[1]
        assert heads[2].startswith("<i>small ≠")
        assert "another protocol" in found.page.locator("#compare-differs").inner_text()
        for place, target in enumerate(found.state("panel().targets")):
            if place % 7 == 0:
                found.move(place)
                for column in ("TMR Fev-Fev", "TMR T"):
                    found.page.select_option("#compare-group", column)
                    shares = []
                    for panel in contents:
                        rates, at = panel["models"]["GS"]["rates"][column], panel["targets"].index(target)
                        shares.append(rates["accepted"][at] / rates["count"])
                    row = found.page.locator('#compare-table tr[data-variant="GS"] td[data-mean]')
                    means = [float(v) for v in row.evaluate_all("cells => cells.map(c => c.dataset.mean)")]
                    assert means == pytest.approx([statistics.fmean(shares[:2]), shares[2]])
                    assert f"± {statistics.stdev(shares[:2]):.3f}" in row.first.inner_text() or not any(shares[:2])
        looked_at(found)
        assert not found.page.locator("#people").is_visible(), "people are on the page of each run"
        links = found.page.locator("nav a").evaluate_all("links => links.map(a => a.getAttribute('href'))")
        assert all(found.page.locator(link).is_visible() for link in links)
    assert (tmp_path / "index.html").stat().st_size < 10 * MEGABYTE


def test_target_that_a_run_lacks_is_said(browser: "Browser", runs: list[Run], tmp_path: Path) -> None:
    cut = shutil.copytree(runs[1].folder, tmp_path / "cut")
    content = json.loads((cut / DATA).read_text())
    (panel,) = content["panels"]
    panel["targets"], panel["first"] = panel["targets"][10:], panel["first"] - 10
    panel["recommended"] = panel["recommended"][10:]
    for model in panel["models"].values():
        for series in (*model["rates"].values(), *model["thresholds"].values()):
            series |= {name: values[10:] for name, values in series.items() if isinstance(values, list)}
        if "answers" in model:
            model["answers"] = model["answers"][10:]
    (cut / DATA).write_text(json.dumps(content))
    (tmp_path / "page-of-both").mkdir()
    write_comparison("cut", [runs[0], replace(runs[1], experiment="other", folder=cut)], tmp_path / "page-of-both")
    with opened(browser, tmp_path / "page-of-both/index.html") as found:
        found.move(0)
        assert "choose a larger one" in found.page.locator("#compare-differs").inner_text()
        found.move(12)
        assert "choose a larger one" not in found.page.locator("#compare-differs").inner_text()
        assert found.page.locator("#compare-table tbody tr[data-variant]").count() == 2


# --- sizes -----------------------------------------------------------------------------------------------------------


def test_page_of_eleven_methods_is_small(browser: "Browser", world: World, tmp_path: Path) -> None:
    names = ("CURE", "NG+", "PD", "HD", "CP", "EC", "OF", "FT", "GA", "BI", "GS")
    paths = {(each.scale, each.variant): each.path for each in world.evaluated}
    every = world.only(["S1", "S2"], [ORIGINAL])
    every.recipe = the_recipe(names)
    every.evaluated += [
        Evaluated(s, name, paths[s, name if name in ("HD", "OF") else "GS"]) for s in ("S1", "S2") for name in names
    ]
    file = every.write_page(tmp_path)
    assert file.stat().st_size < 5 * MEGABYTE
    with opened(browser, file) as found:
        looked_at(found)
        assert found.page.locator("#marks tbody button").count() == 11
        assert found.page.locator("#rates tbody tr[data-variant]").count() == 12


def grown(source: Path, folder: Path, people: int) -> Path:
    """An evaluation with very many people: every table that grows with them, made by hand."""
    shutil.copytree(source, folder)
    rng, count = np.random.default_rng(0), people // 3
    groups = np.repeat(["T", "R", "Ftr-Ftr"], count)
    names = [f"identity-{number:06d}" for number in range(count)] * 3
    means = rng.random(3 * count) / (1 if source.name.endswith(ORIGINAL) else 2)
    columns: dict[str, Any] = {"group": groups, "identity": names, "count": np.full(3 * count, 20), "mean": means}
    columns |= {"lowest": means - 0.1, "highest": means + 0.1}
    columns |= {side: [f"{name}/{side}.jpg" for name in names] for side in ("first", "second")}
    Table(columns).write(folder / "people.parquet")
    curves = Table.read(folder / "curves.parquet")
    curves.with_columns(count=curves["count"] * 10**7, accepted=curves["accepted"] * 10**7).write(
        folder / "curves.parquet"
    )
    return folder


def test_page_of_sixty_thousand_people(browser: "Browser", world: World, tmp_path: Path) -> None:
    many = world.only(["S1"], [ORIGINAL, "HD", "GS"])
    many.evaluated = [replace(each, path=grown(each.path, tmp_path / each.variant, 60_000)) for each in many.evaluated]
    file = many.write_page(tmp_path / "page")
    assert file.stat().st_size < 10 * MEGABYTE
    with opened(browser, file) as found:
        looked_at(found)
        assert found.page.locator("#forgotten tbody tr").count() == 200
        assert found.page.locator("#losses tbody tr").count() == 40
        assert "worst are listed" in found.page.locator("#people-count").inner_text()
        shown = found.page.locator("#rates td[data-rate]").evaluate_all(
            "cells => cells.map(c => Number(c.dataset.rate))"
        )
        assert all(math.isfinite(value) and 0 <= value <= 1 for value in shown)
        assert len(found.state("panel().columns")) == len(COLUMNS)
