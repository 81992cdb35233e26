"""Files of a finished run that were damaged, edited or swapped: refused by name with what to do, and never measured."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from damnatio.cli.main import main
from tests.conftest import TINY

pytestmark = pytest.mark.cli

SETTINGS = [word for setting in (*TINY, "forget.methods=[HD]") for word in ("--set", setting)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("whole") / "run"
    assert main(["run", "demo", "--run", str(run), *SETTINGS]) == 0
    return run


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


def only(run: Path, pattern: str) -> Path:
    (path,) = run.glob(pattern)
    return path


def flip(path: Path) -> None:
    """One bit of a byte in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def garble(path: Path) -> None:
    path.write_bytes(b"\xff\xfe no such thing")


HD, STAR = "7-evaluate/S1-HD-*", "7-evaluate/S1-original-*"


@pytest.mark.parametrize(
    ("verb", "missing", "damaged", "damage"),
    [
        ("captures", "2-captures", "1-faces/*/pixels.npy", cut),
        ("captures", "2-captures", "1-faces/*/pixels.npy", flip),
        ("captures", "2-captures", "1-faces/*/faces.parquet", garble),
        ("captures", "report", "2-captures/*/summary.json", garble),
        ("partitions", "3-partitions", "2-captures/*/captures.parquet", cut),
        ("forget", "5-forget", "4-train/*/head.safetensors", flip),
        ("forget", "5-forget", "3-partitions/*/partitions.parquet", flip),
        ("embed", "6-embed/S1-HD-*", "5-forget/*/model.safetensors", flip),
        ("embed", "6-embed/S1-HD-*", "5-forget/*/card.json", garble),
        ("embed", "6-embed/S1-HD-*", "5-forget/*/model.safetensors", Path.unlink),
        ("evaluate", HD, "6-embed/S1-HD-*/embeddings.safetensors", flip),
        ("evaluate", HD, f"{STAR}/retain_scores.safetensors", cut),
        ("report", "report", f"{HD}/results.parquet", garble),
        ("report", "report", f"{HD}/warnings.json", garble),
        ("report", "report", f"{HD}/sketches.safetensors", garble),
        ("report", "nothing", "report/page.json", garble),
        ("report", "nothing", "report/page.json", cut),
    ],
)
def test_what_a_later_stage_reads_is_refused_by_name(
    run: Path, capsys: pytest.CaptureFixture[str], verb: str, missing: str, damaged: str, damage: Callable[[Path], None]
) -> None:
    for path in run.glob(missing):
        shutil.rmtree(path)
    file = only(run, damaged)
    damage(file)
    assert main([verb, "demo", "--run", str(run), *SETTINGS]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"damnatio: {file} is ")
    assert f"Delete the folder {file.parent} and run the recipe again" in error
    assert error.count("\n") == 1


def test_following_the_advice_makes_the_output_anew(run: Path) -> None:
    shutil.rmtree(only(run, "6-embed/S1-HD-*"))
    model = only(run, "5-forget/*/model.safetensors")
    before = model.read_bytes()
    flip(model)
    command = ["embed", "demo", "--run", str(run), *SETTINGS]
    assert [main(command), main(command)] == [2, 2]
    shutil.rmtree(model.parent)
    assert main(command) == 0
    assert model.read_bytes() == before


def test_swapped_embeddings_are_not_evaluated(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(only(run, HD))
    theirs, ours = (only(run, f"6-embed/{name}-*/embeddings.safetensors") for name in ("original", "S1-HD"))
    shutil.copy(theirs, ours)
    assert main(["evaluate", "demo", "--run", str(run), *SETTINGS]) == 2
    assert f"{ours} is not what its stage wrote" in capsys.readouterr().err


def test_verbs_that_read_a_run_refuse_what_is_damaged(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    embeddings = only(run, "6-embed/S1-HD-*/embeddings.safetensors")
    partitions = only(run, "3-partitions/*/partitions.parquet")
    again = ["recheck", str(run)]
    named = [*again, "--embeddings", str(embeddings), "--partitions", str(partitions)]
    model = only(run, "5-forget/*/model.safetensors")
    export = ["export", str(model.parent), str(tmp_path / "f.safetensors")]
    for command, file in (
        (["findings", str(run)], run / "report/results.csv"),
        (again, embeddings),
        (again, partitions),
        (again, only(run, f"{HD}/results.parquet")),
        (again, run / "report/results.csv"),
        (named, embeddings),
        (named, partitions),
        (export, model),
    ):
        assert main(command) == 0
        before = file.read_bytes()
        flip(file)
        capsys.readouterr()
        assert main(command) == 2
        assert f"{file} is not what its stage wrote" in capsys.readouterr().err
        file.write_bytes(before)
        assert main(command) == 0


def test_what_nobody_reads_is_not_checked(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for pattern in ("1-faces/*/pixels.npy", "4-train/*/model.safetensors", f"{HD}/results.parquet"):
        garble(only(run, pattern))
    assert main(["run", "demo", "--run", str(run), *SETTINGS]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if str(run) in line and "Page" not in line]
    assert all("reused" in line for line in lines)


def test_pixels_that_were_deleted_are_read_from_the_source(run: Path) -> None:
    only(run, "1-faces/*/pixels.npy").unlink()
    captures = only(run, "2-captures/*/captures.parquet")
    before = captures.read_bytes()
    shutil.rmtree(captures.parent)
    assert main(["captures", "demo", "--run", str(run), *SETTINGS]) == 0
    assert captures.read_bytes() == before


def test_output_with_a_damaged_manifest_is_made_again_by_its_stage_and_refused_by_a_verb(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = only(run, "5-forget/*/model.safetensors")
    export = ["export", str(model.parent), str(tmp_path / "f.safetensors")]
    manifest = model.with_name("stage.json")
    whole = json.loads(manifest.read_text())
    old = {key: value for key, value in whole.items() if key != "files"}
    for content, sentence in ((b"\xff{", "is damaged"), (json.dumps(old).encode(), "has no hashes")):
        manifest.write_bytes(content)
        assert main(export) == 2
        error = capsys.readouterr().err
        assert f"{manifest} {sentence}" in error
        assert error.count("\n") == 1
        assert main(["forget", "demo", "--run", str(run), *SETTINGS]) == 0
        made = [line.split()[0] for line in capsys.readouterr().out.splitlines() if " s " in line]
        assert made == ["5-forget"]
        assert json.loads(manifest.read_text())["files"].keys() == whole["files"].keys()
    manifest.unlink()  # a copy that is used as it is
    assert main(export) == 0


@pytest.mark.parametrize(
    "content",
    ["", "\x00\x01", "backbone,scale\n1,2\n", "{header}\n", "{header}\n1,2\n", '{header}\n"', "{header}\n{row},9\n"],
)
def test_unreadable_results_without_a_manifest_get_a_sentence(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    report = tmp_path / "report"
    report.mkdir()
    shutil.copy(finished / "report/warnings.csv", report)
    header, row, *_ = (finished / "report/results.csv").read_text().splitlines()
    (report / "results.csv").write_text(content.replace("{header}", header).replace("{row}", row))
    assert main(["findings", str(tmp_path)]) == 2
    assert f"{report / 'results.csv'} is no table of a report" in capsys.readouterr().err
