"""Odd files, addresses, dates and options end in one sentence: no traceback, no wait without end, nothing deleted."""

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from damnatio.cli.main import main
from damnatio.galleries.items import Sought, as_text
from damnatio.galleries.opening import open_store
from tests.erasure.cases import OWN, World

ACCEPTED = ("--accept", "all", "--confirm", str(OWN + 1))
SECONDS = 60


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise AssertionError("it waits for something that never comes")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def erase(world: World, *more: object, gallery: object = None, out: object = None, case: str = "2026-18") -> list[str]:
    words = ["erase", world.model, world.people, "--out", out or world.root / "next", "--case", case]
    return [str(word) for word in (*words, "--gallery", gallery or world.gallery, *more)]


def purge(world: World, *more: object) -> list[str]:
    return ["purge", str(world.plan), *ACCEPTED, *map(str, more)]


def verify(world: World, *more: object) -> list[str]:
    assert main(purge(world)) == 0
    return ["verify", str(world.record), *map(str, more)]


def pipe(path: Path) -> Path:
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    return path


def loop(path: Path) -> Path:
    path.unlink(missing_ok=True)
    path.symlink_to(path)
    return path


def with_level(world: World, spelt: str) -> list[str]:
    """The plan with this instead of a number."""
    content = json.loads(world.plan.read_text())
    content["plan"]["level"] = "@"
    world.plan.write_text(json.dumps(content).replace('"@"', spelt))
    return purge(world)


def photos(world: World) -> Path:
    return Path(shutil.copytree(world.people, world.root / "photos"))


def plugin(world: World, code: str) -> list[str]:
    path = world.root / f"plugin{len(code)}.py"
    path.write_text(code)
    return erase(world, "--set", f"plugins=[{path}]")


def foreign(world: World) -> Path:
    np.savez(world.root / "foreign.npz", embeddings=np.ones((1, 4), np.float32), names=np.array(["a"]))
    return world.root / "foreign.npz"


def card(world: World, dim: int) -> list[str]:
    path = world.model / "card.json"
    path.write_text(path.read_text().replace('"dim": 128', f'"dim": {dim}'))
    return erase(world)


DEEP = "[" * 100_000 + "]" * 100_000
ODD: dict[str, tuple[Callable[[World], list[str]], str]] = {
    "a remark that is no text": (lambda w: erase(w, "--remains", "until \udcff"), "is no text (UTF-8)"),
    "a recipient that is no text": (lambda w: erase(w, "--recipient", "\ud800"), "is no text (UTF-8)"),
    "an alias that is no text": (lambda w: erase(w, "--alias", "\udcff"), "is no text (UTF-8)"),
    "a folder that is no text": (lambda w: erase(w, out=f"{w.root}/o\udcff"), "is no text (UTF-8)"),
    "a gallery that is no text": (lambda w: erase(w, gallery=f"{w.root}/\udcff.npz"), "is no text (UTF-8)"),
    "a gallery that links to itself": (lambda w: erase(w, gallery=loop(w.gallery)), "There is no gallery"),
    "photographs that link to themselves": (
        lambda w: erase(w, "--photos", loop(w.root / "l")),
        "There is no folder of photographs",
    ),
    "a folder that links to itself": (lambda w: erase(w, out=loop(w.root / "l")), "leads back to itself"),
    "a plan that links to itself": (lambda w: (loop(w.plan), purge(w))[1], "Too many levels of symbolic links"),
    "a key that links to itself": (lambda w: (loop(w.key), purge(w))[1], "There is no key"),
    "a plan with NaN": (lambda w: with_level(w, "NaN"), "is no whole plan"),
    "a plan with 1e999": (lambda w: with_level(w, "1e999"), "is no whole plan"),
    "a plan with a long number": (lambda w: with_level(w, "9" * 5000), "is no whole plan"),
    "a deep plan": (lambda w: with_level(w, DEEP), "is no whole plan"),
    "a pipe as plan": (lambda w: (pipe(w.plan), purge(w))[1], "is a named pipe"),
    "a pipe as key": (lambda w: (pipe(w.key), purge(w))[1], "is a named pipe"),
    "a pipe as key of a plan": (lambda w: (pipe(w.key), erase(w))[1], "is a named pipe"),
    "a pipe as chain": (lambda w: (pipe(w.key.with_name("key.chain.jsonl")), purge(w))[1], "is a named pipe"),
    "a pipe as holder": (lambda w: purge(w, "--fingerprints-for", pipe(w.root / "p")), "is a named pipe"),
    "a pipe as gallery": (lambda w: erase(w, gallery=pipe(w.gallery)), "is a named pipe"),
    "a pipe as chain to check": (lambda w: verify(w, "--chain", pipe(w.root / "p")), "is a named pipe"),
    "a pipe as record before": (lambda w: verify(w, "--previous", pipe(w.root / "p")), "is a named pipe"),
    "a pipe as plan to check": (lambda w: verify(w, "--plan", pipe(w.root / "p")), "is a named pipe"),
    "a pipe as public key": (lambda w: verify(w, "--key", pipe(w.root / "p")), "is a named pipe"),
    "a deep plan to check": (
        lambda w: (words := verify(w, "--plan", w.plan), w.plan.write_text(DEEP), words)[2],
        "is no plan that can be read",
    ),
    "keys into a folder": (lambda w: ["keys", "--out", "."], "is a folder"),
    "keys into the root": (lambda w: ["keys", "--out", "/"], "is a folder"),
    "the end of time": (lambda w: erase(w, "--received", "9999-12-31"), "after the last year"),
    "days after the end of time": (lambda w: purge(w, "--fingerprints-days", "9" * 20), "after the last year"),
    "a range without end": (lambda w: purge(w, "--accept", "1-" + "9" * 5000), "numbers of items are expected"),
    "a card of another model": (lambda w: card(w, 64), "model.dim"),
    "a gallery '?'": (lambda w: erase(w, gallery="?"), "names no file"),
    "a gallery of an unknown user": (lambda w: erase(w, gallery="~nobody_of_that_name/x"), "home directory"),
    "a server '['": (lambda w: erase(w, gallery="postgresql://["), "is no address"),
    "runs that are not there": (lambda w: erase(w, "--runs", "/no/such/folder"), "there is no such folder"),
    "runs that are a file": (lambda w: erase(w, "--runs", w.plan), "there is no such folder"),
    "an empty case": (lambda w: erase(w, case=""), "at most 64 letters"),
    "a case called after a part of a name": (
        lambda w: ((w.people / "person000").rename(w.people / "Ann Lee"), erase(w, case="2026-lee"))[1],
        "holds a name of the person, or a part of one",
    ),
    "OUT inside the photographs": (
        lambda w: erase(w, "--photos", photos(w), out=w.root / "photos" / "out"),
        "which is searched",
    ),
    "OUT inside the people": (lambda w: erase(w, out=w.people / "out"), "which is searched"),
    "a plugin that ends the process": (lambda w: plugin(w, "import sys; sys.exit(0)"), "failed to import"),
    "a record and another gallery": (lambda w: verify(w, "--gallery", foreign(w)), "is no store of the record"),
    "a record and another gallery, opened": (
        lambda w: verify(w, "--stores", "--gallery", foreign(w)),
        "is no store of the record",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD)
def test_one_sentence(world: World, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, said = ODD[kind]
    made = words(world)
    rows = world.gallery.read_bytes() if world.gallery.is_file() else b""
    capsys.readouterr()
    assert main(made) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.strip().splitlines()) == 1
    assert not rows or world.gallery.read_bytes() == rows


def test_a_name_in_latin_1_is_found_and_written_as_text(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "g.db") as base:
        base.execute("CREATE TABLE face (id INTEGER PRIMARY KEY, subject TEXT, embedding BLOB)")
        for name in (b"J\xf6rg", "J\u00f6rg".encode(), b"other"):
            row = (name, np.ones(4, "<f4").tobytes())
            base.execute("INSERT INTO face (subject, embedding) VALUES (CAST(? AS TEXT), ?)", row)
    base.close()
    with open_store(f"sqlite:{tmp_path}/g.db?table=face&vector=embedding&name=subject") as store:
        items = store.find(Sought(names=["J\u00f6rg"])).items
    assert [(item.id, item.name) for item in items] == [("1", "J\u00f6rg"), ("2", "J\u00f6rg")]


def test_half_a_character_is_written_as_a_number() -> None:
    assert as_text("a\ud800b") == "a\\ud800b"
    assert as_text("Z\udcfcrich") == "Z\u00fcrich"
