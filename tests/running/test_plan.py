"""The stages of a recipe before anything is made, against what a run makes."""

from pathlib import Path

import pytest

from damnatio.cli.main import main
from damnatio.partitions import FILE, Partitions
from damnatio.pipeline import Pipeline
from damnatio.recipe.files import load
from damnatio.running.graph import graph_of
from damnatio.running.plan import _drawn, counts_of, parts_of
from damnatio.support.errors import DamnatioError
from damnatio.workspace import Workspace
from tests.conftest import TINY

FREEZE = ["forget.freeze=layer3", "report.pictures=true", "forget.methods=[HD, GS]"]


def test_the_demos_steps_are_those_that_it_takes() -> None:
    """The images of 1,000 people are 94 batches of 128 and a rest."""
    recipe = load("demo")
    counts = counts_of(recipe)
    assert (counts.identities, counts.retain // 128) == (2_250, 94)
    parts = {(part.stage, part.name): part for part in parts_of(recipe, counts)}
    assert (parts["4-train", "original"].steps, parts["4-train", "original"].images) == (8 * 94, 8 * 94 * 128)
    assert parts["5-forget", "S1-OF"].images == 2 * (counts.retain // 32) * (32 + 64)
    assert parts["5-forget", "S1-GS"].steps == parts["6-embed", "S1-GS"].images == 0
    assert parts["6-embed", "original"].images == counts.evaluated


def test_without_faces_the_papers_counts_are_near_those_of_table_2() -> None:
    counts = counts_of(load("paper-tables-3-4"))
    assert counts.retain == 2_038_934  # 100,000 x 4,200,000 / 205,990
    assert counts.evaluated == pytest.approx(1_947_361, rel=0.03)
    assert "data/webface4m/train.rec" in counts.origin


def test_too_few_people_are_reported_before_anything_runs() -> None:
    with pytest.raises(DamnatioError, match="Too few identities"):
        counts_of(load("demo", ["faces.identities=500"]))


@pytest.mark.parametrize("words", [[], FREEZE])
def test_the_plan_names_the_stages_of_the_run(tmp_path: Path, words: list[str]) -> None:
    recipe = load("demo", [*TINY, *words])
    with Workspace(tmp_path / "run", say=lambda line: None) as workspace:
        graph = graph_of({"": Pipeline(recipe, workspace)})
    planned = {(part.stage, part.name) for part in parts_of(recipe, counts_of(recipe))}
    assert planned == {(node.stage, node.name) for node in graph.nodes.values()}


@pytest.mark.cli
def test_the_plan_says_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without bursts no image is dropped, and the plan's draw is that of the run."""
    words = [word for setting in (*TINY, "faces.burst=0") for word in ("--set", setting)]
    run = tmp_path / "run"
    assert main(["plan", "demo", *words, "--run", str(run)]) == 0
    before = capsys.readouterr().out.splitlines()
    assert before[-1].startswith("0 of 14 stages are there.")
    assert not run.exists()
    assert main(["partitions", "demo", *words, "--run", str(run)]) == 0
    capsys.readouterr()
    assert main(["plan", "demo", *words, "--run", str(run)]) == 0
    after = capsys.readouterr().out.splitlines()
    assert after[-1].startswith("3 of 14 stages are there.")
    assert after[2] == before[2]
    assert after[3] == "Counted by the run's partitions."
    recipe = load("demo", [*TINY, "faces.burst=0"])
    (drawn,) = (run / "3-partitions").glob("all-*")
    counts = counts_of(recipe)
    assert counts == _drawn(Partitions.read(drawn / FILE), counts.origin)
