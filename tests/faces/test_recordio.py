"""InsightFace's records: both layouts, cut payloads, vector labels, with an index, without, and with a wrong one."""

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio.faces import recordio
from damnatio.faces.decoding import decode
from damnatio.faces.recordio import RecordIO
from damnatio.support.errors import DamnatioError
from tests.faces.images import SIZE, gathered, jpeg, png

MAGIC = struct.pack("<I", 0xCED7230A)
Labels = float | Sequence[float]


def image_record(label: Labels, image: bytes, number: int = 0) -> bytes:
    """mxnet.recordio.pack: flag 0 and one label, or their number and as many after the header."""
    if isinstance(label, float | int):
        return struct.pack("<IfQQ", 0, label, number, 0) + image
    return struct.pack("<IfQQ", len(label), 0.0, number, 0) + struct.pack(f"<{len(label)}f", *label) + image


def framed(payload: bytes) -> bytes:
    """dmlc's writer: the payload is cut wherever the magic stands at a multiple of four, and the magic left out."""
    pieces, start = [], 0
    for place in range(0, len(payload) - 3, 4):
        if payload[place : place + 4] == MAGIC:
            pieces.append(payload[start:place])
            start = place + 4
    pieces.append(payload[start:])
    out = b""
    for n, piece in enumerate(pieces):
        kind = 0 if len(pieces) == 1 else 1 if n == 0 else 3 if n == len(pieces) - 1 else 2
        out += MAGIC + struct.pack("<I", kind << 29 | len(piece)) + piece + b"\0" * (-len(piece) % 4)
    return out


def packed(folder: Path, payloads: dict[int, bytes], idx: bool = True) -> Path:
    """The records in this order under these keys."""
    content, lines = b"", ""
    for key, payload in payloads.items():
        lines += f"{key}\t{len(content)}\n"
        content += framed(payload)
    path = folder / "train.rec"
    path.write_bytes(content)
    if idx:
        (folder / "train.idx").write_text(lines)
    return path


def insightface(people: Sequence[Sequence[bytes]]) -> dict[int, bytes]:
    """face2rec2: images from 1 with two labels each, then record 0, then a range an identity."""
    records: dict[int, bytes] = {}
    ranges = []
    for label, images in enumerate(people):
        ranges.append((len(records) + 1, len(records) + 1 + len(images)))
        for image in images:
            records[len(records) + 1] = image_record([label, 1], image, len(records) + 1)
    count = len(records)
    records[0] = image_record([count + 1, count + 1 + len(ranges)], b"")
    for n, bounds in enumerate(ranges):
        records[count + 1 + n] = image_record(bounds, b"", count + 1 + n)
    return records


def plain(images: Sequence[tuple[Labels, bytes]]) -> dict[int, bytes]:
    """im2rec: images from 0, no other records."""
    return {key: image_record(label, image, key) for key, (label, image) in enumerate(images)}


def source(path: Path, **more: Any) -> RecordIO:
    return RecordIO(RecordIO.Settings(source="recordio", path=path, **{"size": SIZE, **more}))


PEOPLE = [[png(1), png(2)], [png(3)], [jpeg(4), jpeg(5), png(6)]]


@pytest.mark.parametrize("idx", [True, False])
def test_insightface_layout(tmp_path: Path, idx: bool) -> None:
    faces, skipped, summary = gathered(source(packed(tmp_path, insightface(PEOPLE), idx), cache_gb=0), tmp_path / "out")
    assert faces.table["image"].tolist() == ["1", "2", "3", "4", "5", "6"]
    assert faces.table["identity"].tolist() == ["0", "0", "1", "2", "2", "2"]
    assert (len(skipped), summary["images"], summary["identities"]) == (0, 6, 3)
    wanted = [decode(image) for images in PEOPLE for image in images]
    assert np.array_equal(faces.read([5, 0, 3]), np.stack([wanted[5], wanted[0], wanted[3]]))


@pytest.mark.parametrize("idx", [True, False])
def test_record_0_may_stand_first(tmp_path: Path, idx: bool) -> None:
    records = insightface(PEOPLE)
    index = source(packed(tmp_path, {0: records.pop(0), **records}, idx)).index()
    assert index["image"].tolist() == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize("idx", [True, False])
@pytest.mark.parametrize("wrap", [float, lambda label: [label, 7.5, -1.0]], ids=["one label", "vector"])
def test_layout_without_record_0_counts_from_0(tmp_path: Path, idx: bool, wrap: Any) -> None:
    """A file of several labels per image has a flag above 0 in record 0, and is distinguished by its image."""
    images = [(wrap(label), png(n)) for n, label in enumerate([12, 3, 12, 100, 3])]
    faces, _, _ = gathered(source(packed(tmp_path, plain(images), idx), cache_gb=0), tmp_path / "out")
    assert faces.table["image"].tolist() == ["1", "4", "0", "2", "3"]
    assert faces.table["identity"].tolist() == ["3", "3", "12", "12", "100"]
    assert np.array_equal(faces.read([0])[0], decode(png(1)))


@pytest.mark.parametrize("idx", [True, False])
@pytest.mark.parametrize("where", [[0], [8], [0, 4, 8], [40, 44], [16, 64, 68]])
def test_payload_that_holds_the_magic_is_joined_again(tmp_path: Path, idx: bool, where: list[int]) -> None:
    """After the image: decoders stop at its end. 0 and 8 lie in the ids, so that the header itself is cut."""
    records = {}
    for key in range(4):
        payload = bytearray(image_record([float(key), 1.0], png(key)) + b"\0" * 100)
        ends = 32 + len(png(key)) + -len(png(key)) % 4
        for place in where:
            at = 8 + place if place <= 8 else ends + place
            payload[at : at + 4] = MAGIC
        records[key] = bytes(payload)
    faces, skipped, _ = gathered(source(packed(tmp_path, records, idx), cache_gb=0), tmp_path / "out")
    assert len(skipped) == 0
    assert np.array_equal(faces.read([0, 1, 2, 3]), np.stack([decode(png(key)) for key in range(4)]))
    contents = [source(tmp_path / "train.rec").content(row) for row in source(tmp_path / "train.rec").index().rows()]
    assert contents == [records[key][32:] for key in range(4)]


MXNET = bytes.fromhex(
    "0a23d7ce1b000000000000000000e040000000000000000000000000000000006f6e6500"
    "0a23d7ce20000020020000000000000001000000000000000000000000000000000040400000803f"
    "0a23d7ce0400004074776f210a23d7ce000000400a23d7ce03000060656e6400"
    "0a23d7ce1d000000000000000000e04002000000000000000000000000000000610a23d7ce000000"
)
"""What mxnet 1.9.1 writes for three records: labels 7, [3, 1] and 7; the second is cut at three places, in the third
the magic stands at a place that is no multiple of four."""


@pytest.mark.parametrize("idx", [True, False])
def test_records_of_mxnet_itself(tmp_path: Path, idx: bool) -> None:
    bodies = [b"one", MAGIC + b"two!" + MAGIC + MAGIC + b"end", b"a" + MAGIC]
    (tmp_path / "train.rec").write_bytes(MXNET)
    if idx:
        (tmp_path / "train.idx").write_text("0\t0\n1\t36\n2\t108\n")
    made = source(tmp_path / "train.rec")
    rows = made.index().rows()
    assert [(row["image"], row["identity"]) for row in rows] == [("1", "3"), ("0", "7"), ("2", "7")]
    assert [made.content(row) for row in rows] == [bodies[1], bodies[0], bodies[2]]
    labels: list[Labels] = [7.0, [3.0, 1.0], 7.0]
    payloads = [image_record(labels[n], bodies[n], n) for n in range(3)]
    assert b"".join(framed(payload) for payload in payloads) == MXNET, "the test's own packer is mxnet's"


def test_keys_need_not_be_in_the_order_of_the_file(tmp_path: Path) -> None:
    records = {key: image_record(5.0, png(key)) for key in (30, 2, 11)}
    faces, _, _ = gathered(source(packed(tmp_path, records), cache_gb=0), tmp_path / "out")
    assert faces.table["image"].tolist() == ["2", "11", "30"]
    assert np.array_equal(faces.read([2])[0], decode(png(30)))


# --- what is wrong ---------------------------------------------------------------------------------------------------


def reasons(path: Path, folder: Path) -> dict[str, str]:
    faces, skipped, summary = gathered(source(path, cache_gb=0), folder)
    assert summary["skipped"] == len(skipped)
    assert not set(faces.table["image"]) & set(skipped["image"])
    faces.read(np.arange(len(faces.table)))
    return dict(zip(skipped["image"], skipped["reason"], strict=True))


@pytest.mark.parametrize("label", [0.5, -1.0, float("nan"), float("inf"), 2.0**24, 1e30])
@pytest.mark.parametrize("vector", [False, True])
def test_label_that_is_no_whole_number_is_skipped(tmp_path: Path, label: float, vector: bool) -> None:
    images: list[tuple[Labels, bytes]] = [(1.0, png()), ([label, 0.0] if vector else label, png()), (2.0, png())]
    reported = reasons(packed(tmp_path, plain(images)), tmp_path / "out")
    assert reported == {"1": "the label is no whole number from 0 up"}


@pytest.mark.parametrize("idx", [True, False])
@pytest.mark.parametrize("keep", [0.4, 0.7, 0.99])
def test_truncated_file_keeps_what_is_whole(tmp_path: Path, idx: bool, keep: float) -> None:
    path = packed(tmp_path, plain([(1.0, png(n)) for n in range(6)]), idx)
    size = path.stat().st_size
    os.truncate(path, int(size * keep))
    whole = int(keep * 6)
    reported = reasons(path, tmp_path / "out")
    assert reported[str(whole)] == "the file ends inside the record"
    if idx:
        assert [reported[str(n)] for n in range(whole + 1, 6)] == ["the index points past the end of the file"] * (
            5 - whole
        )
    else:
        assert len(reported) == 1


def test_offsets_past_the_end_or_at_no_record_are_skipped(tmp_path: Path) -> None:
    path = packed(tmp_path, plain([(1.0, png(n)) for n in range(3)]))
    with (tmp_path / "train.idx").open("a") as file:
        file.write(f"7\t{10**15}\n8\t4\n9\t-8\n1\t0\n10\t{path.stat().st_size}\n")
    past, nowhere = "the index points past the end of the file", "no record begins where the index points"
    twice = "the index names this record twice"
    faces, skipped, _ = gathered(source(path), tmp_path / "out")
    assert faces.table["image"].tolist() == ["0", "1", "2"]
    reported = list(zip(skipped["image"], skipped["reason"], strict=True))
    assert reported == [("7", past), ("8", nowhere), ("9", past), ("1", twice), ("10", past)]


def test_index_of_another_file_is_reported(tmp_path: Path) -> None:
    path = packed(tmp_path, plain([(1.0, png(n)) for n in range(3)]))
    (tmp_path / "train.idx").write_text("0\t4\n1\t8\n")
    with pytest.raises(DamnatioError, match=r"Nothing in .*train\.rec is where its \.idx says \(no record begins"):
        source(path).index()


@pytest.mark.parametrize("text", ["", "no index", "0 1\n", "1\t2\t3\n", "a\tb\n", "\x00\xff"])
def test_index_that_is_none_is_done_without(tmp_path: Path, text: str) -> None:
    path = packed(tmp_path, insightface(PEOPLE))
    wanted = source(path).index()
    (tmp_path / "train.idx").write_text(text)
    assert source(path).index().rows() == wanted.rows()


def test_scan_goes_on_after_what_is_no_record(tmp_path: Path) -> None:
    good = [framed(image_record(1.0, png(n))) for n in range(2)]
    (tmp_path / "train.rec").write_bytes(good[0] + b"junk" + MAGIC[:2] + MAGIC + b"12" + good[1] + b"tail, longer")
    reported = reasons(tmp_path / "train.rec", tmp_path / "out")
    assert set(reported) == {f"byte {len(good[0])}", f"byte {len(good[0]) + 12 + len(good[1])}"}


@pytest.mark.parametrize("length", [4, 30, 2000, 2**29 - 1])
def test_wrong_length_costs_its_own_record_alone(tmp_path: Path, length: int) -> None:
    path = packed(tmp_path, plain([(1.0, png(n)) for n in range(5)]), idx=False)
    content = bytearray(path.read_bytes())
    start = content.index(MAGIC, len(framed(image_record(1.0, png(0)))) + 4)  # of the third record
    content[start + 4 : start + 8] = struct.pack("<I", length)
    path.write_bytes(content)
    faces, skipped, _ = gathered(source(path), tmp_path / "out")
    assert {"0", "1", "3", "4"} <= set(faces.table["image"])
    assert len(skipped)


def test_labels_that_are_all_wrong_are_reported_as_such(tmp_path: Path) -> None:
    path = packed(tmp_path, plain([(0.5, png()), (-1.0, png())]))
    with pytest.raises(DamnatioError, match="gave no readable image: the label is no whole number from 0 up"):
        gathered(source(path), tmp_path / "out")


def test_pieces_out_of_order_are_skipped(tmp_path: Path) -> None:
    cut = bytearray(framed(image_record(1.0, png() + b"\0" * (-len(png()) % 4) + MAGIC)))
    path = packed(tmp_path, plain([(1.0, png())]))
    start = path.stat().st_size
    path.write_bytes(path.read_bytes() + cut[:-8] + framed(image_record(1.0, png(2))))
    with (tmp_path / "train.idx").open("a") as file:
        file.write(f"1\t{start}\n2\t{start + len(cut) - 8}\n")
    assert reasons(path, tmp_path / "out") == {"1": "the pieces of the record do not follow each other"}


@pytest.mark.parametrize("payload", [b"", b"short", struct.pack("<IfQQ", 9, 0, 0, 0) + b"0123"])
def test_record_shorter_than_its_header_is_skipped(tmp_path: Path, payload: bytes) -> None:
    path = packed(tmp_path, {0: image_record(1.0, png()), 1: payload, 2: image_record(1.0, png())})
    assert reasons(path, tmp_path / "out") == {"1": "the record is shorter than its header says"}


@pytest.mark.parametrize("idx", [True, False])
def test_image_of_no_bytes_is_named_and_moves_no_other(tmp_path: Path, idx: bool) -> None:
    people = [[png(1), b""], [png(3)]]
    assert reasons(packed(tmp_path, insightface(people), idx), tmp_path / "out") == {"2": "an empty file"}


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "cannot be read: an empty file"), (b"nothing", "no image record"), (b"x" * 99, "no i")]
)
def test_file_without_records_is_reported(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "train.rec").write_bytes(content)
    with pytest.raises(DamnatioError, match=words):
        source(tmp_path / "train.rec").index()


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DamnatioError, match=r"gone\.rec cannot be read: No such file"):
        source(tmp_path / "gone.rec").index()


def test_file_cut_after_the_stage_is_reported(tmp_path: Path) -> None:
    path = packed(tmp_path, plain([(1.0, png(n)) for n in range(3)]))
    faces, _, _ = gathered(source(path, cache_gb=0), tmp_path / "out")
    os.truncate(path, path.stat().st_size - 8)
    with pytest.raises(DamnatioError, match="2 was readable and no longer is: the file ends inside the record"):
        faces.read([0, 2])


def test_fingerprint_follows_both_files(tmp_path: Path) -> None:
    path = packed(tmp_path, plain([(1.0, png())]))
    before = source(path).fingerprint()
    os.utime(tmp_path / "train.idx", ns=(1, 1))
    assert before != source(path).fingerprint()
    os.utime(path, ns=(1, 1))
    (tmp_path / "train.idx").unlink()
    assert len({str(f) for f in (before, source(path).fingerprint())}) == 2


def test_blocks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = packed(tmp_path, insightface(PEOPLE))
    wanted = source(path).index().rows()
    for block in (1, 2, 5):
        monkeypatch.setattr(recordio, "BLOCK", block)
        assert source(path).index().rows() == wanted


# --- any bytes at all ------------------------------------------------------------------------------------------------


def survives(folder: Path) -> None:
    try:
        made = source(folder / "train.rec")
        for image in made.read(made.index()):
            assert isinstance(image, Exception) or image.shape == (SIZE, SIZE, 3)
    except DamnatioError:
        pass


words = st.one_of(
    st.just(MAGIC),
    st.integers(0, 2**32 - 1).map(lambda n: struct.pack("<I", n)),
    st.integers(0, 64).map(lambda n: struct.pack("<I", n)),
    st.tuples(st.integers(0, 7), st.integers(0, 64)).map(lambda t: struct.pack("<I", t[0] << 29 | t[1])),
    st.binary(max_size=9),
)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(words, max_size=40),
    st.one_of(st.none(), st.binary(max_size=30), st.from_regex(r"([0-9]\t-?[0-9]{1,20}\n)*")),
)
def test_any_bytes_are_read_skipped_or_reported(
    tmp_path_factory: pytest.TempPathFactory, content: list[bytes], idx: bytes | str | None
) -> None:
    folder = tmp_path_factory.mktemp("rec")
    (folder / "train.rec").write_bytes(b"".join(content))
    if idx is not None:
        (folder / "train.idx").write_bytes(idx.encode() if isinstance(idx, str) else idx)
    survives(folder)


@settings(deadline=None, max_examples=150)
@given(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=6), st.booleans(), st.booleans())
def test_damaged_records_are_read_skipped_or_reported(
    tmp_path_factory: pytest.TempPathFactory, place: float, damage: bytes, idx: bool, cut: bool
) -> None:
    folder = tmp_path_factory.mktemp("rec")
    path = packed(folder, insightface(PEOPLE), idx)
    content = bytearray(path.read_bytes())
    start = int(place * len(content))
    if cut:
        del content[start : start + len(damage)]
    else:
        content[start : start + len(damage)] = damage
    path.write_bytes(content)
    survives(folder)
