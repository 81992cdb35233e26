"""An erasure from paths alone: who is forgotten, who is retained, and what comes back."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from damnatio.cli.main import main
from damnatio.models.card import Card
from damnatio.models.store import load_backbone, new_backbone, save_model
from damnatio.support.tables import Table

pytestmark = pytest.mark.cli

SMALL = ["forget.batch=32", "forget.epochs=1", "evaluate.operating_points=[0.1]", "evaluate.replicates=20", "threads=1"]
QUICK = [word for setting in SMALL for word in ("--set", setting)]


@pytest.fixture
def request_of(tmp_path: Path, face_folder: Path) -> tuple[Path, Path, Path]:
    """A model, three people to forget and the others."""
    people = tmp_path / "people"
    people.mkdir()
    for name in ("person00", "person01", "person02"):
        shutil.move(face_folder / name, people / name)
    model = tmp_path / "model"
    model.mkdir()
    card = Card(backbone="iresnet-tiny", dim=16, size=32, licence="MIT")
    save_model(new_backbone("iresnet-tiny", 32, 16), None, card, model)
    return model, people, face_folder


def erased(paths: tuple[Path, Path, Path], out: Path, *more: str) -> int:
    return main(["erase", *map(str, paths), "--out", str(out), *QUICK, *more])


def partitions_of(out: Path) -> Table:
    (folder,) = (out / "run/3-partitions").iterdir()
    return Table.read(folder / "partitions.parquet")


def names(table: Table, partition: str) -> set[str]:
    return set(table["identity"][table["partition"] == partition])


def test_the_people_are_forgotten_and_the_model_comes_back_as_it_was(
    tmp_path: Path, request_of: tuple[Path, Path, Path]
) -> None:
    out = tmp_path / "out"
    assert erased(request_of, out) == 0
    table = partitions_of(out)
    assert names(table, "F") == {f"person0{i}" for i in range(3)}
    assert not {name for p in "RTD" for name in names(table, p)} & names(table, "F")
    assert {str(image).split("/")[0] for image in table["image"][table["partition"] != "F"]} == {"retain"}
    assert len(names(table, "R")) + len(names(table, "T")) + len(names(table, "D")) == 37
    before, after = load_file(request_of[0] / "model.safetensors"), load_file(out / "model-HD.safetensors")
    assert {k: v.shape for k, v in before.items()} == {k: v.shape for k, v in after.items()}
    frozen = [name for name in before if name.startswith(("conv1", "layer1", "layer2", "layer3"))]
    assert frozen
    assert all(np.array_equal(before[name], after[name]) for name in frozen)
    assert any(not np.array_equal(before[name], after[name]) for name in before)
    card = Card.model_validate_json((out / "model-HD.safetensors.card.json").read_text())
    assert (card.backbone, card.licence) == ("iresnet-tiny", "MIT")
    assert "altered by HD" in card.origin
    results = (out / "run/report/results.csv").read_text()
    assert ",original,1:1,T," in results
    assert ",HD,1:1,Fev-Fev," in results
    (folder,) = (out / "run/5-forget").iterdir()
    load_backbone(folder)


def test_given_sets_are_used_whole_and_all_is_trained_where_nothing_shall_be_frozen(
    tmp_path: Path, request_of: tuple[Path, Path, Path]
) -> None:
    others = {}
    for role, numbers in (("development", range(3, 10)), ("test", range(10, 16))):
        others[role] = tmp_path / role
        others[role].mkdir()
        for number in numbers:
            shutil.move(request_of[2] / f"person{number:02d}", others[role] / f"person{number:02d}")
    out = tmp_path / "out"
    given = [word for role, path in others.items() for word in (f"--{role}", str(path))]
    assert erased(request_of, out, *given, "--freeze", "none", "--method", "OF") == 0
    table = partitions_of(out)
    assert names(table, "D") == {f"person{i:02d}" for i in range(3, 10)}
    assert names(table, "T") == {f"person{i:02d}" for i in range(10, 16)}
    assert names(table, "R") == {f"person{i:02d}" for i in range(16, 40)}
    assert not (out / "run/4-trunk").exists()
    before, after = load_file(request_of[0] / "model.safetensors"), load_file(out / "model-OF.safetensors")
    assert not np.array_equal(before["conv1.weight"], after["conv1.weight"])


def test_what_cannot_work_is_refused(
    tmp_path: Path, request_of: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model, people, retain = request_of
    lone = tmp_path / "lone"
    (lone / "someone").mkdir(parents=True)
    shutil.copy(people / "person00/0.png", lone / "someone/0.png")
    assert erased((model, lone, retain), tmp_path / "a") == 2
    assert "has two capture instances" in capsys.readouterr().err
    few = tmp_path / "few"
    shutil.copytree(retain / "person03", few / "person03")
    assert erased((model, people, few), tmp_path / "b") == 2
    assert "too few people" in capsys.readouterr().err
    large = tmp_path / "large"
    for number in range(3):
        (large / "someone").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (48, 48), (number * 80, 9, 9)).save(large / f"someone/{number}.png")
    assert erased((model, large, retain), tmp_path / "c") == 2
    told = capsys.readouterr().err
    assert "48x48 is not 32x32" in told
    assert "--resize" in told
    for words in (["forget", "demo", "--method", "OF"], ["forget", "a", "b", "c"], ["erase", "a", "b"]):
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 2
    assert erased((tmp_path / "nothing.onnx", people, retain), tmp_path / "d") == 2
    assert "there is no file" in capsys.readouterr().err
