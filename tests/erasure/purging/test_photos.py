"""Photographs of a folder: found by name and by face, removed, and no name of a file in the record."""

import os
from pathlib import Path

import pytest
from PIL import Image

from damnatio import erase
from damnatio.cli.main import main
from damnatio.erasure.planning.plan import read_plan
from damnatio.erasure.proving.keys import signing_key
from damnatio.erasure.proving.statement import read_record
from damnatio.erasure.request import Case
from tests.erasure.cases import PERSON, World
from tests.erasure.world import pattern, photograph, write_person

pytestmark = pytest.mark.cli


@pytest.fixture
def photos(world: World) -> Path:
    """The person's own folder, one of theirs among the unsorted, and others."""
    folder = world.root / "photos"
    write_person(folder / PERSON, pattern(0), [60_000, 60_001])
    for number in range(300, 340):
        write_person(folder / f"member{number}", pattern(number), [70_000 + number])
    write_person(folder / "unsorted", pattern(0), [61_000])
    Image.fromarray(photograph(pattern(0), 61_001)).resize((64, 48)).save(folder / "unsorted" / "wide.png")
    return folder


def test_photographs_go_with_the_templates(world: World, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = world.root / "again"
    case = Case(id="7", key=world.key, photos=[photos])
    erase(world.model, world.people, out=out, gallery=world.gallery, same=["0815"], case=case, overrides=["threads=1"])
    plan = read_plan(out / "plan.json", signing_key(world.key))
    found = [(one.standing, one.item.kind, one.item.name) for one in plan.items if one.store == 2]
    assert found[:2] == [("sure", "photograph", PERSON)] * 2
    assert [(standing, kind) for standing, kind, _ in found[2:]] == [("candidate", "photograph")]
    assert any("are no aligned faces" in words for words in plan.stores[1].notes)
    assert main(["purge", str(out / "plan.json"), "--accept", "all", "--confirm", str(len(plan.items))]) == 0
    left = sorted(str(path.relative_to(photos)) for path in photos.rglob("*") if path.is_file())
    assert len(left) == 41
    assert "unsorted/wide.png" in left
    assert not [name for name in left if PERSON in name]
    predicate = read_record(out / "record.json").statement.predicate
    assert predicate.verdict == "GONE"
    assert predicate.untouched
    assert [store.items for store in predicate.stores] == [4, 3]
    record = predicate.model_dump_json()
    assert "60000" not in record
    assert "61000" not in record
    assert PERSON not in record
    assert main(["verify", str(out / "record.json"), "--stores"]) == 0


def test_a_link_out_of_the_folder_is_refused_before_anything_is_deleted_anywhere(
    world: World, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The gallery comes first: it must not be purged when the folder is refused."""
    elsewhere = world.root / "elsewhere.png"
    elsewhere.write_bytes((photos / PERSON / "60000.png").read_bytes())
    (photos / PERSON / "60002.png").symlink_to(elsewhere)
    out = world.root / "again"
    case = Case(id="7", key=world.key, photos=[photos])
    erase(world.model, world.people, out=out, gallery=world.gallery, same=["0815"], case=case, overrides=["threads=1"])
    before = world.state()
    words = ["purge", str(out / "plan.json"), "--accept", "all", "--confirm"]
    count = str(len(read_plan(out / "plan.json", signing_key(world.key)).items))
    assert main([*words, count]) == 2
    assert "is a link to" in (said := capsys.readouterr().err)
    assert "Nothing was deleted." in said
    assert "half done" not in said
    assert world.state() == before
    (photos / PERSON / "60002.png").unlink()
    os.link(photos / PERSON / "60000.png", world.root / "second-name.png")
    assert main([*words, count]) == 2
    capsys.readouterr()
    assert "gallery.npz" in world.state()
    assert PERSON in world.names()
