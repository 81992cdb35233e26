"""The purge: exactly the plan, and nothing at all if anything is wrong."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from damnatio.cli.main import main
from damnatio.erasure.proving.checking import Evidence, check
from damnatio.erasure.proving.keys import make_pair
from damnatio.erasure.proving.statement import read_record
from damnatio.galleries.opening import open_store
from tests.erasure.cases import ALIAS, MEMBERS, OWN, PERSON, TWIN, World

ACCEPTED = ["--accept", str(OWN + 1), "--confirm", str(OWN + 1)]
REJECTED = ["--reject", str(OWN + 1), "--confirm", str(OWN)]


def purged(world: World, *words: str) -> int:
    return main(["purge", str(world.plan), *words])


def test_exactly_the_items_go(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert purged(world, *ACCEPTED) == 0
    assert sorted(set(world.names())) == sorted({*(f"member{i}" for i in range(MEMBERS)), TWIN})
    predicate = read_record(world.record).statement.predicate
    assert predicate.verdict == "GONE"
    assert predicate.decisions == {"found": 4, "candidates": 0, "accepted": 1, "rejected": 0, "deleted": 4}
    (store,) = predicate.stores
    assert (store.neighbours.rows_before, store.neighbours.rows_after) == (MEMBERS + 6, MEMBERS + 2)
    assert store.neighbours.untouched
    assert store.neighbours.searches.searches == MEMBERS + 2
    assert store.neighbours.searches.kept == 1.0
    file = store.classes[0]
    assert (file.found_before, file.found_after) == (file.fragments, 0)
    assert file.fragments == 4 * 128 // 8
    assert file.control_found > 0
    assert not (world.out / "purge").exists()
    assert "The purge deleted 4 items from 1 store, and no fragment" in capsys.readouterr().out


def test_what_is_rejected_stays(world: World) -> None:
    assert purged(world, *REJECTED) == 0
    assert ALIAS in world.names()
    assert PERSON not in world.names()
    predicate = read_record(world.record).statement.predicate
    assert predicate.decisions["rejected"] == 1
    assert predicate.stores[0].neighbours.untouched
    assert any("Rejected by the operator" in words for words in predicate.remains)


def test_a_second_call_finds_the_record(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert purged(world, *ACCEPTED) == 0
    (world.out / "officer.html").unlink()
    before = world.record.read_bytes()
    assert purged(world, *ACCEPTED) == 0
    assert "This plan was carried out on" in capsys.readouterr().out
    assert world.record.read_bytes() == before
    assert (world.out / "officer.html").exists()


def test_a_purge_that_was_killed_while_it_printed_prints_when_it_is_called_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser of a few lines, which writes where it is told to print."""
    assert purged(world, *ACCEPTED) == 0
    (world.out / ".officer.pdf.4711.tmp").write_bytes(b"%PDF cut short")
    (world.out / ".locks").mkdir()
    browser = tmp_path / "browser"
    browser.write_text(
        '#!/bin/sh\nfor word; do case "$word" in --print-to-pdf=*) echo %PDF > "${word#*=}";; esac; done\n'
    )
    browser.chmod(0o755)
    monkeypatch.setattr("damnatio.erasure.proving.pages.BROWSERS", (str(browser),))
    assert purged(world, *ACCEPTED) == 0
    assert (world.out / "officer.pdf").exists()
    assert (world.out / "auditor.pdf").exists()
    assert not [path for path in world.out.iterdir() if path.name.startswith(".")]


class Wrong(NamedTuple):
    harm: Callable[[World], object]
    words: list[str]
    said: str


def _edit(world: World) -> None:
    content = json.loads(world.plan.read_text())
    content["plan"]["items"][0]["item"]["id"] = "another"
    world.plan.write_text(json.dumps(content))


def _cut(world: World) -> None:
    world.plan.write_text(world.plan.read_text()[:-50])


def _enrol(world: World) -> None:
    with open_store(str(world.gallery), write=True) as store:
        store.add("newcomer", np.ones((1, 128), np.float32))


def _change_another(world: World) -> None:
    with np.load(world.gallery) as file:
        arrays = dict(file)
    arrays["embeddings"][0] *= 2
    np.savez(world.gallery, **arrays)


def _delete_one(world: World) -> None:
    with np.load(world.gallery) as file:
        arrays = {name: file[name][:-4] for name in file.files}
    np.savez(world.gallery, **arrays)


def _other_key(world: World) -> None:
    world.key.unlink()
    world.key.with_name("key.pub.pem").unlink()
    make_pair(world.key)


WRONG = {
    "unknown": Wrong(lambda world: None, ["--reject", "9", "--confirm", "4"], "the plan has the items 1 to 4"),
    "count": Wrong(lambda world: None, ["--accept", "4", "--confirm", "3"], "the plan deletes 4 items"),
    "edited plan": Wrong(_edit, ACCEPTED, "was changed after it was sealed"),
    "plan cut short": Wrong(_cut, ACCEPTED, "is no whole plan"),
    "newcomer": Wrong(_enrol, ACCEPTED, "it has 67 rows, and had 66"),
    "changed": Wrong(_change_another, ACCEPTED, "not as it was when the plan was made"),
    "gone": Wrong(_delete_one, ACCEPTED, "it has 62 rows, and had 66"),
    "missing store": Wrong(lambda world: world.gallery.unlink(), ACCEPTED, "There is no gallery"),
    "read-only": Wrong(lambda world: world.gallery.chmod(0o444), ACCEPTED, "is read-only"),
    "hard link": Wrong(lambda world: (world.root / "b").hardlink_to(world.gallery), ACCEPTED, "2 names (hard links)"),
    "missing key": Wrong(lambda world: world.key.unlink(), ACCEPTED, "There is no key"),
    "other key": Wrong(_other_key, ACCEPTED, "give the right one with --key"),
    "other model": Wrong(
        lambda world: (world.out / "model-GS.safetensors").write_bytes(b"x"), ACCEPTED, "is not the file of"
    ),
    "unknown store": Wrong(lambda world: None, [*ACCEPTED, "--gallery", "npz:/other.npz"], "is no store of the plan"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_one_sentence_and_nothing_is_deleted(
    world: World, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    harm, words, said = WRONG[kind]
    harm(world)
    before = world.state()
    assert purged(world, *words) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.strip().splitlines()) == 1
    assert world.state() == before


def test_a_disk_that_is_too_small(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.state()
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 10})())
    assert purged(world, *ACCEPTED) == 2
    assert "make room first. Nothing was deleted." in capsys.readouterr().err
    assert world.state() == before


def test_a_store_that_another_process_has_open(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    before = world.state()
    code = "import sys; file = open(sys.argv[1], 'rb'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(world.gallery)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        assert purged(world, *ACCEPTED) == 2
        assert f"is open in process {holder.pid}" in capsys.readouterr().err
        assert world.state() == before
        assert holder.stdin is not None
        holder.stdin.close()
    assert purged(world, *ACCEPTED) == 0


def test_other_words_after_a_refusal(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A purge that deleted nothing binds nobody."""
    world.gallery.chmod(0o444)
    assert purged(world, *ACCEPTED) == 2
    world.gallery.chmod(0o644)
    assert purged(world, *REJECTED) == 0
    assert ALIAS in world.names()


def test_a_neighbour_who_changes_meanwhile_is_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from damnatio.galleries.npz import Npz

    delete = Npz.delete

    def and_more(store: Npz, keys: object) -> int:
        deleted = delete(store, keys)  # type: ignore[arg-type]
        store.add("newcomer", np.ones((1, 128), np.float32))
        return deleted

    monkeypatch.setattr(Npz, "delete", and_more)
    purged(world, *ACCEPTED)
    predicate = read_record(world.record).statement.predicate
    assert not predicate.untouched
    assert "rows of others changed meanwhile" in predicate.verdict_sentence
    assert "Rows of others changed" in (world.out / "officer.html").read_text()


def test_a_copy_that_somebody_left_beside_it_is_residue(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    copy = world.gallery.with_name("gallery.npz.bak")
    copy.write_bytes(world.gallery.read_bytes())
    assert purged(world, *ACCEPTED) == 3
    out = capsys.readouterr().out
    assert "The purge deleted 4 items from 1 store, but fragments of them are still in files of store 1" in out
    assert str(copy) in out
    assert check(Evidence(world.record)).passed  # the record is true, and says so
    assert str(copy) not in world.record.read_text()


def test_a_killed_purge_goes_on_with_the_same_words_only(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    from damnatio.erasure.purging.journal import Journal

    with pytest.MonkeyPatch.context() as patch:

        def stop(journal: Journal, what: str, store: int = 0, **content: object) -> dict[str, object]:
            if what == "deleted":
                raise KeyboardInterrupt
            return write(journal, what, store, **content)

        write = Journal.write
        patch.setattr(Journal, "write", stop)
        assert purged(world, *ACCEPTED) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert purged(world, *REJECTED) == 2
    assert "go on with the same words" in capsys.readouterr().err
    assert purged(world, *ACCEPTED) == 0


def test_a_store_that_fails_in_the_middle(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from damnatio.galleries.npz import Npz
    from damnatio.support.errors import DamnatioError

    with monkeypatch.context() as patch:

        def fails(store: Npz) -> list[object]:
            raise DamnatioError("The disk is on fire.")

        patch.setattr(Npz, "steps", lambda store: fails(store) if PERSON not in world.names() else [])
        assert purged(world, *ACCEPTED) == 2
    assert "The disk is on fire. The purge is half done" in capsys.readouterr().err
    assert purged(world, *ACCEPTED) == 0
    assert check(Evidence(world.record)).passed


def test_paths_of_a_plan_may_be_relative(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.out)
    assert main(["purge", "plan.json", *ACCEPTED]) == 0
    assert Path("record.json").exists()
