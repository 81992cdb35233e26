"""Several sources as one: pools, names, precedence, and the images as each source reads them."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from damnatio.captures import find_captures
from damnatio.faces.base import Faces
from damnatio.faces.collecting import collect
from damnatio.faces.collection import Collection
from damnatio.recipe.schema import CaptureSettings
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table


def collection(**pools: Path) -> Collection:
    return Collection(Collection.Settings(source="collection", pools=pools, size=32))


def some(face_folder: Path, target: Path, *numbers: int) -> Path:
    for number in numbers:
        shutil.copytree(face_folder / f"person{number:02d}", target / f"person{number:02d}")
    return target


def test_identities_keep_their_names_and_a_column_says_the_pool(tmp_path: Path, face_folder: Path) -> None:
    a, b = some(face_folder, tmp_path / "a", 1, 2), some(face_folder, tmp_path / "b", 0)
    table = collection(retain=a, people=b).index()
    assert table["identity"].tolist() == ["person00"] * 7 + ["person01"] * 7 + ["person02"] * 7
    assert table["pool"].tolist() == ["people"] * 7 + ["retain"] * 14
    assert table["image"][0] == "people/person00/0.png"


def test_rows_are_sorted_by_pool_then_identity_then_image(tmp_path: Path, face_folder: Path) -> None:
    a, b = some(face_folder, tmp_path / "a", 0, 2), some(face_folder, tmp_path / "b", 1)
    table = collection(second=a, first=b).index()
    order = list(zip(table["pool"], table["identity"], table["image"], strict=True))
    assert order == sorted(order)
    assert list(dict.fromkeys(table["identity"])) == ["person01", "person00", "person02"]


def test_images_of_one_name_in_two_pools_are_two_images(tmp_path: Path, face_folder: Path) -> None:
    for pool, person in (("a", "Ann"), ("b", "Bob")):
        (tmp_path / pool).mkdir()
        Table.of_rows(["path", "identity"], [("0.png", person)]).write_csv(tmp_path / pool / "list.csv")
        shutil.copy(face_folder / "person00/0.png", tmp_path / pool / "0.png")
    table = collection(a=tmp_path / "a/list.csv", b=tmp_path / "b/list.csv").index()
    assert table["image"].tolist() == ["a/0.png", "b/0.png"]


def test_identity_of_an_earlier_pool_is_left_out_of_the_later_ones(tmp_path: Path, face_folder: Path) -> None:
    a, b = some(face_folder, tmp_path / "a", 0), some(face_folder, tmp_path / "b", 0, 1)
    source = collection(people=a, retain=b)
    table = source.index()
    pairs = set(zip(table["pool"], table["identity"], strict=True))
    assert pairs == {("people", "person00"), ("retain", "person01")}
    assert source.skipped == [
        (f"retain/person00/{number}.png", "person00", "person00 is in people") for number in range(7)
    ]


def test_pool_whose_identities_are_all_in_earlier_ones_is_refused(tmp_path: Path, face_folder: Path) -> None:
    a, b = some(face_folder, tmp_path / "a", 0, 1), some(face_folder, tmp_path / "b", 0)
    with pytest.raises(DamnatioError, match=f"Everybody in {b} is in an earlier pool as well"):
        collection(people=a, retain=b).index()


def test_sources_of_different_kinds_are_read_as_each_reads_itself(tmp_path: Path, face_folder: Path) -> None:
    a = some(face_folder, tmp_path / "a", 3)
    rows = [(str(face_folder / f"person04/{n}.png"), "four") for n in range(3)]
    Table.of_rows(["path", "identity"], rows).write_csv(tmp_path / "list.csv")
    source = collection(people=a, others=tmp_path / "list.csv")
    collect(source, tmp_path)
    faces, pixels = Table.read(tmp_path / "faces.parquet"), np.load(tmp_path / "pixels.npy")
    assert faces["identity"].tolist() == ["four"] * 3 + ["person03"] * 7
    assert faces["pool"].tolist() == ["others"] * 3 + ["people"] * 7
    for pool, folder, start in (("others", "person04", 0), ("people", "person03", 3)):
        alone = collection(**{pool: some(face_folder, tmp_path / f"alone-{pool}", int(folder[-2:]))})
        wanted = alone.read(alone.index())
        for place in range(start, start + 3):
            assert np.array_equal(pixels[place], np.asarray(wanted[place - start])), pool


def test_pools_reach_the_table_of_captures(tmp_path: Path, face_folder: Path) -> None:
    a, b = some(face_folder, tmp_path / "a", 1), some(face_folder, tmp_path / "b", 0)
    source = collection(people=a, retain=b)
    collect(source, tmp_path)
    find_captures(Faces(tmp_path, source), CaptureSettings(), tmp_path)
    captures = Table.read(tmp_path / "captures.parquet")
    assert set(zip(captures["pool"], captures["identity"], strict=True)) == {
        ("people", "person01"),
        ("retain", "person00"),
    }


def test_what_a_source_skips_is_named_with_its_pool(tmp_path: Path, face_folder: Path) -> None:
    Table.of_rows(["path", "identity"], [(str(face_folder / "person00/0.png"), "x"), ("", "y")]).write_csv(
        tmp_path / "list.csv"
    )
    source = collection(people=tmp_path / "list.csv")
    assert source.index()["identity"].tolist() == ["x"]
    assert source.skipped == [("people/row 2", "y", "no path")]


def test_fingerprint_follows_every_pool(tmp_path: Path, face_folder: Path) -> None:
    a, b = some(face_folder, tmp_path / "a", 0), some(face_folder, tmp_path / "b", 1)
    before = collection(people=a, retain=b).fingerprint()
    assert before == collection(people=a, retain=b).fingerprint()
    (b / "person01/0.png").unlink()
    assert before != collection(people=a, retain=b).fingerprint()


def test_names_of_a_pool_that_is_set_apart_say_nothing_about_other_pools(tmp_path: Path, face_folder: Path) -> None:
    a, b = some(face_folder, tmp_path / "a", 0, 1), some(face_folder, tmp_path / "b", 0)
    settings = Collection.Settings(source="collection", pools={"people": b, "retain": a}, apart=["people"], size=32)
    source = Collection(settings)
    table = source.index()
    pairs = set(zip(table["pool"], table["identity"], strict=True))
    assert pairs == {("people", "people/person00"), ("retain", "person00"), ("retain", "person01")}
    assert source.skipped == []
    assert len(source.read(table)) == len(table) == 21
