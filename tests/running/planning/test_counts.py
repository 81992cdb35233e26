"""The images of a recipe before anything is decoded, against what the stages find and against the paper's Table II."""

from pathlib import Path

import pytest

from damnatio.partitions import FILE, Partitions
from damnatio.pipeline import Pipeline
from damnatio.recipe.files import load
from damnatio.running.planning.counts import AtHand, Counts, at_hand, counts_of, drawn_counts
from damnatio.running.planning.work import Work
from damnatio.workspace import Workspace
from tests.conftest import TINY


def counted(recipe: str, *words: str) -> Counts:
    loaded = load(recipe, words)
    return counts_of(loaded, at_hand(loaded))


def test_the_papers_counts_are_those_of_table_2() -> None:
    counts = counted("paper-tables-3-4")
    assert (counts.images, counts.identities, counts.classes) == (4_200_000, 205_990, 100_000)
    assert counts.forget_eval == {"S1": 6_289, "S2": 30_934}  # tr->ev
    assert counts.forget_train == {"S1": 4 * 6_289, "S2": 4 * 30_934}  # four fifths are trained on
    assert counts.probes == 10_488 + 10_645
    assert (counts.control, counts.test) == (2 * 10_488, 2 * 10_645)
    assert counts.retain == 2_038_934  # 100,000 x 4,200,000 / 205,990
    assert counts.development == 730_958
    assert counts.distractors == 1_019_467
    assert counts.evaluated == 20_976 + 21_290 + 730_958 + 1_019_467 + 5 * 30_934
    assert counts.templates == 52_000
    assert "Table II" in counts.origin
    assert "data/webface4m/train.rec" in counts.origin  # and why


def test_the_demos_steps_are_those_that_it_takes() -> None:
    """The images of 1,000 people are 94 batches of 128 and a rest."""
    recipe = load("demo")
    found = at_hand(recipe)
    assert isinstance(found, AtHand)
    counts = counts_of(recipe, found)
    assert counts.images == len(found.index)
    assert counts.identities == 2_250
    assert counts.classes == 1_000
    assert counts.forget_identities == {"S1": 50, "S2": 100}
    assert counts.retain // 128 == 94
    pieces = {(piece.stage, piece.name): piece for piece in Work(recipe, counts).pieces}
    assert pieces["train", "f*"].steps == 8 * 94
    assert pieces["train", "f*"].gradients == 8 * 94 * 128
    seen = counts.forget_train["S1"]
    assert pieces["forget", "S1 OF"].gradients == 2 * 94 * (128 + 64)
    assert pieces["forget", "S1 OF"].forwards == seen
    assert pieces["forget", "S1 CURE"].forwards == 2 * 94 * (128 + 64) + (1 + 2) * seen  # it clusters in both epochs
    assert pieces["forget", "S1 GS"].images == pieces["embed", "S1 GS"].images == 0
    assert pieces["embed", "f*"].forwards == counts.evaluated


@pytest.mark.cli
def test_the_counts_of_an_index_are_those_of_the_stages(tmp_path: Path) -> None:
    """Without bursts no image is dropped, and the plan's draw is that of the run."""
    recipe = load("demo", [*TINY, "faces.burst=0"])
    with Workspace(tmp_path / "run", say=lambda line: None) as workspace:
        drawn = Partitions.read(Pipeline(recipe, workspace).partitions().path / FILE)
    found = at_hand(recipe)
    planned = counts_of(recipe, found)
    assert planned == drawn_counts(drawn, recipe.partitions, planned.origin)
    assert planned.evaluated == len(drawn.evaluated())


def test_too_few_people_are_reported_before_anything_runs() -> None:
    from damnatio.support.errors import DamnatioError

    with pytest.raises(DamnatioError, match="Too few identities"):
        counted("demo", "faces.identities=500")
