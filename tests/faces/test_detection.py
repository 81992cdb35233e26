"""A path says which source it is."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from damnatio.cli.main import main
from damnatio.faces import SOURCES, detect
from damnatio.faces.detection import ENDINGS, is_source
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table


def made(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("names", "path", "source", "found"),
    [
        (["d/anna/1.jpg"], "d", "folder", "d"),
        (["d/anna/1.jpg", "d/notes.txt"], "d", "folder", "d"),
        (["m.csv"], "m.csv", "manifest", "m.csv"),
        (["m.Parquet"], "m.Parquet", "manifest", "m.Parquet"),
        (["x.rec"], "x.rec", "recordio", "x.rec"),
        (["d/train.rec", "d/train.idx", "d/lfw.bin", "d/property"], "d", "recordio", "d/train.rec"),
        (["d/train.rec", "d/val.rec"], "d", "recordio", "d/train.rec"),
        (["d/faces.rec"], "d", "recordio", "d/faces.rec"),
        (["s.tar"], "s.tar", "webdataset", "s.tar"),
        (["d/0.tar", "d/1.tar", "d/x/1.jpg"], "d", "webdataset", "d"),
        (["d/t-0.tar", "d/t-1.tar"], "d/t-*.tar", "webdataset", "d/t-*.tar"),
        (["lfw.bin"], "lfw.bin", "pairs_bin", "lfw.bin"),
    ],
)
def test_path_leads_to_its_source(tmp_path: Path, names: list[str], path: str, source: str, found: str) -> None:
    made(tmp_path, *names)
    settings: Any = detect(tmp_path / path)
    assert settings.source == source
    assert (settings.root if source == "folder" else settings.path) == tmp_path / found
    assert is_source(tmp_path / path)
    assert isinstance(settings, SOURCES.get(source).Settings)


def test_settings_are_taken_and_checked(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    settings: Any = detect(tmp_path / "d", size=96, resize=True)
    assert (settings.size, settings.resize) == (96, True)
    with pytest.raises(DamnatioError, match=r"unknown key 'faces\.sise'"):
        detect(tmp_path / "d", sise=96)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("gone", "There is nothing at .*gone"),
        ("gone.rec", "There is nothing at .*gone.rec"),
        ("gone-*.tar", "There is nothing at"),
        ("notes.txt", "notes.txt is no source of faces. A source is a folder of identities, a .csv"),
        ("two", r"holds several records \(a.rec, b.rec\): name one"),
    ],
)
def test_what_is_no_source_is_reported(tmp_path: Path, path: str, words: str) -> None:
    made(tmp_path, "notes.txt", "two/a.rec", "two/b.rec")
    with pytest.raises(DamnatioError, match=words):
        detect(tmp_path / path)


def test_recipes_are_no_sources(tmp_path: Path) -> None:
    made(tmp_path, "my.yaml", "other")
    assert not any(is_source(name) for name in (tmp_path / "my.yaml", tmp_path / "other", "demo", "paper-table-5"))


def test_every_source_on_disk_is_recognised_by_its_path() -> None:
    on_disk = {name for name in SOURCES.names() if {"path", "root"} & set(SOURCES.get(name).Settings.model_fields)}
    assert on_disk == {*ENDINGS.values(), "folder"}


def packed_shard(folder: Path, path: Path) -> Path:
    """The images of a folder as a WebDataset shard, with one label missing."""
    with tarfile.open(path, "w") as archive:
        for file in sorted(folder.glob("*/*.png")):
            key = f"{file.parent.name}-{file.stem}"
            archive.add(file, f"{key}.png")
            label = tarfile.TarInfo(f"{key}.cls")
            label.size = len(file.parent.name)
            if key != "person03-4":
                archive.addfile(label, io.BytesIO(file.parent.name.encode()))
    return path


@pytest.mark.cli
def test_faces_are_indexed_from_a_path(
    tmp_path: Path, face_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any source by its path alone; a folder that is called like a recipe does not hide it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    shard = packed_shard(face_folder, tmp_path / "my shard.tar")
    assert main(["faces", str(shard), "--set", "faces.size=32", "--sheet", "sheet.png"]) == 0
    out = capsys.readouterr().out
    summary = json.loads(out[out.index("{") : out.rindex("}") + 1])
    assert (summary["images"], summary["identities"], summary["skipped"]) == (279, 40, 1)
    assert summary["skipped_because"] == {"an image without a label": 1}
    assert summary["first_skipped"] == ["my shard/person03-4.png: an image without a label"]
    assert (tmp_path / "sheet.png").exists()
    (table,) = (tmp_path / "runs/faces-my-shard/1-faces").glob("webdataset-*/faces.parquet")
    assert len(Table.read(table)) == 279
    assert main(["faces", "faces", "--set", "faces.size=32"]) == 0
    assert list((tmp_path / "runs/faces-faces/1-faces").glob("folder-*/faces.parquet"))
    assert main(["faces", "gone.rec"]) == 2
    assert capsys.readouterr().err == "damnatio: There is nothing at gone.rec.\n"
    assert main(["faces", "gone"]) == 2
    assert "There is no folder or file gone, nor a recipe of that name" in capsys.readouterr().err
