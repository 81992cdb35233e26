"""After the purge the stores are searched again: what comes back is RESIDUE, whatever brought it back."""

import json
import sqlite3

import numpy as np
import pytest

from damnatio import erase
from damnatio.cli.main import main
from damnatio.erasure.planning.templates import PERSON as TEMPLATES
from damnatio.erasure.proving.checking import Evidence, check
from damnatio.erasure.proving.envelope import canonical, signed
from damnatio.erasure.proving.keys import signing_key
from damnatio.erasure.proving.statement import read_record
from damnatio.erasure.purging import purge as purging
from damnatio.erasure.request import Case
from damnatio.galleries.npz import Npz
from tests.erasure.cases import ALIAS, MEMBERS, OWN, PERSON, World
from tests.erasure.proving.test_record import payload_of
from tests.erasure.purging.test_purge import ACCEPTED, purged

pytestmark = pytest.mark.cli


def database(world: World, trigger: str = "") -> str:
    """The gallery of the world in SQLite."""
    with np.load(world.gallery) as file, sqlite3.connect(world.root / "faces.db") as connection:
        connection.execute("CREATE TABLE face (id INTEGER PRIMARY KEY, subject TEXT, embedding BLOB)")
        rows = [(str(name), row.tobytes()) for name, row in zip(file["names"], file["embeddings"], strict=True)]
        connection.executemany("INSERT INTO face (subject, embedding) VALUES (?, ?)", rows)
        connection.execute(trigger or "SELECT 1")
    return f"sqlite:{world.root}/faces.db?table=face&vector=embedding&name=subject&id=id"


BACK = (
    f"CREATE TRIGGER back AFTER DELETE ON face WHEN old.id = {MEMBERS + 1} BEGIN "
    "INSERT INTO face (subject, embedding) VALUES ('visitor 9', old.embedding); END"
)


@pytest.mark.parametrize(("trigger", "code", "verdict"), [("", 0, "GONE"), (BACK, 3, "RESIDUE")])
def test_a_trigger_that_puts_a_row_back_is_residue(
    world: World, trigger: str, code: int, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = world.root / "again"
    erase(
        world.model,
        world.people,
        out=out,
        gallery=database(world, trigger),
        same=[ALIAS],
        case=Case("5", key=world.key),
    )
    assert main(["purge", str(out / "plan.json"), *ACCEPTED, *(["--allow", "back"] if trigger else [])]) == code
    predicate = read_record(out / "record.json").statement.predicate
    (store,) = predicate.stores
    assert (predicate.verdict, store.left) == (verdict, 0)
    assert store.again is not None
    assert (store.again.found, store.again.compared) == (int(code > 0), store.again.rows)
    assert ("1 row of store 1 still shows the person" in predicate.verdict_sentence) == (code > 0)
    assert all(level.outcome in ("passed", "not run") for level in check(Evidence(out / "record.json")).levels)
    assert not (out / TEMPLATES).exists()
    assert ("still shows the person" in (out / "officer.html").read_text()) == (code > 0)


@pytest.mark.parametrize("what", ["the deleted vector", "another photograph", "the name"])
def test_a_row_that_is_enrolled_while_the_purge_runs_is_residue(
    world: World, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with np.load(world.gallery) as file:
        mine, others = file["embeddings"][file["names"] == PERSON], file["embeddings"][:1]
    new = {"the deleted vector": mine[0] * 3, "another photograph": mine.sum(axis=0), "the name": others[0]}[what]
    delete = Npz.delete

    def and_enrol(self: Npz, keys: list[object]) -> int:
        found = delete(self, keys)  # type: ignore[arg-type]
        self.add(PERSON if what == "the name" else "visitor", new[None])
        return found

    monkeypatch.setattr(Npz, "delete", and_enrol)
    assert purged(world, *ACCEPTED) == 3
    (store,) = read_record(world.record).statement.predicate.stores
    assert store.verdict == "RESIDUE"
    assert store.again is not None
    assert store.again.found == 1


def test_what_the_operator_left_is_no_residue(world: World) -> None:
    assert purged(world, "--reject", str(OWN + 1), "--confirm", str(OWN)) == 0
    (store,) = read_record(world.record).statement.predicate.stores
    assert ALIAS in world.names()
    assert store.again is not None
    assert store.again.found == 0


def test_a_copy_of_a_row_that_was_left_is_residue(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What staying rows share is what they shared before the delete, and not what came afterwards."""
    with np.load(world.gallery) as file:
        mine = file["embeddings"][file["names"] == PERSON]
    step = purging._delete

    def and_copy(work: object, one: object) -> None:
        step(work, one)  # type: ignore[arg-type]
        world.gallery.with_name("gallery.npz.old").write_bytes(mine[0].tobytes())

    monkeypatch.setattr(purging, "_delete", and_copy)
    assert purged(world, *ACCEPTED) == 3
    assert "fragments of them are still in files" in read_record(world.record).statement.predicate.verdict_sentence


def test_a_purge_needs_the_templates_of_the_request(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    path, before = world.out / TEMPLATES, world.names()
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"x")
    assert purged(world, *ACCEPTED) == 2
    assert "is not the file of the plan any more" in capsys.readouterr().err
    path.unlink()
    assert purged(world, *ACCEPTED) == 2
    assert "is needed to search the stores again" in capsys.readouterr().err
    assert world.names() == before


def test_an_older_record_still_checks_signature_chain_and_files(world: World) -> None:
    """Its numbers say less, and nothing is concluded from that."""
    assert purged(world, *ACCEPTED) == 0
    payload = payload_of(world.record)
    payload["predicate"]["format"] = 1
    for store in payload["predicate"]["stores"]:
        del store["again"], store["left"], store["remains"]
    payload["predicate"]["verdict_sentence"] = "The purge deleted 4 items."
    world.record.write_text(signed(canonical(payload), signing_key(world.key)).text)
    found = {level.name: level.outcome for level in check(Evidence(world.record, plan=world.plan)).levels}
    assert {name: found[name] for name in ("signature", "chain", "files")} == dict.fromkeys(
        ("signature", "chain", "files"), "passed"
    )
    assert (found["sums"], found["items"]) == ("not run", "not run")


def test_an_older_plan_gets_a_sentence(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(world.plan.read_text())["plan"]
    content["format"] = 1
    import base64

    envelope = signed(canonical(content), signing_key(world.key), "application/vnd.damnatio.plan+json")
    seal = {"keyid": envelope.keyid, "sig": base64.b64encode(envelope.signature).decode()}
    world.plan.write_text(json.dumps({"plan": content, "seal": seal}))
    assert purged(world, *ACCEPTED) == 2
    assert "has the format 1, and this damnatio reads 2: make a new plan." in capsys.readouterr().err


SIDES = {
    "a trigger": (BACK, "back"),
    "a full-text table": (
        "CREATE VIRTUAL TABLE words USING fts5(subject, content='face', content_rowid='id')",
        "words",
    ),
}


@pytest.mark.parametrize("side", list(SIDES))
def test_what_the_delete_sets_off_is_in_the_plan_and_refused(
    world: World, side: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made, name = SIDES[side]
    out, gallery = world.root / "again", database(world, made)
    with sqlite3.connect(world.root / "faces.db") as connection:
        connection.execute("CREATE TRIGGER other AFTER INSERT ON face BEGIN SELECT 1; END")
        connection.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)")
        connection.executemany("INSERT INTO note (text) VALUES (?)", [(f"call {PERSON.upper()} back",), ("nobody",)])
    case, lines = Case("5", key=world.key), list[str]()
    erase(world.model, world.people, out=out, gallery=gallery, same=[ALIAS], case=case, say=lines.append)
    (planned,) = json.loads((out / "plan.json").read_text())["plan"]["stores"]
    assert [one["name"] for one in planned["effects"]] == [name]
    assert planned["mentions"] == [{"place": "note.text", "rows": 1}]
    said = "\n".join(lines)
    assert f"--allow {name}" in said
    assert f"--allow {name}" in (out / "plan.html").read_text()
    assert "1 rows of note.text" in said
    assert main(["purge", str(out / "plan.json"), *ACCEPTED]) == 2
    assert f"--allow {name}" in capsys.readouterr().err
    assert main(["purge", str(out / "plan.json"), *ACCEPTED, "--allow", name, "--allow", "others"]) == 2
    assert "--allow others: the delete sets off nothing of this name" in capsys.readouterr().err
    assert main(["purge", str(out / "plan.json"), *ACCEPTED, "--allow", name]) in (0, 3)
    (store,) = read_record(out / "record.json").statement.predicate.stores
    assert len(store.allowed) == 1
    assert [(one.place, one.rows) for one in store.mentions] == [("note.text", 1)]
    assert "note.text" in (out / "officer.html").read_text()


def test_neighbours_are_compared_inside_the_rehearsed_transaction(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A side effect that the plan does not know, such as a trigger that a newer SQLite has."""
    out = world.root / "again"
    gallery = database(world, BACK)
    monkeypatch.setattr("damnatio.galleries.sqlite.effects_of", lambda *_: [])
    erase(world.model, world.people, out=out, gallery=gallery, same=[ALIAS], case=Case("5", key=world.key))
    assert main(["purge", str(out / "plan.json"), *ACCEPTED]) == 2
    assert "would change rows of others as well: nothing was deleted" in capsys.readouterr().err
    with sqlite3.connect(world.root / "faces.db") as connection:
        assert connection.execute("SELECT count(*) FROM face").fetchone() == (MEMBERS + OWN + 3,)
