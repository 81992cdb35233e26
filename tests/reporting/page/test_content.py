"""What the page knows, against the tables of the evaluations that it comes from."""

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.metrics.distributions import EDGES
from damnatio.partitions import Partitions
from damnatio.reporting.answers import MARKS, Model
from damnatio.reporting.naming import Naming
from damnatio.reporting.page import content as content_module
from damnatio.reporting.page.content import Json, panel_of
from damnatio.reporting.page.words import COLUMNS, SCORES
from damnatio.reporting.ranges import Range
from damnatio.support.tables import Table
from tests.reporting.page.world import METHODS, POINTS, SCALES, World


@pytest.fixture(scope="module")
def content(page: Path) -> Json:
    found: Json = json.loads((page.parent / "page.json").read_text())
    return found


def folder(world: World, scale: str, variant: str) -> Path:
    return next(each.path for each in world.evaluated if (each.scale, each.variant) == (scale, variant))


def models(content: Json) -> list[tuple[str, str, Json, Json]]:
    """(scale, variant, panel, model) of every model."""
    return [(p["scale"], name, p, model) for p in content["panels"] for name, model in p["models"].items()]


def test_rates_are_the_counts_of_the_curves(world: World, content: Json) -> None:
    for scale, variant, panel, model in models(content):
        rows = Table.read(folder(world, scale, variant) / "curves.parquet").rows()
        shown = [row for row in rows if row["target"] <= 0.1]
        assert panel["targets"] == sorted({row["target"] for row in shown if row["task"] == "1:1"})
        known = {(f"{row['metric']} {row['group']}", row["target"]): row for row in shown}
        for column in COLUMNS:
            if column.key not in model["rates"]:
                assert column.group == "B", "only bystanders may be missing"
                continue
            rates, place = model["rates"][column.key], f"{column.task} {column.calibration}"
            for number, target in enumerate(panel["targets"]):
                row = known.get((column.key, target))
                if row is None:
                    assert rates["accepted"][number] is None, "too few searches for this rate"
                    continue
                assert (rates["accepted"][number], rates["count"]) == (row["accepted"], row["count"])
                assert rates["low"][number] == pytest.approx(row["low"], rel=1e-3, abs=1e-9)
                assert rates["high"][number] == pytest.approx(row["high"], rel=1e-3, abs=1e-9)
                assert model["thresholds"][place]["threshold"][number] == row["threshold"]
                assert model["thresholds"][place]["errors"][number] == row["errors"]
        assert panel["columns"] == [c.key for c in COLUMNS if c.key in panel["models"][ORIGINAL]["rates"]]


def test_answers_are_those_of_python_at_every_target(world: World, content: Json) -> None:
    for scale, variant, panel, model in models(content):
        if variant == ORIGINAL:
            assert "answers" not in model
            continue
        both = world.range(scale, ORIGINAL), world.range(scale, variant)
        python = Model(scale, variant, *both, world.results[2], POINTS)
        for number, target in enumerate(panel["targets"]):
            wanted = [[MARKS.index(answer.mark), answer.text] for answer in python.answers(target)]
            assert model["answers"][number] == wanted


def test_first_target_is_the_loosest_point_and_exact(content: Json) -> None:
    for panel in content["panels"]:
        assert panel["targets"][panel["first"]] == POINTS[-1]
        assert set(POINTS) <= set(panel["targets"])
        assert len(panel["recommended"]) == len(panel["targets"])
        assert {variant for variant, _ in panel["recommended"]} <= set(METHODS)


def test_histograms_are_the_sketches_without_their_empty_ends(world: World, content: Json) -> None:
    assert content["bins"] == {"low": EDGES[0], "width": pytest.approx(EDGES[1] - EDGES[0])}
    for scale, variant, _, model in models(content):
        sketches = load_file(folder(world, scale, variant) / "sketches.safetensors")
        assert set(model["scores"]) == {name for name in SCORES if sketches[name].any()}
        for name, (first, counts) in model["scores"].items():
            whole = np.zeros_like(sketches[name])
            whole[first : first + len(counts)] = counts
            assert np.array_equal(whole, sketches[name])


def test_distances_are_the_results(world: World, content: Json) -> None:
    results = world.results[0].rows()
    for scale, variant, _, model in models(content):
        mine = {(r["group"], r["metric"]): r["value"] for r in results if (r["scale"], r["method"]) == (scale, variant)}
        assert model["distances"]["footprint"] == mine["R", "footprint"]
        assert model["distances"]["W1"] == mine["Ftr-Ftr", "W1"]
        assert model["distances"]["test"] == mine["T", "TMR_eer"]


def test_places_are_those_of_the_plane_in_one_size(world: World, content: Json) -> None:
    for panel in content["panels"]:
        tables = {n: Table.read(folder(world, panel["scale"], n) / "plane.parquet").rows() for n in panel["models"]}
        reach = max(max(abs(row["x"]), abs(row["y"])) for rows in tables.values() for row in rows)
        assert len({image for image, _, _ in panel["images"]}) == len(panel["images"])
        for name, rows in tables.items():
            places = dict(zip([image for image, _, _ in panel["images"]], panel["models"][name]["plane"], strict=True))
            assert set(places) == {row["image"] for row in rows}
            for row in rows:
                assert places[row["image"]] == pytest.approx([row["x"] / reach, row["y"] / reach], abs=6e-4)


def test_people_are_listed_worst_first(world: World, content: Json) -> None:
    singles = ("Ftr-Ftr", "Ftr-Fev", "Fev-Fev")
    for scale, variant, panel, model in models(content):
        rows = Table.read(folder(world, scale, variant) / "people.parquet").rows()
        highest: dict[str, float] = {}
        for row in rows:
            if row["group"] in singles:
                highest[row["identity"]] = max(highest.get(row["identity"], -1), row["highest"])
        assert [name for name, _ in model["forgotten"]] == sorted(highest, key=lambda name: -highest[name])
        known = {(row["group"], row["identity"]): row for row in rows}
        for name, groups in model["forgotten"]:
            for group, found in zip(singles, groups, strict=True):
                person = known.get((group, name))
                wanted = person and [person["count"], person["highest"], person["first"], person["second"]]
                assert found == wanted
        unlinked = model["rates"]["weakly_forgotten F"]
        for number in range(len(panel["targets"])):
            tau = model["thresholds"]["1:1 D"]["threshold"][number]
            assert unlinked["accepted"][number] == sum(score < tau for score in highest.values())


def test_pairs_and_losses_are_cut_to_the_worst(world: World, content: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    for scale, variant, _, model in models(content):
        links = Table.read(folder(world, scale, variant) / "links.parquet").rows()
        for group, found in model["links"].items():
            best = sorted((row["score"] for row in links if row["group"] == group), reverse=True)
            assert [score for *_, score in found] == best[: content_module.LINKS]
    path = folder(world, "S2", "HD")
    before, after = (
        {(r["group"], r["identity"]): r for r in Table.read(p / "people.parquet").rows()}
        for p in (folder(world, "S2", ORIGINAL), path)
    )
    monkeypatch.setattr(content_module, "LOSSES", 3)
    found = content_module._losses(before, after, Naming(world.partitions, names=True))
    assert {"T", "R"} <= set(found)
    for group, rows in found.items():
        changes = {who: after[group, who]["mean"] - before[group, who]["mean"] for at, who in after if at == group}
        assert [row[0] for row in rows] == sorted(changes, key=lambda who: changes[who])[:3]
        for who, count, was, now, lowest in rows:
            person = after[group, who]
            assert (count, was, now, lowest) == (
                person["count"],
                pytest.approx(before[group, who]["mean"], abs=1e-4),
                pytest.approx(person["mean"], abs=1e-4),
                pytest.approx(person["lowest"], abs=1e-4),
            )


def test_content_is_json_without_numbers_that_are_none(page: Path) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    json.loads((page.parent / "page.json").read_text(), parse_constant=refuse)


def test_page_bears_pseudonyms_unless_the_recipe_asks_for_names(world: World) -> None:
    """In the panels nobody's name is left, nor that of an image. The same people have the same numbers everywhere."""
    naming = Naming(world.partitions, names=False)
    everybody = sorted(set(world.partitions.table["identity"].tolist()))
    assert [naming.person(name) for name in everybody[:2]] == ["person 001", "person 002"]
    other = Naming(
        Partitions(world.partitions.table.where(np.arange(len(world.partitions.table))[::-1]), SCALES), names=False
    )
    image = next(iter(world.partitions.table["image"][world.partitions.in_forget_set("S1", "train")]))
    assert other.image(image) == naming.image(image)
    assert re.fullmatch(r"person \d{3}, photo \d", naming.image(image))
    panel = panel_of("S1", world.evaluated, world.results[2], POINTS, "S1", naming)
    written = json.dumps(panel, ensure_ascii=False)
    assert "person 0" in written
    for name in everybody:
        assert json.dumps(name, ensure_ascii=False)[1:-1] not in written
        assert name[:4] not in written
    known = world.only(["S1"], [ORIGINAL, *METHODS]).panels()[0]
    assert [naming.person(who) for who, _ in known["models"]["HD"]["forgotten"]] == [
        who for who, _ in panel["models"]["HD"]["forgotten"]
    ]


def test_who_has_fewer_than_six_pairs_is_named_as_not_measured(world: World, tmp_path: Path) -> None:
    part = world.only(["S1"], [ORIGINAL, "HD"])
    who = Naming(part.partitions, names=True).forgotten("S1")[0]
    for number, each in enumerate(part.evaluated):
        path = shutil.copytree(each.path, tmp_path / str(number))
        table = Table.read(path / "people.parquet")
        table.where(table["identity"] != who).write(path / "people.parquet")
        part.evaluated[number] = replace(each, path=path)
    (panel,) = part.panels()
    _, text = panel["models"]["HD"]["answers"][panel["first"]][0]
    assert f"Not measured, for want of photographs: 1 ({who})." in text


def test_chance_stands_for_every_column(world: World, content: Json) -> None:
    for panel in content["panels"]:
        assert set(panel["columns"]) <= set(panel["chance"])
        rows = Table.read(folder(world, panel["scale"], "HD") / "results.parquet").rows()
        wanted = {
            r["operating_point"]: r["value"]
            for r in rows
            if (r["group"], r["metric"]) == ("F", "weakly_forgotten_chance")
        }
        for point in POINTS:
            place = panel["targets"].index(point)
            assert panel["chance"]["TMR Fev-Fev"][place] == point
            assert panel["chance"]["weakly_forgotten F"][place] == pytest.approx(wanted[point])


def test_maps_are_told_from_methods_that_change_the_network(content: Json) -> None:
    for _, variant, panel, model in models(content):
        assert model["behind"] == (variant == "GS")
        if variant != ORIGINAL:
            _, text = model["answers"][panel["first"]][-1]
            assert text.startswith("Yes: the network is as it was" if variant == "GS" else "Nothing here measures")


def test_original_model_alone_has_no_answer(world: World) -> None:
    (panel,) = world.only(["S1"], [ORIGINAL]).panels()
    assert list(panel["models"]) == [ORIGINAL]
    assert panel["recommended"] == [None] * len(panel["targets"])


def test_development_set_of_a_few_pairs_has_a_rate_to_show(world: World) -> None:
    """Nine pairs resolve no rate below 0.1: the page shows the lowest that they resolve."""
    small = world.only(["S1"], [ORIGINAL])
    (path,) = [each.path for each in small.evaluated]
    curves = Table.read(path / "curves.parquet")
    wide = curves.where(np.asarray(curves["target"] > 0.2, bool))
    found = Range(wide)
    assert found.targets == [min(t for t in curves["target"] if t > 0.2)]
    assert math.isnan(found.at("TMR", "T", 0.01).value)
