"""What a case keeps is its owner's alone, names nobody where it may not, and harms no file of others."""

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from damnatio.cli.main import main
from damnatio.erasure.planning.plan import Plan
from damnatio.erasure.planning.showing import lines_of, write_page
from damnatio.support.errors import printable
from tests.erasure.cases import MEMBERS, OWN, PERSON, World, new_world, planned

ACCEPTED = ["--accept", str(OWN + 1), "--confirm", str(OWN + 1)]


def purged(world: World) -> int:
    return main(["purge", str(world.plan), *ACCEPTED, "--key", str(world.key)])


def test_the_files_of_a_case_are_their_owners_alone_and_the_journal_names_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("damnatio.erasure.proving.pages.BROWSERS", ())
    before = os.umask(0)
    try:
        world = new_world(tmp_path / f"files of {PERSON}")
        mode = stat.S_IMODE(world.gallery.stat().st_mode)
        world.out.mkdir()
        planned(world)
        assert purged(world) == 0
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    open_to_others = [
        path for path in (world.out, *world.out.rglob("*"), *world.key.parent.glob("*chain*"))
        if path.stat().st_mode & 0o077
    ]  # fmt: skip
    assert open_to_others == []
    assert stat.S_IMODE(world.gallery.stat().st_mode) == mode
    journal = (world.out / "journal.jsonl").read_text()
    assert "/files of [name]/.gallery.npz" in journal
    assert PERSON not in journal
    assert PERSON not in (world.out / "record.json").read_text()


def _link(world: World) -> None:
    (world.out / "purge").symlink_to(world.people)


def _file_link(world: World) -> None:
    (world.out / "purge").mkdir()
    (world.out / "purge" / "needles-1.npz").symlink_to(world.gallery)


def _foreign(world: World) -> None:
    (world.out / "purge").mkdir()
    (world.out / "purge" / "letter.txt").write_text("mine")


def _second_name(world: World) -> None:
    (world.out / "purge").mkdir()
    (world.out / "purge" / "searches-1.json").hardlink_to(world.gallery)


def _journal_link(world: World) -> None:
    (world.out / "journal.jsonl").symlink_to(world.root / "nothing")


def _chain(world: World) -> None:
    world.key.with_name("key.chain.jsonl").write_text("no link\n")


def _chain_folder(world: World) -> None:
    world.key.with_name("key.chain.jsonl").mkdir()


def _chain_pipe(world: World) -> None:
    os.mkfifo(world.key.with_name("key.chain.jsonl"))


def _item_key(world: World) -> None:
    (world.out / "record.key").write_text("short\n")


def _page(world: World) -> None:
    (world.out / "officer.html").mkdir()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (_link, "is no folder of the purge, but a link"),
        (_file_link, "is no file of the purge"),
        (_foreign, "is no file of the purge"),
        (_second_name, "has another name elsewhere"),
        (_journal_link, "is a link, and the journal is kept in a file of its own"),
        (_chain, "key.chain.jsonl is damaged"),
        (_chain_folder, "is a folder"),
        (_chain_pipe, "is a named pipe"),
        (_item_key, "record.key is damaged"),
        (_page, "officer.html cannot be replaced"),
    ],
)
def test_what_would_stop_the_signature_or_harm_others_is_refused_before_the_delete(
    world: World, harm: Callable[[World], None], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    harm(world)
    before = {path: path.read_bytes() for path in world.root.rglob("*") if path.is_file()}
    assert purged(world) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.strip().splitlines()) == 1
    assert {path: path.read_bytes() for path in world.root.rglob("*") if path.is_file()} == before


def test_a_clock_before_the_plan_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("damnatio.erasure.purging.journal.now", lambda: "1970-01-01T00:00:00Z")
    assert purged(world) == 2
    assert "the clock of this machine says 1970-01-01T00:00:00Z" in capsys.readouterr().err
    assert len(world.names()) == MEMBERS + 6


def test_what_steers_a_terminal_or_turns_the_writing_is_shown_as_numbers(world: World, tmp_path: Path) -> None:
    evil = "Ann\x1b[2J\u202egnp\nPlan: all is well\x9b"
    assert printable(evil) == r"Ann\x1b[2J\u202egnp\nPlan: all is well\x9b"
    assert printable("a\nb\x07", lines=True) == "a\nb\\x07"
    assert printable("\udcff") == r"\udcff"
    assert printable("Z\u00fcrich \u05d0\u05d1 \u674e") == "Z\u00fcrich \u05d0\u05d1 \u674e"
    plan = Plan.model_validate(json.loads(world.plan.read_text())["plan"])
    item = plan.items[-1].model_copy(update={"item": plan.items[-1].item.model_copy(update={"name": evil})})
    changed = plan.model_copy(update={"items": [*plan.items[:-1], item]})
    lines = "\n".join(lines_of(changed, world.plan))
    write_page(changed, tmp_path / "plan.html")
    for text in (lines, (tmp_path / "plan.html").read_text()):
        assert not any(letter in text for letter in "\x1b\u202e\x9b")
    assert "\nPlan: all is well" not in lines


def test_a_read_only_photograph_is_refused_before_the_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `chattr +i` makes it, for the administrator too."""
    from damnatio.galleries.items import Key
    from damnatio.galleries.opening import open_store
    from damnatio.support.errors import DamnatioError

    (tmp_path / "Ann").mkdir()
    np.save(tmp_path / "x.npy", np.zeros(3))
    shutil.copy(tmp_path / "x.npy", tmp_path / "Ann" / "1.jpg")
    access = os.access
    monkeypatch.setattr("os.access", lambda path, mode: not str(path).endswith("1.jpg") and access(path, mode))
    with open_store(f"folder:{tmp_path}", write=True) as store, pytest.raises(DamnatioError, match="lsattr"):
        store.rehearse([Key("photographs", "Ann/1.jpg")])
