"""Single files: which ones are read, how they are replaced, and how they are hashed."""

import hashlib
import json
import os
import socket
from io import BufferedReader
from pathlib import Path

import pytest

import damnatio.support.files
from damnatio.support.errors import DamnatioError
from damnatio.support.files import content_key, digest_of, irregular, need_regular, write_atomically

# --- opening ---------------------------------------------------------------------------------------------------------


def test_what_is_no_regular_file_is_named_by_its_kind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as plug:
        plug.bind(str(tmp_path / "plug"))
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"1")
    found = [irregular(tmp_path / name) for name in ("pipe", "plug", "link", "file", "none", ".")]
    assert found == ["a named pipe", "a socket", "a named pipe", "", "", "a folder"]
    assert irregular("/dev/zero") == "a device"


def test_only_a_regular_file_is_let_through(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    need_regular(tmp_path / "file")
    need_regular(tmp_path / "none")
    with pytest.raises(DamnatioError, match=f"The list {tmp_path} is a folder, and only regular files are read"):
        need_regular(tmp_path, "The list")


# --- writing ---------------------------------------------------------------------------------------------------------


def test_write_replaces_the_content_and_leaves_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    write_atomically(file, json.dumps({"a": 1}))
    write_atomically(file, b"bytes")
    assert file.read_bytes() == b"bytes"
    write_atomically(file, "\u00fcber")
    assert file.read_text(encoding="utf-8") == "\u00fcber"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_failed_write_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    file = tmp_path / "summary.json"
    write_atomically(file, "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if broken == "fsync" else Path, broken, full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


# --- hashing ---------------------------------------------------------------------------------------------------------


def test_key_depends_on_the_content_and_not_on_the_order_of_keys() -> None:
    assert content_key({"a": 1, "b": {"c": [1, 2], "d": None}}) == content_key({"b": {"d": None, "c": [1, 2]}, "a": 1})
    assert content_key({"a": [1, 2]}) != content_key({"a": [2, 1]})
    assert content_key({"a": 1}) != content_key({"a": 1.5})
    assert content_key({"a": "1"}) != content_key({"a": 1})


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose content was read for a hash."""
    names = []
    real = damnatio.support.files._hashed

    def counted(file: BufferedReader, size: int, name: str) -> str:
        names.append(name)
        return real(file, size, name)

    monkeypatch.setattr("damnatio.support.files._hashed", counted)
    return names


def test_file_is_hashed_once_while_it_keeps_its_size_and_time(tmp_path: Path, hashed: list[str]) -> None:
    file = tmp_path / "data.txt"
    file.write_text("made")
    os.utime(file, (1, 1))  # long ago: two changes of a moment bear one time
    for _ in range(3):
        assert digest_of(file) == hashlib.sha256(b"made").hexdigest()
    assert hashed == ["data.txt"]
    file.write_text("edit")
    assert digest_of(file) == hashlib.sha256(b"edit").hexdigest()


def test_hash_of_a_file_of_this_moment_is_not_remembered(
    tmp_path: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("damnatio.support.files.YOUNG", 10**18)
    (tmp_path / "data.txt").write_text("made")
    for _ in range(2):
        digest_of(tmp_path / "data.txt")
    assert hashed == ["data.txt"] * 2


def test_a_large_file_is_hashed_by_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("damnatio.support.files.LONG", 10)
    content = bytes(range(256)) * 10_000
    (tmp_path / "large").write_bytes(content)
    assert digest_of(tmp_path / "large") == hashlib.sha256(content).hexdigest()
