"""Addresses: as users write them, and one sentence for each that is wrong."""

import os
from pathlib import Path

import numpy as np
import pytest

from damnatio.galleries import STORES
from damnatio.galleries.address import parse
from damnatio.galleries.base import Store
from damnatio.support.errors import DamnatioError


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    np.savez(tmp_path / "gallery.npz", embeddings=np.ones((1, 8)), names=np.array(["Ann"]))
    np.save(tmp_path / "rows.npy", np.ones((1, 8)))
    (tmp_path / "photos").mkdir()
    (tmp_path / "note.txt").write_text("hello")
    (tmp_path / "odd?names=x.npz").write_bytes((tmp_path / "gallery.npz").read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gallery.npz", "npz:{}/gallery.npz"),
        ("npz:gallery.npz", "npz:{}/gallery.npz"),
        ("NPZ:gallery.npz", "npz:{}/gallery.npz"),
        ("npz:gallery.npz?vectors=v&names=n", "npz:{}/gallery.npz?names=n&vectors=v"),
        ("rows.npy?names=my%20names.json", "npy:{}/rows.npy?names=my%20names.json"),
        ("photos", "folder:{}/photos"),
        ("photos:photos", "folder:{}/photos"),
        ("faiss:none.index?names=names.json", "faiss:{}/none.index?names=names.json"),
        ("odd?names=x.npz", "npz:{}/odd?names=x.npz"),
    ],
)
def test_an_address_names_its_store_and_may_be_read_again(there: Path, text: str, shown: str) -> None:
    found = parse(text)
    assert found.shown == shown.format(there)
    if "odd" not in text:  # a question mark in a file's name is only understood in a bare path
        assert parse(found.shown) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("none.npz", "There is no gallery none.npz"),
        ("note.txt", "is of no known kind"),
        ("nzp:gallery.npz", "there is no kind 'nzp'. Did you mean 'npz'"),
        ("npz:", "names no file"),
        ("npz:gallery.npz?vector=v", "there is no option 'vector'. Did you mean 'vectors'"),
        ("npz:gallery.npz?vectors", "not written as KEY=VALUE"),
        ("npz:gallery.npz?vectors=", "not written as KEY=VALUE"),
        ("folder:photos?x=1", "there is no option 'x'"),
    ],
)
def test_a_wrong_address_is_one_sentence(there: Path, text: str, said: str) -> None:
    with pytest.raises(DamnatioError) as raised:
        parse(text)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_path_that_is_no_file_is_refused(there: Path) -> None:
    os.mkfifo(there / "pipe")
    with pytest.raises(DamnatioError, match="a named pipe"):
        parse("pipe")


class Server(Store):
    """A server that needs a table and passes its driver's options on."""

    scheme, is_server = "server", True
    options = {"table": "the table of the rows", "name": "its column of names"}  # noqa: RUF012
    required = ("table",)

    @classmethod
    def takes(cls, option: str) -> bool:
        return option in ("sslmode", "password")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> None:
    known, names = STORES.get, STORES.names()
    monkeypatch.setattr(STORES, "names", lambda: [*names, "server"])
    monkeypatch.setattr(STORES, "get", lambda name: Server if name == "server" else known(name))


@pytest.mark.usefixtures("server")
def test_a_password_is_never_shown() -> None:
    found = parse("server://bob:s3cret@host:5432/db?table=face&sslmode=require&password=s3cret")
    assert found.shown == "server://bob:***@host:5432/db?sslmode=require&password=***&table=face"
    assert found.server == "server://bob:s3cret@host:5432/db?sslmode=require&password=s3cret"
    assert "s3cret" not in repr(found)
    assert found.options == {"table": "face"}
    assert parse("server://host/db?table=face").shown == "server://host/db?table=face"
    assert parse("server://:s3cret@host/db?table=face").shown == "server://:***@host/db?table=face"


@pytest.mark.usefixtures("server")
def test_an_empty_password_is_none() -> None:
    """Else a purge would ask for a password that there is not."""
    found = parse("server://bob:@host/db?table=face")
    assert found.shown == "server://bob@host/db?table=face"
    assert parse(found.shown) == found
    assert parse("server://:@host/db?table=face").shown == "server://host/db?table=face"


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("server://bob:s3cret@host/db?tabel=face", "no option 'tabel'. Did you mean 'table'"),
        ("server://bob:s3cret@host/db", "lacks the option 'table': the table of the rows. Add ?table=..."),
        ("server://bob:s3cret@host:port/db?table=x", "is no address"),
    ],
)
def test_a_wrong_server_is_one_sentence_without_its_password(text: str, said: str) -> None:
    with pytest.raises(DamnatioError) as raised:
        parse(text)
    assert said in str(raised.value)
    assert "s3cret" not in str(raised.value)
