"""Files of finished outputs: one that is not what its stage wrote is refused, any other passes."""

import json
import os
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

import pytest

import damnatio.support.files
from damnatio.support.errors import DamnatioError
from damnatio.support.manifests import MANIFEST, checked, manifest_of
from damnatio.workspace import Workspace


def write_data(folder: Path) -> None:
    (folder / "data.txt").write_text("made")
    os.utime(folder / "data.txt", (1, 1))  # long ago: two changes of a moment bear one time


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace(tmp_path / "run", lambda line: None) as held:
        yield held


@pytest.fixture
def file(workspace: Workspace) -> Path:
    """A file of a finished output."""
    return workspace.stage("1-faces", "all", {}, {}, write_data).path / "data.txt"


def test_file_as_its_stage_wrote_it_passes(file: Path) -> None:
    assert checked(file) == file


@pytest.mark.parametrize("content", ["mode", "made up", ""])
def test_file_that_is_not_what_the_stage_wrote_is_refused(file: Path, content: str) -> None:
    file.write_text(content)
    with pytest.raises(DamnatioError, match=f"{file} is not what its stage wrote.* Delete the folder {file.parent}"):
        checked(file)


def test_file_that_is_gone_is_refused(file: Path) -> None:
    file.unlink()
    with pytest.raises(DamnatioError, match=f"{file} is gone"):
        checked(file)


def test_files_that_no_stage_wrote_pass(file: Path, tmp_path: Path) -> None:
    (file.parent / "notes.txt").write_text("mine")
    (tmp_path / MANIFEST).write_text('{"act": 1}')
    for path in (file.parent / "notes.txt", tmp_path / "play.txt", tmp_path / "nowhere" / "at.all"):
        assert checked(path) == path


def test_file_is_hashed_once_by_stage_and_readers(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []
    real = damnatio.support.files._hashed

    def counted(file: BufferedReader, size: int, name: str) -> str:
        hashed.append(name)
        return real(file, size, name)

    monkeypatch.setattr("damnatio.support.files._hashed", counted)
    output = workspace.stage("1-faces", "all", {}, {}, write_data)
    for _ in range(3):
        checked(output.path / "data.txt")
        workspace.stage("1-faces", "all", {}, {}, write_data)
    assert hashed == ["data.txt"]
    (output.path / "data.txt").write_text("edit")
    with pytest.raises(DamnatioError):
        checked(output.path / "data.txt")


@pytest.mark.parametrize("content", ["[" * 20_000, "", "{"], ids=["nested beyond all bounds", "empty", "cut"])
def test_file_beside_a_damaged_manifest_is_refused(file: Path, content: str) -> None:
    (file.parent / MANIFEST).write_text(content)
    with pytest.raises(DamnatioError, match=rf"{MANIFEST} is damaged, so data\.txt cannot be checked"):
        checked(file)
    assert manifest_of(file.parent) == {}


@pytest.mark.parametrize("files", [None, [], {"data.txt": "made"}, {"data.txt": {"bytes": 4}}])
def test_file_of_a_manifest_without_hashes_is_refused(file: Path, files: object) -> None:
    manifest = {**manifest_of(file.parent), "files": files}
    (file.parent / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DamnatioError, match="has no hashes, as in older versions"):
        checked(file)
    assert manifest_of(file.parent) == {}
