"""A table of paths and identities as people write it, by hand or with pandas."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from damnatio.faces.decoding import decode
from damnatio.faces.manifest import Manifest
from damnatio.support.errors import DamnatioError
from tests.faces.images import SIZE, gathered, png


def source(path: Path, **more: Any) -> Manifest:
    return Manifest(Manifest.Settings(source="manifest", path=path, **{"size": SIZE, **more}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    for number in range(5):
        (tmp_path / f"images/{number}.png").write_bytes(png(number))
    return tmp_path


def csv(folder: Path, *lines: str | bytes, name: str = "faces.csv") -> Path:
    path = folder / name
    path.write_bytes(b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines))
    return path


def parquet(folder: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), folder / "faces.parquet")
    return folder / "faces.parquet"


def told(path: Path, **more: Any) -> dict[str, str]:
    _, skipped, summary = gathered(source(path, **more), path.parent / "out")
    assert summary["skipped"] == len(skipped)
    return dict(zip(skipped["image"], skipped["reason"], strict=True))


def test_csv_is_read_sorted_by_identity_and_path(folder: Path) -> None:
    path = csv(folder, "path,identity", "images/3.png,bert", "images/0.png,anna", "images/2.png,bert", "images/1.png,Ö")
    faces, skipped, _ = gathered(source(path, cache_gb=0), folder / "out")
    assert faces.table["image"].tolist() == [f"images/{n}.png" for n in (0, 2, 3, 1)]
    assert faces.table["identity"].tolist() == ["anna", "bert", "bert", "Ö"]
    assert len(skipped) == 0
    assert np.array_equal(faces.read([3, 0]), np.stack([decode(png(1)), decode(png(0))]))


def test_other_columns_quotes_and_spaces_do_no_harm(folder: Path) -> None:
    path = csv(
        folder, '"age",identity,"path"', "3, anna ,images/0.png", '4,"anna","images/1.png"', '5,"b, c",images/2.png'
    )
    index = source(path).index()
    assert list(zip(index["image"], index["identity"], strict=True)) == [
        ("images/0.png", "anna"),
        ("images/1.png", "anna"),
        ("images/2.png", "b, c"),
    ]


def test_numbers_of_a_csv_stay_as_they_are_written(folder: Path) -> None:
    index = source(csv(folder, "path,identity", "images/0.png,007", "images/1.png,7", "images/2.png,7.0")).index()
    assert index["identity"].tolist() == ["007", "7", "7.0"]


@pytest.mark.parametrize(
    "identities",
    [
        ["3", "12", "3"],
        pa.array([3, 12, 3], pa.int32()),
        pa.array([3.0, 12.0, 3.0]),
        pa.array(["3", "12", "3"]).dictionary_encode(),
        pa.array(["3", "12", "3"], pa.large_string()),
    ],
    ids=lambda identities: str(getattr(identities, "type", "text")),
)
def test_parquet_columns_of_any_kind(folder: Path, identities: Any) -> None:
    path = parquet(folder, path=[f"images/{n}.png" for n in range(3)], identity=identities, more=[1, 2, 3])
    index = source(path).index()
    assert index["identity"].tolist() == ["12", "3", "3"]
    assert index["image"].tolist() == ["images/1.png", "images/0.png", "images/2.png"]


def test_paths_begin_at_the_root_or_are_absolute(folder: Path) -> None:
    path = csv(folder, "path,identity", "0.png,anna", f"{folder}/images/1.png,anna")
    faces, skipped, _ = gathered(source(path, root=folder / "images"), folder / "out")
    assert (len(faces.table), len(skipped)) == (2, 0)


def test_rows_that_say_nothing_are_skipped_and_named(folder: Path) -> None:
    path = csv(
        folder,
        "path,identity",
        "images/0.png,anna",
        "images/1.png,",
        ",bert",
        "images/0.png,bert",
        "images/2.png,bert,3",
        b"images/\xff.png,anna",
        "images/9.png,bert",
    )
    assert told(path) == {
        "line 6": "3 values where 2 are expected",
        "images/1.png": "no identity",
        "row 3": "no path",
        "images/0.png": "listed before",
        "row 5": "no path",
        "images/9.png": "No such file or directory",
    }


def test_identity_that_is_no_whole_number_is_skipped(folder: Path) -> None:
    path = parquet(folder, path=[f"images/{n}.png" for n in range(4)], identity=[1.0, 2.5, None, float("nan")])
    assert told(path) == {f"images/{n}.png": "no identity" for n in (1, 2, 3)}


def test_path_that_no_file_can_have_is_skipped(folder: Path) -> None:
    path = parquet(folder, path=["images/0.png", "a\0b.png", "x" * 5000], identity=["a", "b", "c"])
    assert told(path) == {"a\0b.png": "not the path of a file", "x" * 5000: "File name too long"}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "must have the columns"),
        (["path,identity"], "names no image"),
        (["file,person", "a.png,anna"], "must have the columns 'path' and 'identity'"),
        (["a.png,anna"], "must have the columns"),
    ],
)
def test_table_of_something_else_is_told(folder: Path, lines: list[str], words: str) -> None:
    with pytest.raises(DamnatioError, match=words):
        source(csv(folder, *lines)).index()


def test_parquet_of_something_else_is_told(folder: Path) -> None:
    with pytest.raises(DamnatioError, match="must have the columns 'path' and 'identity'"):
        source(parquet(folder, path=["a.png"])).index()
    with pytest.raises(DamnatioError, match=r"a column holds list<.*> where text or whole numbers are expected"):
        source(parquet(folder, path=["a.png"], identity=[["anna"]])).index()
    (folder / "faces.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DamnatioError, match="cannot be read"):
        source(folder / "faces.parquet").index()


@pytest.mark.parametrize("name", ["gone.csv", "gone.parquet"])
def test_missing_manifest_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(DamnatioError, match=rf"{name} cannot be read"):
        source(tmp_path / name).index()


def test_fingerprint_follows_the_manifest(folder: Path) -> None:
    path = csv(folder, "path,identity", "images/0.png,anna")
    before = source(path).fingerprint()
    assert source(path).fingerprint() == before
    os.utime(path, ns=(1, 1))
    assert source(path).fingerprint() != before


def survives(path: Path) -> None:
    try:
        made = source(path)
        index = made.index()
    except DamnatioError:
        return
    assert all(index["image"])
    assert all(index["identity"])
    assert all(isinstance(image, Exception) for image in made.read(index))


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from([b"", b"path,identity\n", b"identity,path\n\xff"]),
    st.one_of(st.binary(max_size=200), st.text('a,"\n\r', max_size=40).map(str.encode)),
)
def test_any_bytes_are_read_skipped_or_told(
    tmp_path_factory: pytest.TempPathFactory, head: bytes, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("csv") / "faces.csv"
    path.write_bytes(head + content)
    survives(path)


@settings(deadline=None, max_examples=150)
@given(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=4))
@example(0.28125, b"\x80")  # the title of a column, no longer UTF-8
def test_damaged_parquet_is_read_or_told(tmp_path_factory: pytest.TempPathFactory, place: float, damage: bytes) -> None:
    path = parquet(tmp_path_factory.mktemp("parquet"), path=["a", "b", "c"], identity=["x", "y", "x"])
    content = bytearray(path.read_bytes())
    start = int(place * len(content))
    content[start : start + len(damage)] = damage
    path.write_bytes(content)
    survives(path)


def test_rows_that_take_no_room_are_not_believed(tmp_path: Path) -> None:
    none = pa.nulls(3_000_000, pa.string())
    with pytest.raises(DamnatioError, match=r"faces\.parquet claims 3,000,000 rows in [\d,]+ bytes"):
        source(parquet(tmp_path, path=none, identity=none)).index()
