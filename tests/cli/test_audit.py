"""A finished run, checked again from its embeddings: with its own settings, against its own numbers."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from damnatio.cli.main import main
from damnatio.support.tables import Table
from tests.conftest import TINY

pytestmark = pytest.mark.cli

SETTINGS = [*TINY, "forget.methods=[HD]", "seed=7", "evaluate.operating_points=[0.05, 0.2]", "evaluate.replicates=20"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seed, operating points and replicates are not those of the demo."""
    run = tmp_path_factory.mktemp("audit") / "run"
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    assert main(["run", "demo", "--run", str(run), *words]) == 0
    return run


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


def only(run: Path, pattern: str) -> Path:
    (file,) = run.glob(pattern)
    return file


def test_a_run_agrees_with_itself_by_its_own_settings(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    assert main(["recheck", str(finished), "--out", str(tmp_path / "again")]) == 0
    out = capsys.readouterr().out
    rows = {name: len(Table.read(only(finished, f"7-evaluate/{name}-*/results.parquet"))) for name in MODELS}
    for name, count in rows.items():
        scale, variant = name.split("-")
        assert f"{scale} {variant:<12} {count:>5} numbers, all as stored" in out
        assert Table.read(tmp_path / "again" / name / "results.parquet")["operating_point"][0] == 0.05
    assert f"{sum(rows.values()):,} numbers, all as stored" in out
    assert f"results       {tmp_path / 'again'}" in out
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


MODELS = ("S1-original", "S1-HD")


def test_one_model_can_be_chosen(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--method", "HD", "--scale", "S1", "--scores", str(tmp_path / "scores")]
    assert main(["recheck", str(finished), *words]) == 0
    out = capsys.readouterr().out
    assert "S1 HD" in out
    assert "original" not in out
    assert (tmp_path / "scores/S1-HD/T.csv").is_file()
    for words, sentence in (
        (["--method", "HDD"], "holds no evaluation of the method 'HDD'. Did you mean 'HD'?"),
        (["--scale", "S2"], "holds no evaluation of the scale 'S2'. Known: S1."),
    ):
        assert main(["recheck", str(finished), *words]) == 2
        assert sentence in capsys.readouterr().err


def test_numbers_that_differ_are_listed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a report whose manifest was made to vouch for an edited table."""
    file, manifest_file = run / "report/results.csv", run / "report/stage.json"
    lines = file.read_text().splitlines(keepends=True)
    (place,) = [i for i, line in enumerate(lines) if ",HD,1:1,Fev-Fev,0.05,TMR," in line]
    cells = lines[place].split(",")
    cells[7] = "0.123"
    lines[place] = ",".join(cells)
    file.write_text("".join(lines))
    manifest = json.loads(manifest_file.read_text())
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    manifest["files"]["results.csv"] = {"bytes": file.stat().st_size, "sha256": digest}
    manifest_file.write_text(json.dumps(manifest))
    assert main(["recheck", str(run)]) == 1
    out = capsys.readouterr().out
    assert f"{file}: 1:1 Fev-Fev TMR at 0.05: value is " in out
    assert "and 0.123 is stored" in out
    assert "numbers, 1 differ\n" in out


def test_embeddings_from_elsewhere_are_measured_by_the_settings_of_the_run(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    altered, star = tmp_path / "f.safetensors", tmp_path / "star.safetensors"
    shutil.copy(only(run, "6-embed/S1-HD-*/embeddings.safetensors"), altered)
    shutil.copy(only(run, "6-embed/original-*/embeddings.safetensors"), star)
    partitions = shutil.copy(only(run, "3-partitions/*/partitions.parquet"), tmp_path)
    stored = only(run, "7-evaluate/S1-HD-*")
    given = ["--embeddings", str(altered), "--original", str(star)]
    for number, more in enumerate(([], ["--partitions", str(partitions), "--scale", "S1"])):
        out = tmp_path / f"out{number}"
        assert main(["recheck", str(run), *given, *more, "--out", str(out)]) == 0
        assert (out / "results.parquet").read_bytes() == (stored / "results.parquet").read_bytes()
        shown = capsys.readouterr().out
        assert "Fev-Fev" in shown
        assert str(out) in shown


def test_a_run_without_a_report_is_checked_against_its_evaluations(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(run / "report")
    assert main(["recheck", str(run)]) == 0
    assert "S1 HD" in capsys.readouterr().out


def test_what_cannot_be_rechecked_gets_a_sentence(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    embeddings = only(run, "6-embed/S1-HD-*/embeddings.safetensors")
    for words, sentence in (
        ([tmp_path], f"{tmp_path} holds no finished evaluation: run a recipe there to its end first. Did you mean"),
        ([tmp_path / "nothing"], "holds no finished evaluation"),
        ([run, "--partitions", tmp_path], "--partitions goes with --embeddings"),
        ([run, "--original", tmp_path], "--original goes with --embeddings"),
        ([run, "--embeddings", embeddings, "--method", "HD"], "leave one of them out"),
    ):
        assert main(["recheck", *map(str, words)]) == 2
        assert sentence in capsys.readouterr().err
    manifest_file = only(run, "7-evaluate/S1-HD-*/stage.json")
    whole = json.loads(manifest_file.read_text())
    for key, value in (("settings", {}), ("settings", 3), ("inputs", [])):
        manifest_file.write_text(json.dumps({**whole, key: value}))
        assert main(["recheck", str(run)]) == 2
        error = capsys.readouterr().err
        assert "does not say how its output was made" in error
        assert error.count("\n") == 1
    manifest_file.write_text(json.dumps(whole))
    shutil.rmtree(embeddings.parent)
    assert main(["recheck", str(run)]) == 2
    assert f"was computed from an output that is no longer in {run / '6-embed'}" in capsys.readouterr().err
