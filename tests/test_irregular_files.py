"""Pipes, sockets, devices and folders where a file is expected: one sentence each, or one skipped image."""

import json
import os
from pathlib import Path

import pytest
from PIL import Image

from damnatio.cli.main import main
from damnatio.faces.base import UnreadableError
from damnatio.faces.decoding import MAX_MEBIBYTES, image_file
from damnatio.support.errors import DamnatioError
from tests.shell import damnatio, refusal

pytestmark = pytest.mark.cli


def skipped(said: str) -> dict[str, str]:
    """The reasons by name, of the summary that the faces verb prints."""
    summary = json.loads(said[said.index("{") : said.rindex("}") + 1])
    return dict(line.split(": ", 1) for line in summary["first_skipped"])


def test_a_folder_of_faces_skips_what_is_no_file(tmp_path: Path, face_folder: Path) -> None:
    os.mkfifo(face_folder / "person00/pipe.jpg")
    (face_folder / "person00/zero.png").symlink_to("/dev/zero")
    with (face_folder / "person00/long.png").open("wb") as file:
        file.truncate(2**40)
    (face_folder / "loop").symlink_to("loop")
    done = damnatio("faces", face_folder, "--run", tmp_path / "run", "--set", "faces.size=32")
    assert done.returncode == 0, done.stderr
    assert skipped(done.stdout) == {
        "loop": "Too many levels of symbolic links",
        "person00/long.png": f"more than {MAX_MEBIBYTES} MiB, the most that is read of one image",
        "person00/pipe.jpg": "a named pipe, and only regular files are read",
        "person00/zero.png": "a device, and only regular files are read",
    }


def test_a_manifest_skips_what_is_no_file(tmp_path: Path) -> None:
    Image.new("RGB", (32, 32)).save(tmp_path / "a.png")
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "list.csv").write_text("path,identity\na.png,Ann\n/dev/zero,Ann\npipe.png,Bob\n")
    done = damnatio("faces", tmp_path / "list.csv", "--run", tmp_path / "run", "--set", "faces.size=32")
    assert done.returncode == 0, done.stderr
    assert set(skipped(done.stdout)) == {"/dev/zero", "pipe.png"}


def test_an_image_as_long_as_the_bound_is_read(tmp_path: Path) -> None:
    with (tmp_path / "long.png").open("wb") as file:
        file.truncate(MAX_MEBIBYTES * 2**20)
    assert len(image_file(tmp_path / "long.png")) == MAX_MEBIBYTES * 2**20
    with (tmp_path / "long.png").open("ab") as file:
        file.write(b"1")
    with pytest.raises(UnreadableError):
        image_file(tmp_path / "long.png")


@pytest.mark.parametrize("ending", ["csv", "parquet", "rec", "tar", "bin"])
@pytest.mark.timeout(120)
def test_a_source_that_is_a_pipe_is_reported(tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / f"faces.{ending}")
    assert main(["faces", str(tmp_path / f"faces.{ending}"), "--run", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert f"faces.{ending}" in said
    assert "a named pipe, and only regular files are read" in said


def test_an_index_that_is_a_pipe_is_done_without(tmp_path: Path) -> None:
    from damnatio.faces.recordio import _read_idx

    os.mkfifo(tmp_path / "train.idx")
    assert _read_idx(tmp_path / "train.idx") is None


@pytest.mark.parametrize("name", ["f.onnx", "f.pth", "f.safetensors", "f.pth.card.json", "pairs.txt", "pairs.csv"])
@pytest.mark.timeout(120)
def test_a_model_a_card_and_a_list_that_are_pipes_are_reported(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from damnatio.models.card import Card
    from damnatio.models.exporting import export
    from tests.models.onnx.world import settled

    card = Card(backbone="iresnet-tiny", dim=16, size=32)
    export(settled("iresnet-tiny", 32, 16), card, tmp_path / "f.pth")
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    (tmp_path / "faces").mkdir()
    model = name if name in ("f.onnx", "f.safetensors") else "f.pth"
    words = ["--pairs", str(tmp_path / name)] if name.startswith("pairs") else []
    assert main(["benchmark", str(tmp_path / model), str(tmp_path / "faces"), *words]) == 2
    assert f"{tmp_path / name} is a named pipe, and only regular files are read" in capsys.readouterr().err


def test_a_recipe_that_is_a_pipe_or_a_folder_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert main(["run", str(tmp_path / "pipe.yaml")]) == 2
    assert "pipe.yaml is a named pipe" in capsys.readouterr().err
    assert main(["run", str(tmp_path)]) == 2
    assert f"{tmp_path} is a folder, and only regular files are read" in capsys.readouterr().err


def test_stored_embeddings_that_are_a_pipe_are_reported(tmp_path: Path) -> None:
    from damnatio.embedding import load_embeddings
    from damnatio.support.tables import Table

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DamnatioError, match="is a named pipe"):
        load_embeddings(tmp_path / "pipe", Table({}))


def test_faces_that_are_not_there_are_reported_as_such(tmp_path: Path) -> None:
    said = refusal(damnatio("faces", tmp_path / "nowhere"))
    assert f"There is no folder or file {tmp_path / 'nowhere'}, nor a recipe of that name." in said
