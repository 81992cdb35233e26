"""Experiments of one recipe in one folder, and runs of several folders, through the command line."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from damnatio.cli.main import main
from damnatio.evaluation.rates import VERSION
from damnatio.running.joint import reports_of
from damnatio.support.manifests import manifest_of
from tests.conftest import TINY

pytestmark = [pytest.mark.cli, pytest.mark.xdist_group("joint")]

RECIPE = """
base: demo
name: two
seeds: [1, 2]
experiments:
  iresnet: {}
  narrow: {model: {margin: 0.1}, forget: {methods: [GS, HD]}}
"""
WORDS = [word for setting in (*TINY, "evaluate.replicates=0") for word in ("--set", setting)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recipe and its finished run."""
    folder = tmp_path_factory.mktemp("experiments")
    (folder / "two.yaml").write_text(RECIPE)
    assert run(folder) == 0
    return folder


def run(folder: Path, *words: str) -> int:
    own = ["--set", "forget.methods=[GS]", "--set", "experiments.narrow.forget.methods=[GS, HD]"]
    return main(["run", str(folder / "two.yaml"), "--run", str(folder / "run"), *WORDS, *own, *words])


def outputs(run: Path, stage: str) -> list[str]:
    return sorted(path.name for path in (run / stage).iterdir() if not path.name.startswith("."))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one sentence of a command that refuses."""
    capsys.readouterr()
    assert main(list(words)) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1, said
    return said[0]


def test_experiments_share_what_they_have_in_common(place: Path) -> None:
    run = place / "run"
    assert len(outputs(run, "1-faces")) == len(outputs(run, "2-captures")) == 1
    assert len(outputs(run, "3-partitions")) == 2, "one draw per seed"
    assert len(outputs(run, "4-train")) == 4
    assert len(outputs(run, "7-evaluate")) == 2 * 2 + 2 * 3, "f* and GS, and HD in one experiment"


def test_every_experiment_and_seed_has_a_report_of_what_it_asked_for(place: Path) -> None:
    names = ["iresnet-seed1", "iresnet-seed2", "narrow-seed1", "narrow-seed2"]
    assert list(reports_of(place / "run")) == names
    for name in names:
        found = rows(place / "run" / f"report-{name}" / "results.csv")
        wanted = {"original", "GS"} | ({"HD"} if "narrow" in name else set())
        assert {row["method"] for row in found} == wanted
        assert (place / "run" / f"report-{name}" / "index.html").exists()


def test_joined_report_holds_all_of_them(place: Path) -> None:
    report = place / "run/report"
    found = rows(report / "results.csv")
    for name in ("iresnet", "narrow"):
        for seed in ("1", "2"):
            mine = [row for row in found if (row["experiment"], row["seed"]) == (name, seed)]
            theirs = rows(place / "run" / f"report-{name}-seed{seed}" / "results.csv")
            assert [row["value"] for row in mine] == [row["value"] for row in theirs]
    shown = {row["Method"]: row for row in rows(report / "verification.csv")}
    values = [
        float(row["value"])
        for row in found
        if (row["experiment"], row["method"], row["task"], row["group"], row["metric"], row["operating_point"])
        == ("narrow", "HD", "1:1", "T", "TMR", "0.01")
    ]
    assert float(shown["HD"]["narrow T ↑"]) == pytest.approx(sum(values) / 2)
    assert shown["HD"]["iresnet T ↑"] == "", "it was not run there"


def test_same_command_makes_nothing_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (place / "run/report/index.html").stat().st_mtime_ns
    assert run(place) == 0
    said = capsys.readouterr().out
    assert "unlike" not in said
    assert " s " + str(place) not in said
    assert (place / "run/report/index.html").stat().st_mtime_ns == before


def test_stage_alone_works_for_every_experiment(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(place / "two.yaml"), "--run", str(place / "run"), *WORDS]) == 0
    said = capsys.readouterr().out
    for name in ("iresnet-seed1", "iresnet-seed2", "narrow-seed1", "narrow-seed2"):
        assert f"experiment    {name}" in said
    assert len(outputs(place / "run", "4-train")) == 4


def test_findings_of_a_run_with_experiments(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both experiments measured the same backbone, so each is judged by itself."""
    assert main(["findings", str(place / "run")]) == 0
    titles = [line for line in capsys.readouterr().out.splitlines() if line.startswith("## ")]
    assert titles == [f"## {name}, seed {seed}" for seed in (1, 2) for name in ("iresnet", "narrow")]
    assert main(["findings", f"a={place / 'run'}", "--paper"]) == 0
    text = capsys.readouterr().out
    assert "*a-narrow, S1, beside iResNet-34*" in text
    assert (place / "run/report/against-paper.md").read_text() == text.replace("a-", "")


# --- join ------------------------------------------------------------------------------------------------------------


def apart(place: Path, folder: Path, report: str, own: str, **changes: Any) -> Path:
    """A run of its own, as another machine would have left it: one experiment's report as the only one. `changes` are
    put into the recipe that its manifest holds, by `section__key`."""
    shutil.copytree(place / "run" / f"report-{report}", folder / own / "report")
    manifest = folder / own / "report/stage.json"
    content = json.loads(manifest.read_text())
    for key, value in changes.items():
        *sections, last = key.split("__")
        there = content if sections[:1] == ["inputs"] else content["settings"]["recipe"]
        for section in sections:
            there = there[section]
        there[last] = value
    manifest.write_text(json.dumps(content))
    return folder / own


def test_runs_of_several_folders_give_the_same_joined_report(place: Path, tmp_path: Path) -> None:
    words = []
    for name in reports_of(place / "run"):
        words.append(f"{name.partition('-')[0]}={apart(place, tmp_path, name, f'machine-{name}')}")
    out = tmp_path / "out"
    assert main(["join", *words, "--out", str(out)]) == 0
    for file in ("results.csv", "verification.csv", "identification.md", "rates.tex", "distances.csv", "findings.md"):
        assert (out / "report" / file).read_text() == (place / "run/report" / file).read_text()
    shutil.rmtree(tmp_path / "machine-iresnet-seed1")
    assert (out / "report/index.html").exists(), "it holds the page of each run"
    assert (out / "report/page-iresnet-1.html").exists()


def test_folders_name_experiments_and_runs_with_experiments_bring_them_all(place: Path, tmp_path: Path) -> None:
    solo = apart(place, tmp_path, "iresnet-seed1", "solo-seed1", name="solo")
    assert main(["join", str(solo), f"a={place / 'run'}", "--out", str(tmp_path / "out")]) == 0
    found = {(row["experiment"], row["seed"]) for row in rows(tmp_path / "out/report/results.csv")}
    assert found == {("solo", "1"), *((f"a-{name}", seed) for name in ("iresnet", "narrow") for seed in "12")}


def test_other_protocols_are_refused_by_name(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = apart(place, tmp_path, "iresnet-seed1", "one")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"evaluate__operating_points": [0.01, 0.2]}, "evaluate.operating_points is [0.01, 0.1] and [0.01, 0.2]"),
        ({"partitions__retain": 23}, "partitions.retain is 24 and 23"),
        ({"captures__threshold": 29.0}, "captures.threshold is 30.0 and 29.0"),
        ({"inputs__partitions": "0123"}, "the seed 1 they drew other people, so their faces are not the same"),
    ]
    for changes, words in cases:
        other = apart(place, tmp_path, "narrow-seed1", f"other{len(list(tmp_path.iterdir()))}", **changes)
        said = refused(capsys, "join", str(one), str(other), "--out", str(tmp_path / "out"))
        assert said.startswith(f"damnatio: {one}/report and {other}/report cannot stand in one table: ")
        assert words in said
    assert not (tmp_path / "out").exists()


def test_findings_refuse_what_join_refuses(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = apart(place, tmp_path, "iresnet-seed1", "one")
    other = apart(place, tmp_path, "narrow-seed1", "other", partitions__retain=23)
    said = refused(capsys, "findings", str(one), str(other))
    assert "cannot stand in one table: partitions.retain is 24 and 23. Join runs of one protocol." in said


def test_results_of_another_version_are_refused(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = apart(place, tmp_path, "iresnet-seed1", "later")
    manifest = run / "report/stage.json"
    content = json.loads(manifest.read_text())
    assert content["settings"].pop("results") == VERSION
    manifest.write_text(json.dumps(content))
    assert main(["findings", str(run)]) == 0, "before results had a version"
    content["settings"]["results"] = VERSION + 1
    manifest.write_text(json.dumps(content))
    sentence = f"report/results.csv has version {VERSION + 1} of the results, and this damnatio reads version {VERSION}"
    for words in (["findings", str(run)], ["join", str(run), "--out", str(tmp_path / "out")]):
        assert sentence in refused(capsys, *words)


def test_findings_and_comparison_are_written_to_a_folder(place: Path, tmp_path: Path) -> None:
    run = apart(place, tmp_path, "narrow-seed1", "one")
    out = tmp_path / "new/out"
    assert main(["findings", str(run), "--paper", "--out", str(out)]) == 0
    names = {
        "findings.md",
        "against-paper.md",
        "against-paper.csv",
        "against-paper-rows.csv",
        "against-paper-signs.csv",
    }
    assert {path.name for path in out.iterdir()} == names
    for name in names:
        assert (out / name).read_text() == (run / "report" / name).read_text()
    shown = {row["method"] for row in rows(out / "against-paper.csv") if row["ours"]}
    assert shown == {"original", "HD"}, "GS is not the paper's"


def test_seeds_of_one_experiment_differ_in_the_seed_alone(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (apart(place, tmp_path, f"iresnet-seed{seed}", f"x-seed{seed}") for seed in (1, 2))
    again = apart(place, tmp_path, "narrow-seed2", "narrow")
    out = ["--out", str(tmp_path / "out")]
    said = refused(capsys, "join", str(one), f"x={again}", *out)
    assert "cannot be seeds of one experiment, 'x': model.margin is 0.35 and 0.1. Name them, as in NAME=RUN." in said
    twin = apart(place, tmp_path, "iresnet-seed1", "twin")
    assert "both have the seed 1" in refused(capsys, "join", str(one), f"x={twin}", *out)
    assert main(["join", str(one), str(other), *out]) == 0
    assert {row["experiment"] for row in rows(tmp_path / "out/report/results.csv")} == {"x"}


def test_join_refuses_what_is_no_run_and_never_replaces_a_runs_report(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "join", str(tmp_path / "nowhere"), "--out", str(tmp_path / "out"))
    assert f"There is no finished report in {tmp_path}/nowhere/report" in said
    key = manifest_of(place / "run/report")["key"]
    said = refused(capsys, "join", str(place / "run"), "--out", str(place / "run"))
    assert "is the folder of a run: name another, so that its report stays" in said
    assert manifest_of(place / "run/report")["key"] == key
