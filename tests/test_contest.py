"""The contest of all methods, on a world of seconds."""

import csv
from pathlib import Path

import pytest

from contest.holding import hold
from contest.rules import CONTESTANTS, TUNING, WORLDS, World, harm, settings_of
from contest.tables import REMOVED, publish, read, summary, table, tried
from contest.worlds import Place
from damnatio.partitions import FORGET, TEST
from damnatio.support.errors import DamnatioError
from tests.conftest import TINY

ROOT = Path(__file__).resolve().parents[1]
SMALL = World(recipe="demo", usual=144, steps=3, retain=16, common=("partitions.distractors=0",), tuning=())
OVERRIDES = [
    *(setting for setting in TINY if not setting.startswith("partitions.distractors")),
    "partitions.scales={S1: 3}",
    "evaluate.operating_points=[0.0001, 0.01]",
]
TWO = [contestant for contestant in CONTESTANTS if contestant.name in ("HD", "GS")]


@pytest.mark.cli
def test_a_contest_is_held_once_and_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Place(SMALL, tmp_path / "rendered", OVERRIDES) as place:
        first = hold(place, TWO, draws=(1,))
        with pytest.raises(DamnatioError, match="Another process"):
            Place(SMALL, tmp_path / "rendered", OVERRIDES)
    runs = sorted((tmp_path / "rendered").glob("draw-*/*/run.json"))
    assert len(runs) == 2 * (4 + 1)
    times = [run.stat().st_mtime_ns for run in runs]
    with Place(SMALL, tmp_path / "rendered", OVERRIDES) as place:
        again = hold(place, TWO, draws=(1,))
    assert [run.stat().st_mtime_ns for run in runs] == times
    for before, after in zip(first.entries, again.entries, strict=True):
        assert before.chosen.run.setting == after.chosen.run.setting
        assert before.chosen.harm == min(tried.harm for tried in before.tried)
        assert [run.seconds for run in before.reported] == [run.seconds for run in after.reported]
    cost = {run.contestant: run.gradients for entry in again.entries for run in entry.reported}
    assert cost == {"HD": 3 * (16 + 8 * 4), "GS": 0}

    publish(again, "rendered", tmp_path / "out")
    with (tmp_path / "out/rendered.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == ["original"] + ["HD"] * 5 + ["GS"] * 5
    assert [row["chosen"] for row in rows].count("yes") == 2
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "rendered.csv",
        "rendered.md",
        "rendered-summary.md",
        "rendered.png",
    }
    assert "2 of 3 draws are missing" in (tmp_path / "out/rendered.md").read_text()

    with (
        Place(SMALL, tmp_path / "rendered", [*OVERRIDES, "partitions.test=7"]) as other,
        pytest.raises(DamnatioError, match="made with other settings"),
    ):
        other.partitions(TUNING)
    assert "draw 1" in capsys.readouterr().err


@pytest.mark.cli
def test_no_reported_draw_uses_the_people_of_the_choice(tmp_path: Path) -> None:
    place = Place(SMALL, tmp_path, OVERRIDES)
    choice = place.partitions(TUNING)
    used = set(choice.table["identity"][choice.has(FORGET) | choice.has(TEST)])
    assert used == place.apart
    for number in (1, 2):
        drawn = place.partitions(number)
        assert not used & set(drawn.table["identity"][drawn.table["partition"] != "-"])
        assert drawn.table["row"].tolist() == list(range(len(choice.table)))
    first, second = (place.partitions(number) for number in (1, 2))
    assert (first.table["partition"] != second.table["partition"]).any()


def test_every_contestant_has_four_settings() -> None:
    for contestant in CONTESTANTS:
        settings = settings_of(contestant, dict.fromkeys(contestant.knobs, 1.0))
        assert len({tuple(setting.values()) for setting in settings}) == 4


def test_the_harm_is_the_worse_link_and_the_loss() -> None:
    before = {("Fev-Fev", 0.01): 0.9, ("avg(Ftr)-Fev", 0.01): 1.0, ("T", 0.0001): 0.75}
    after = {("Fev-Fev", 0.01): 0.25, ("avg(Ftr)-Fev", 0.01): 0.5, ("T", 0.0001): 0.5}
    assert harm(after, before) == 0.75
    assert harm({**after, ("T", 0.0001): 0.8}, before) == 0.5  # a gain counts as no loss


@pytest.mark.parametrize("file", sorted((ROOT / "results/contest").glob("*.csv")), ids=lambda file: file.stem)
def test_the_committed_tables_are_made_from_the_committed_runs(file: Path) -> None:
    runs = read(file)
    assert file.with_suffix(".md").read_text() == f"{table(runs, file.stem)}\n{tried(runs)}"
    assert file.with_name(f"{file.stem}-summary.md").read_text() == summary(runs, file.stem)
    cost = {row["method"]: row["image_gradients"] for row in runs if row["method"] not in ("original", "GS")}
    assert set(cost.values()) == {str(WORLDS[file.stem].gradients())}
    held = {row["method"] for row in runs}
    assert {each.name for each in CONTESTANTS} - held <= set(REMOVED), "what is missing is said"
    for contestant in [each for each in CONTESTANTS if each.name in held]:
        tuned = [row for row in runs if row["method"] == contestant.name and int(row["draw"]) == TUNING]
        best = min(tuned, key=lambda row: (float(row["harm"]), float(row["footprint"])))
        assert len(tuned) == 4
        assert float(best["harm"]) == min(float(row["harm"]) for row in tuned if row["chosen"] == "yes")
