"""Tar shards: whatever tarfile writes is found where tarfile finds it, and half a sample is none."""

import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio.faces.base import UnreadableError
from damnatio.faces.decoding import decode
from damnatio.faces.tarindex import _pax, members
from damnatio.faces.webdataset import WebDataset
from damnatio.support.errors import DamnatioError
from tests.faces.images import SIZE, gathered, jpeg, png

Files = Iterable[tuple[str, bytes]]


def tar(files: Files, form: int = tarfile.USTAR_FORMAT) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=form) as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


def shard(path: Path, files: Files, **options: Any) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(tar(files, **options))
    return path


def source(path: Path | str, **more: Any) -> WebDataset:
    return WebDataset(WebDataset.Settings(source="webdataset", path=Path(path), **{"size": SIZE, **more}))


def sample(key: str, identity: object, seed: int) -> list[tuple[str, bytes]]:
    return [(f"{key}.png", png(seed)), (f"{key}.cls", str(identity).encode())]


def told(path: Path, folder: Path) -> dict[str, str]:
    faces, skipped, summary = gathered(source(path, cache_gb=0), folder)
    assert summary["skipped"] == len(skipped)
    faces.read(np.arange(len(faces.table)))
    return dict(zip(skipped["image"], skipped["reason"], strict=True))


# --- the walk over a tar ---------------------------------------------------------------------------------------------

LONG = ["a" * 99, "b" * 100, "c" * 101, "d/" * 60 + "e" * 90, "f" * 300, "ü" * 70, "sub.dir/x.y.z", "g" * 155 + "/h"]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_files_lie_where_tarfile_finds_them(form: int) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=form) as archive:
        for n, name in enumerate(LONG):
            if form == tarfile.USTAR_FORMAT and len(name.encode()) > 98 and name[0] not in "dg":
                continue
            for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.REGTYPE):
                info = tarfile.TarInfo(name + kind.decode())
                info.type, info.linkname = kind, "elsewhere" if kind == tarfile.SYMTYPE else ""
                info.size = (0, 1, 511, 512, 513)[n % 5] if kind == tarfile.REGTYPE else 0
                info.mtime = n + 0.5  # pax writes a record for it
                archive.addfile(info, io.BytesIO(bytes(info.size)))
    content.seek(0)
    with tarfile.open(fileobj=content) as archive:
        wanted = [(file.name, file.offset_data, file.size) for file in archive if file.isreg()]
    assert len(wanted) >= 3
    assert [tuple(member) for member in members(content.getvalue())] == wanted


def test_size_in_binary_is_understood() -> None:
    """GNU tar writes sizes that eight octal digits cannot hold so; here of a small file."""
    content = bytearray(tar([("a.cls", b"12345")]))
    content[124:136] = b"\x80" + (5).to_bytes(11, "big")
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])
    assert [tuple(member) for member in members(bytes(content))] == [("a.cls", 512, 5)]


class Counted(bytes):
    """Bytes that count how many of them are copied."""

    copied = 0

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        if isinstance(part, int):
            return part
        Counted.copied += len(part)
        return Counted(part)


def test_words_about_a_file_are_walked_once() -> None:
    """A million bytes of them must not be copied for each of their records."""
    words = Counted(b"6 a=b\n" * 20_000 + b"10 path=x\n")
    assert _pax(words) == {"a": "b", "path": "x"}
    assert Counted.copied <= 2 * len(words)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda c: c[:1024] + b"x" * 512 + c[1536:], "no tar header at byte 1024"),
        (lambda c: c[:1100], "ends inside the header at byte 1024"),
        (lambda c: c[:1540], "ends inside b.cls"),
    ],
)
def test_what_comes_before_the_damage_is_found(damage: Any, words: str) -> None:
    content = damage(tar([("a.cls", b"1"), ("b.cls", b"22222"), ("c.cls", b"3")]))
    walk = members(content)
    assert next(walk).name == "a.cls"
    with pytest.raises(UnreadableError, match=words):
        next(walk)


# --- samples ---------------------------------------------------------------------------------------------------------


def test_shards_of_a_folder_are_one_source(tmp_path: Path) -> None:
    shard(tmp_path / "data/s-1.tar", [*sample("001", "bert", 1), *sample("000", "anna", 2)])
    shard(tmp_path / "data/s-0.tar", [*sample("000", "bert", 3), ("README.md", b"words")])
    faces, skipped, _ = gathered(source(tmp_path / "data", cache_gb=0), tmp_path / "out")
    assert faces.table["image"].tolist() == ["s-1/000.png", "s-0/000.png", "s-1/001.png"]
    assert faces.table["identity"].tolist() == ["anna", "bert", "bert"]
    assert len(skipped) == 0
    assert np.array_equal(faces.read([2, 0, 1]), np.stack([decode(png(seed)) for seed in (1, 2, 3)]))


def test_path_is_a_shard_a_folder_or_a_pattern(tmp_path: Path) -> None:
    for name in ("train-0", "train-1", "val-0"):
        shard(tmp_path / f"data/{name}.tar", sample("x", "anna", 1))
    assert source(tmp_path / "data/val-0.tar").index()["image"].tolist() == ["val-0/x.png"]
    assert source(tmp_path / "data/train-*.tar").index()["image"].tolist() == ["train-0/x.png", "train-1/x.png"]
    assert len(source(tmp_path / "data").index()) == 3


def test_shards_of_one_name_in_two_folders_stay_apart(tmp_path: Path) -> None:
    for part in ("a", "b"):
        shard(tmp_path / part / "0.tar", sample("x", "anna", 1))
    assert source(tmp_path / "*/0.tar").index()["image"].tolist() == ["a/0/x.png", "b/0/x.png"]


@pytest.mark.parametrize(
    ("ending", "content", "identity"),
    [
        ("cls", b"12", "12"),
        ("cls", b" anna b.\n", "anna b."),
        ("txt", "Zoë\n".encode(), "Zoë"),
        ("json", b'{"identity": "anna"}', "anna"),
        ("json", b'{"label": 7, "class": 8}', "7"),
        ("json", b'{"class": 7.0}', "7"),
        ("JSON", b'{"label": true, "class": "c"}', "c"),
    ],
)
def test_label_may_be_text_or_json(tmp_path: Path, ending: str, content: bytes, identity: str) -> None:
    path = shard(tmp_path / "s.tar", [("k/a.jpg", jpeg()), (f"k/a.{ending}", content)])
    assert source(path).index().rows()[0]["identity"] == identity


def test_key_ends_at_the_first_dot_of_the_name(tmp_path: Path) -> None:
    files = [("v1.0/a.jpg", jpeg()), ("v1.0/a.cls", b"anna"), ("v1.0/a.mask.png", png()), ("v1.0/.hid.jpg", b"x")]
    index = source(shard(tmp_path / "s.tar", files)).index()
    assert index["image"].tolist() == ["s/v1.0/a.jpg"]


def test_halves_need_not_be_neighbours(tmp_path: Path) -> None:
    files = [("a.cls", b"1"), ("b.cls", b"2"), ("b.jpg", jpeg(2)), ("a.jpg", jpeg(1))]
    index = source(shard(tmp_path / "s.tar", files)).index()
    assert list(zip(index["image"], index["identity"], strict=True)) == [("s/a.jpg", "1"), ("s/b.jpg", "2")]


# --- what is wrong ---------------------------------------------------------------------------------------------------


def test_half_a_sample_is_skipped_and_named(tmp_path: Path) -> None:
    files = [
        *sample("good", "anna", 1),
        ("image.jpg", jpeg()),
        ("label.cls", b"3"),
        ("good.jpg", jpeg()),
        ("nobody.jpg", jpeg()),
        ("nobody.cls", b" "),
        ("list.jpg", jpeg()),
        ("list.json", b"[1]"),
        ("part.jpg", jpeg()),
        ("part.json", b'{"label": 1.5}'),
        ("torn.jpg", jpeg()),
        ("torn.json", b'{"label"'),
        ("latin.jpg", jpeg()),
        ("latin.cls", b"\xfc"),
        ("half.json", json.dumps({"identity": "\ud800"}).encode()),
        ("half.jpg", jpeg()),
        ("long.jpg", jpeg()),
        ("long.txt", b"x" * 70_000),
        ("none.jpg", b""),
        ("none.cls", b"anna"),
    ]
    assert told(shard(tmp_path / "s.tar", files), tmp_path / "out") == {
        "s/image.jpg": "an image without a label",
        "s/label": "a label without an image",
        "s/good.jpg": "a second image of its key",
        "s/nobody.jpg": "no identity beside it",
        "s/list.jpg": "no identity beside it",
        "s/part.jpg": "no identity beside it",
        "s/torn.jpg": "a .json that is not UTF-8 text of JSON",
        "s/latin.jpg": "a .cls that is not UTF-8 text",
        "s/half.jpg": "a .json that is not UTF-8 text of JSON",
        "s/long.jpg": "a label longer than any name",
        "s/none.jpg": "an empty file",
    }


def test_bad_shard_among_good_ones_is_named(tmp_path: Path) -> None:
    shard(tmp_path / "data/0.tar", sample("a", "anna", 1))
    (tmp_path / "data/1.tar").write_bytes(b"")
    (tmp_path / "data/2.tar").write_bytes(b"no tar at all" * 100)
    (tmp_path / "data/3.tar").write_bytes(gzip.compress(tar(sample("a", "anna", 1))))
    cut = tar([*sample("a", "anna", 1), *sample("b", "anna", 2)])
    (tmp_path / "data/4.tar").write_bytes(cut[: 512 * 5 + 600])
    skipped = told(tmp_path / "data", tmp_path / "out")
    assert {name: reason.split(":")[0].split(",")[0] for name, reason in skipped.items()} == {
        "1": "an empty file",
        "2": "no tar header at byte 0",
        "3": "packed by gzip",
        "4": "the archive ends inside b.png",
    }


def test_shards_of_halves_alone_are_told_with_the_reason(tmp_path: Path) -> None:
    path = shard(tmp_path / "s.tar", [("a.jpg", jpeg()), ("b.cls", b"1")])
    with pytest.raises(DamnatioError, match="gave no readable image: a label without an image; an image without"):
        gathered(source(path), tmp_path / "out")


def test_tar_of_folders_of_identities_is_told_from_shards(tmp_path: Path) -> None:
    path = shard(tmp_path / "s.tar", [("lfw/anna/1.jpg", jpeg()), ("lfw/bert/1.jpg", jpeg())])
    with pytest.raises(DamnatioError, match=r"hold images without labels: .* is read as a folder, unpacked\."):
        gathered(source(path), tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "words"), [("gone.tar", "no shard at"), ("empty", "no shard at"), ("s.tar", "hold no")]
)
def test_nothing_to_read_is_told(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "empty").mkdir()
    shard(tmp_path / "s.tar", [("README", b"")])
    with pytest.raises(DamnatioError, match=words):
        source(tmp_path / name).index()


def test_shard_cut_after_the_stage_is_told(tmp_path: Path) -> None:
    path = shard(tmp_path / "s.tar", [("a.cls", b"1"), ("a.png", png())])
    faces, _, _ = gathered(source(path, cache_gb=0), tmp_path / "out")
    os.truncate(path, 1600)
    with pytest.raises(DamnatioError, match=r"s/a\.png was readable and no longer is: the shard ends inside the image"):
        faces.read([0])


def test_fingerprint_follows_the_shards(tmp_path: Path) -> None:
    path = shard(tmp_path / "data/0.tar", sample("a", "anna", 1))
    before = source(tmp_path / "data").fingerprint()
    shard(tmp_path / "data/1.tar", sample("a", "anna", 1))
    added = source(tmp_path / "data").fingerprint()
    os.utime(path, ns=(1, 1))
    assert len({before, added, source(tmp_path / "data").fingerprint()}) == 3


# --- any bytes at all ------------------------------------------------------------------------------------------------


def survives(path: Path) -> None:
    try:
        made = source(path)
        for image in made.read(made.index()):
            assert isinstance(image, Exception) or image.shape == (SIZE, SIZE, 3)
    except DamnatioError:
        pass


@settings(deadline=None, max_examples=100)
@given(st.one_of(st.binary(max_size=1200), st.lists(st.binary(min_size=512, max_size=512), max_size=3).map(b"".join)))
def test_any_bytes_are_read_skipped_or_told(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("tar") / "s.tar"
    path.write_bytes(content)
    survives(path)


VALID = {
    form: tar([(f"{'n' * 120}/a.png", png()), (f"{'n' * 120}/a.json", b'{"label": 3}'), *sample("b", 7, 2)], form)
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
}


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(sorted(VALID)),
    st.floats(0, 1, exclude_max=True),
    st.binary(min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
)
def test_damaged_shards_are_read_skipped_or_told(
    tmp_path_factory: pytest.TempPathFactory, form: int, place: float, damage: bytes, cut: bool, mend: bool
) -> None:
    """`mend` corrects the sums of the headers, so that the damage is believed."""
    content = bytearray(VALID[form])
    start = int(place * len(content))
    if cut:
        del content[start:]
    else:
        content[start : start + len(damage)] = damage
    for block in range(0, len(content) - 511 if mend else 0, 512):
        if content[block + 257 : block + 262] == b"ustar":
            content[block + 148 : block + 156] = b" " * 8
            content[block + 148 : block + 156] = b"%06o\0 " % sum(content[block : block + 512])
    path = tmp_path_factory.mktemp("tar") / "s.tar"
    path.write_bytes(content)
    survives(path)
