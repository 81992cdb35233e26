"""Pieces of unfinished work: kept whole, found by name, and never part of an output."""

from pathlib import Path

import numpy as np
import pytest

from damnatio.support import pieces
from damnatio.support.errors import DamnatioError
from damnatio.workspace import Workspace


def test_a_piece_is_found_by_its_name(tmp_path: Path) -> None:
    names = ["rows-0-5", "rows-5-9", "rows-9-12"]
    assert pieces.missing(tmp_path, names) == names
    pieces.keep(tmp_path, "rows-5-9", {"a": np.arange(3), "none": np.zeros((0, 4), np.float32)})
    (tmp_path / "pieces" / ".rows-9-12.safetensors.77.tmp").write_bytes(b"half")  # its writer was killed
    assert pieces.missing(tmp_path, names) == ["rows-0-5", "rows-9-12"]
    found = pieces.kept(tmp_path, "rows-5-9")
    assert found["a"].tolist() == [0, 1, 2]
    assert found["none"].shape == (0, 4)
    pieces.drop(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_piece_is_named(tmp_path: Path) -> None:
    pieces.missing(tmp_path, [])
    pieces.keep(tmp_path, "one", {"a": np.arange(30)})
    path = tmp_path / "pieces" / "one.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DamnatioError, match=r"one\.safetensors, a piece of an unfinished output, cannot be read"):
        pieces.kept(tmp_path, "one")


def test_pieces_are_no_part_of_an_output(tmp_path: Path) -> None:
    """As the greedy frame leaves them: the training may be killed before its first checkpoint."""

    def build(folder: Path) -> None:
        if pieces.missing(folder, ["one"]):
            pieces.keep(folder, "one", {"a": np.arange(3)})
            raise KeyboardInterrupt
        (folder / "out.txt").write_text("done")

    with Workspace(tmp_path / "run", lambda line: None) as workspace:
        with pytest.raises(KeyboardInterrupt):
            workspace.stage("5-forget", "x", {}, {}, build)
        output = workspace.stage("5-forget", "x", {}, {}, build)
    assert sorted(path.name for path in output.path.iterdir()) == ["out.txt", "stage.json"]
    assert set(output.manifest["files"]) == {"out.txt"}
