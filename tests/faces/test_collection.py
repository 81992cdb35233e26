"""Several sources as one: names, precedence, and reading through to the parts."""

import shutil
from pathlib import Path

import numpy as np

from damnatio.faces.base import collect
from damnatio.faces.collection import Collection
from damnatio.support.tables import Table


def collection(**parts: Path) -> Collection:
    return Collection(Collection.Settings(source="collection", parts=parts, size=32))


def some(face_folder: Path, target: Path, *numbers: int) -> Path:
    for number in numbers:
        shutil.copytree(face_folder / f"person{number:02d}", target / f"person{number:02d}")
    return target


def test_identities_stand_under_the_name_of_their_part(tmp_path: Path, face_folder: Path) -> None:
    a, b = some(face_folder, tmp_path / "a", 0, 1), some(face_folder, tmp_path / "b", 2)
    table = collection(people=a, retain=b).index()
    assert sorted(set(table["identity"])) == ["people/person00", "people/person01", "retain/person02"]
    assert table["image"].tolist() == sorted(table["image"].tolist())


def test_who_is_in_an_earlier_part_is_left_out_of_the_later_ones(tmp_path: Path, face_folder: Path) -> None:
    a, b = some(face_folder, tmp_path / "a", 0), some(face_folder, tmp_path / "b", 0, 1)
    source = collection(people=a, retain=b)
    assert set(source.index()["identity"]) == {"people/person00", "retain/person01"}
    assert source.skipped == [
        (f"retain/person00/{number}.png", "retain/person00", "person00 is in people") for number in range(7)
    ]


def test_parts_of_different_kinds_are_read_as_each_reads_itself(tmp_path: Path, face_folder: Path) -> None:
    a = some(face_folder, tmp_path / "a", 3)
    rows = [(str(face_folder / f"person04/{n}.png"), "four") for n in range(3)]
    Table.of_rows(["path", "identity"], rows).write_csv(tmp_path / "list.csv")
    source = collection(people=a, others=tmp_path / "list.csv")
    collect(source, tmp_path)
    faces, pixels = Table.read(tmp_path / "faces.parquet"), np.load(tmp_path / "pixels.npy")
    assert faces["identity"].tolist() == ["others/four"] * 3 + ["people/person03"] * 7
    for part, folder, start in (("others", "person04", 0), ("people", "person03", 3)):
        alone = collection(**{part: some(face_folder, tmp_path / f"alone-{part}", int(folder[-2:]))})
        wanted = alone.read(alone.index())
        for place in range(start, start + 3):
            assert np.array_equal(pixels[place], np.asarray(wanted[place - start])), part


def test_what_the_parts_skip_is_told_under_their_names(tmp_path: Path, face_folder: Path) -> None:
    Table.of_rows(["path", "identity"], [(str(face_folder / "person00/0.png"), "x"), ("", "y")]).write_csv(
        tmp_path / "list.csv"
    )
    source = collection(people=tmp_path / "list.csv")
    assert source.index()["identity"].tolist() == ["people/x"]
    assert [identity for _, identity, _ in source.skipped] == ["people/y"]


def test_the_fingerprint_follows_every_part(tmp_path: Path, face_folder: Path) -> None:
    a, b = some(face_folder, tmp_path / "a", 0), some(face_folder, tmp_path / "b", 1)
    before = collection(people=a, retain=b).fingerprint()
    assert before == collection(people=a, retain=b).fingerprint()
    (b / "person01/0.png").unlink()
    assert before != collection(people=a, retain=b).fingerprint()
