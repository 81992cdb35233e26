"""The plan: who is found where and how, and that nothing is touched."""

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from damnatio import erase
from damnatio.cli.main import main
from damnatio.erasure.planning.leftovers import runs_with
from damnatio.erasure.planning.plan import Plan, read_plan
from damnatio.erasure.planning.templates import PERSON as PERSON_FILE
from damnatio.erasure.planning.templates import Templates
from damnatio.erasure.proving.keys import signing_key
from damnatio.erasure.proving.statement import read_record
from damnatio.erasure.request import Case
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table
from tests.erasure.cases import ALIAS, MEMBERS, OWN, PERSON, World, embedded, write_gallery
from tests.erasure.world import DIM, pattern, photograph, write_person


def plan_of(world: World) -> Plan:
    return read_plan(world.plan, signing_key(world.key))


def test_the_person_is_found_by_name_and_under_a_name_that_is_said_to_be_theirs(world: World) -> None:
    plan = plan_of(world)
    found = [(one.number, one.standing, one.item.how, one.item.name) for one in plan.items]
    assert found == [(n, "sure", "name", PERSON) for n in range(1, OWN + 1)] + [(OWN + 1, "sure", "name", ALIAS)]
    bars = {template.label: template.bar for template in plan.templates}
    assert all(one.item.score is not None and one.item.score >= bars[one.item.like] for one in plan.items)
    (store,) = plan.stores
    assert (store.kind, store.census.matched_rows, store.census.rows) == ("npz", OWN + 1, {"rows": MEMBERS + OWN + 3})
    assert store.steps
    assert store.unreached
    assert {left.path.split(",")[0] for left in plan.leftovers} >= {str(world.people), str(world.plan)}


def test_a_plan_deletes_nothing(world: World) -> None:
    before = world.gallery.read_bytes()
    write_gallery(world)
    with np.load(world.gallery) as again:
        expected = again["embeddings"]
    world.gallery.write_bytes(before)
    with np.load(world.gallery) as file:
        np.testing.assert_allclose(file["embeddings"], expected, rtol=1e-5)
    assert "Nothing was deleted" in (world.out / "plan.html").read_text()


def test_the_page_holds_every_item_and_what_cannot_be_reached(world: World) -> None:
    page = (world.out / "plan.html").read_text()
    for one in plan_of(world).items:
        assert one.item.id in page
    assert "Backups" in page
    assert f"damnatio purge plan.json --confirm {OWN + 1}" in page


def test_a_new_enrolment_finds_nobody_under_the_altered_model(world: World) -> None:
    (row,) = plan_of(world).enrolled
    assert (row.store, row.kind, row.among) == (1, "npz", MEMBERS + 2)
    assert (row.before.count, row.before.of) == (4, 4)
    assert row.after.count == 0
    assert row.survivor.count == 0
    assert row.before.low < 1.0 <= row.before.high


def test_a_person_under_another_name_is_no_stranger(world: World) -> None:
    record = json.loads((world.out / "erasure.json").read_text())
    assert record["same"] == {f"gallery/{ALIAS}": PERSON}
    assert record["people"][0]["templates"] == [f"gallery/{ALIAS}", f"gallery/{PERSON}"]
    assert record["unmeasured"] == [PERSON]  # eight photographs alone are too few


def test_other_names_are_looked_for_whatever_their_spelling(world: World) -> None:
    images = [photograph(pattern(300 + i), 70_000 + i) for i in range(MEMBERS)] + [photograph(pattern(0), 1)] * 2
    names = [f"member{i}" for i in range(MEMBERS)] + ["Ann Lee", "ann_lee"]
    np.savez(world.gallery, embeddings=embedded(world.model, images), names=np.array(names))
    out = world.root / "again"
    case = Case(id="5", key=world.key, aliases=["Ann Lee"], received=date(2026, 1, 31))
    erase(world.model, world.people, out=out, gallery=[world.gallery], case=case, overrides=["threads=1"])
    plan = read_plan(out / "plan.json", signing_key(world.key))
    assert [(one.standing, one.item.name, one.item.flags) for one in plan.items] == [
        ("sure", "Ann Lee", ()),
        ("candidate", "ann_lee", ("spelling",)),
    ]
    assert plan.deadline == "2026-03-02"


def test_a_gallery_of_another_model_is_compared_by_name_only(world: World) -> None:
    np.savez(world.gallery, embeddings=np.eye(3, DIM // 2, dtype=np.float32), names=np.array([PERSON, "a", "b"]))
    out = world.root / "again"
    erase(world.model, world.people, out=out, gallery=world.gallery, case=Case("5", key=world.key), say=print)
    plan = read_plan(out / "plan.json", signing_key(world.key))
    assert [one.item.name for one in plan.items] == [PERSON]
    assert "compared by name only" in plan.stores[0].notes[0]
    assert plan.enrolled[0].store == 0


def test_every_photograph_searches(world: World) -> None:
    """A guest is one photograph of the request, which the mean misses. The guest's other row resembles nobody. What is
    stored under the person's name shows somebody else, and a copy of it has another name."""
    other = write_person(world.people / PERSON, pattern(0), [5_555], mated=0.2) / "5555.png"  # left out of the gate
    images = [photograph(pattern(701), 90_000), np.asarray(Image.open(other)), photograph(pattern(700), 90_001)]
    images += [photograph(pattern(300 + i), 70_000 + i) for i in range(MEMBERS)]
    rows = embedded(world.model, images)
    names = [PERSON, "guest", "guest", *(f"member{i}" for i in range(MEMBERS)), "visitor"]
    np.savez(world.gallery, embeddings=np.concatenate([rows, rows[:1] * 2]), names=np.array(names))
    out = world.root / "again"
    erase(world.model, world.people, out=out, gallery=world.gallery, same=["guest"], case=Case("5", key=world.key))
    plan = read_plan(out / "plan.json", signing_key(world.key))
    found = {(one.item.name, one.standing, one.item.how): one.item for one in plan.items}
    assert set(found) == {
        ("guest", "sure", "name"),
        ("guest", "candidate", "name"),
        (PERSON, "candidate", "name"),
        ("visitor", "candidate", "equal"),
    }
    guest = found["guest", "sure", "name"]
    assert guest.like == f"photograph {PERSON}/5555.png, left out of the gate"
    assert guest.score == pytest.approx(1)
    assert found["visitor", "candidate", "equal"].like.endswith(" of store 1")
    templates = Templates.read(out, plan.person)
    mean = templates.labels.index(f"mean of {PERSON}")
    assert templates.units[mean] @ rows[1] / np.linalg.norm(rows[1]) < templates.bars[mean]
    assert plan.measured >= MEMBERS
    assert (out / PERSON_FILE).stat().st_mode & 0o777 == 0o600
    assert str(out / PERSON_FILE) in "".join(left.what for left in plan.leftovers)


def test_who_is_somebody_else_is_no_candidate(world: World) -> None:
    out, case = world.root / "again", Case("5", key=world.key)
    erase(world.model, world.people, out=out, gallery=world.gallery, not_same=[ALIAS], case=case)
    plan = read_plan(out / "plan.json", signing_key(world.key))
    assert {one.item.name for one in plan.items} == {PERSON}
    assert f"these are somebody else: {ALIAS}" in (out / "plan.html").read_text()
    assert main(["purge", str(out / "plan.json"), "--confirm", str(OWN)]) == 0  # and is no residue


def test_photographs_that_cannot_be_looked_at_are_named(world: World) -> None:
    photos, out, said = world.root / "photos", world.root / "again", list[str]()
    photos.mkdir()
    for name in ("a.heic", "b.mp4"):
        (photos / name).write_bytes(b"x")
    case = Case("5", key=world.key, photos=[photos])
    erase(world.model, world.people, out=out, gallery=world.gallery, same=[ALIAS], case=case, say=said.append)
    store = read_plan(out / "plan.json", signing_key(world.key)).stores[1]
    assert "Not looked at: photographs/a.heic (not an image of a known format)." in store.notes
    assert any("b.mp4" in words for words in store.unreached)
    for name in ("a.heic", "b.mp4"):
        assert any(name in line for line in said)
        assert name in (out / "plan.html").read_text()


def test_an_id_that_several_rows_have_is_to_be_decided(world: World) -> None:
    """A delete by id takes all its rows, also the one that does not show the person."""
    faiss = pytest.importorskip("faiss")
    images = [photograph(pattern(0), 90_000), photograph(pattern(0), 90_001), photograph(pattern(400), 90_002)]
    images += [photograph(pattern(300 + i), 70_000 + i) for i in range(20)]
    rows = embedded(world.model, images)
    index = faiss.IndexIDMap2(faiss.IndexFlatIP(rows.shape[1]))
    index.add_with_ids(rows, np.array([7, 8, 7, *range(100, 120)]))
    faiss.write_index(index, str(world.root / "faces.index"))
    out = world.root / "again"
    gallery = f"faiss:{world.root}/faces.index"
    erase(world.model, world.people, out=out, gallery=gallery, same=["7", "8"], case=Case("5", key=world.key))
    plan = read_plan(out / "plan.json", signing_key(world.key))
    found = {one.item.id: (one.standing, one.item.copies, one.item.flags) for one in plan.items}
    assert found == {"7": ("candidate", 2, ("shared",)), "8": ("candidate", 1, ())}
    assert main(["purge", str(out / "plan.json"), "--accept", "all", "--confirm", "2"]) == 0
    assert read_record(out / "record.json").statement.predicate.stores[0].neighbours.deleted == 3
    assert main(["verify", str(out / "record.json")]) == 0


def test_runs_that_hold_the_person_are_listed(tmp_path: Path) -> None:
    for name, people in (("one", ["Ann_Lee", "Bob"]), ("two", ["Bob"])):
        stage = tmp_path / name / "1-faces" / "folder-0"
        stage.mkdir(parents=True)
        Table({"image": ["a"] * len(people), "identity": people}).write(stage / "faces.parquet")
    assert list(runs_with(tmp_path, ["Ann Lee"])) == [(tmp_path / "one", "Ann_Lee")]


def test_what_runs_hold_is_not_reached_and_the_operator_is_told(world: World) -> None:
    """No purge cuts a person out of a checkpoint: the plan says what to do, and the record that it was not done."""
    run = world.root / "runs" / "old"
    for stage in ("1-faces/folder-0", "4-train/original-0", "6-embed/original-0"):
        (run / stage).mkdir(parents=True)
    Table({"image": ["a", "b"], "identity": [PERSON, "Bob"]}).write(run / "1-faces" / "folder-0" / "faces.parquet")
    out, before = world.root / "again", sorted(run.rglob("*"))
    case = Case("5", key=world.key, runs=[world.root / "runs"])
    erase(world.model, world.people, out=out, gallery=world.gallery, same=[ALIAS], case=case)
    left = {one.kind: one for one in read_plan(out / "plan.json", signing_key(world.key)).leftovers if one.kind}
    assert list(left) == ["photographs", "embeddings", "checkpoints"]
    assert left["checkpoints"].path == str(run / "4-train")
    assert f"Remove it: rm -r {run / '6-embed'}" in left["embeddings"].what
    assert "train anew without the person" in (out / "plan.html").read_text()
    assert main(["purge", str(out / "plan.json"), "--reject", str(OWN + 1), "--confirm", str(OWN)]) == 0
    assert sorted(run.rglob("*")) == before
    (said,) = (words for words in read_record(out / "record.json").statement.predicate.not_reached if "Runs" in words)
    assert "folders 1 with photographs, 1 with embeddings, 1 with checkpoints" in said
    assert "Runs of damnatio hold the person" in (out / "officer.html").read_text()


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ({"id": "person000-a"}, "holds a name of the person"),
        ({"id": "a/b"}, "at most 64 letters"),
        ({"id": "5", "key": Path("/nowhere/key.pem")}, "There is no key /nowhere/key.pem: `damnatio keys` makes one"),
        ({"id": "5", "photos": [Path("/nowhere")]}, "There is no folder of photographs /nowhere"),
        ({"id": "5", "likeness": 1.5}, "it is a cosine above 0 and below 1"),
        ({"id": "5", "received": date(2026, 2, 1), "deadline": date(2026, 1, 1)}, "is before 2026-02-01"),
    ],
)
def test_cases_that_are_refused(world: World, case: dict[str, object], words: str) -> None:
    out = world.root / "again"
    with pytest.raises(DamnatioError, match=words):
        erase(
            world.model, world.people, out=out, gallery=world.gallery,
            case=Case(**{"key": world.key, **case}),  # type: ignore[arg-type]
        )  # fmt: skip
    assert not out.exists()


def test_a_name_is_refused_before_anything_is_computed(world: World) -> None:
    """The model is not even read."""
    broken = world.root / f"broken{world.model.suffix}"
    broken.write_bytes(b"no model")
    for case in (Case("Person000", key=world.key), Case("x-ann", key=world.key, aliases=["Ann"])):
        with pytest.raises(DamnatioError, match="holds a name of the person"):
            erase(broken, world.people, out=world.root / "x", gallery=world.gallery, case=case)


def test_words_of_a_case_without_one(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["erase", str(world.model), str(world.people), "--out", str(world.root / "x")]
    assert main([*words, "--photos", "."]) == 2
    assert "name the case as well, with --case ID" in capsys.readouterr().err
    assert main([*words, "--case", "5"]) == 2
    assert "needs somewhere to look" in capsys.readouterr().err
    assert main([*words, "--case", "5", "--gallery", str(world.gallery), "--gallery", f"npz:{world.gallery}"]) == 2
    assert "is named twice" in capsys.readouterr().err


def test_a_key_that_others_can_read_is_refused(world: World) -> None:
    world.key.chmod(0o644)
    with pytest.raises(DamnatioError, match="Others than its owner can read the key"):
        signing_key(world.key)
