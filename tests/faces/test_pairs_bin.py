"""Verification pairs: what Python's own unpickler gives for harmless files, and a sentence for all others."""

import os
import pickle
import pickletools
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio.faces.decoding import decode
from damnatio.faces.pairs_bin import PairsBin, read_pairs
from damnatio.support.errors import DamnatioError
from tests.faces.images import SIZE, gathered, jpeg, png


def source(path: Path, **more: Any) -> PairsBin:
    return PairsBin(PairsBin.Settings(source="pairs_bin", path=path, **{"size": SIZE, **more}))


def binary(folder: Path, content: Any, protocol: int = 4) -> Path:
    path = folder / "pairs.bin"
    path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, protocol))
    return path


def python2(value: Any, protocol: int) -> bytes:
    """As Python 2 pickles lists, tuples, strings and booleans, at each of its protocols."""
    if isinstance(value, bool):
        return (b"\x88" if value else b"\x89") if protocol == 2 else b"I01\n" if value else b"I00\n"
    if isinstance(value, bytes):
        if protocol == 0:
            return b"S" + repr(value)[1:].encode() + b"\np7\n"
        return (b"U" + bytes([len(value)]) if len(value) < 256 else b"T" + len(value).to_bytes(4, "little")) + value
    inner = [python2(item, protocol) for item in value]
    if isinstance(value, tuple):
        return b"(" + b"".join(inner) + b"t"
    if protocol == 0:
        return b"(lp3\n" + b"".join(item + b"a" for item in inner)
    return b"]q\x05(" + b"".join(inner) + b"e"


IMAGES = [png(1), jpeg(2), png(3), png(1), b"", b"'\"\\\n\xff" * 60, png(5), png(6)]
SAME = [True, False, True, False]


@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize("outer", [tuple, list])
@pytest.mark.parametrize("inner", [tuple, list])
def test_pairs_of_python_3(tmp_path: Path, protocol: int, outer: Any, inner: Any) -> None:
    path = binary(tmp_path, outer([inner(IMAGES), inner(SAME)]), protocol)
    assert read_pairs(path) == (IMAGES, SAME)


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_pairs_of_python_2(tmp_path: Path, protocol: int) -> None:
    content = (b"\x80\x02" if protocol == 2 else b"") + python2((IMAGES, SAME), protocol) + b"."
    assert pickle.loads(content, encoding="bytes") == (IMAGES, SAME), "the test's own pickler is right"
    assert read_pairs(binary(tmp_path, content)) == (IMAGES, SAME)
    rows = source(tmp_path / "pairs.bin").index().rows()
    assert {row["image"]: source(tmp_path / "pairs.bin").content(row) for row in rows} == {
        str(place): image for place, image in enumerate(IMAGES)
    }


def test_image_listed_again_is_the_same_image(tmp_path: Path) -> None:
    """The pickler writes one object once and refers to it."""
    images = [png(1)] * 4
    path = binary(tmp_path, (images, [True, False]))
    assert path.stat().st_size < 2 * len(png(1))
    read, _ = read_pairs(path)
    assert read == images
    assert read[0] is read[3], "else a small file fills the memory"


def test_identities_are_what_the_pairs_prove(tmp_path: Path) -> None:
    images = [png(n) for n in (1, 2, 3, 4, 2, 5, 6, 7, 8, 9)]  # 2 stands twice
    path = binary(tmp_path, (images, [True, False, True, False, True]))
    faces, skipped, _ = gathered(source(path, cache_gb=0), tmp_path / "out")
    people = dict(zip(faces.table["image"].tolist(), faces.table["identity"].tolist(), strict=True))
    assert people == {
        "0": "0",
        "1": "0",
        "4": "0",
        "5": "0",
        "2": "2",
        "3": "3",
        "6": "6",
        "7": "7",
        "8": "8",
        "9": "8",
    }
    assert faces.table["image"].tolist() == ["0", "1", "4", "5", "2", "3", "6", "7", "8", "9"]
    assert len(skipped) == 0
    assert np.array_equal(faces.read([3, 9]), np.stack([decode(png(5)), decode(png(9))]))


def test_broken_images_are_skipped_and_named(tmp_path: Path) -> None:
    path = binary(tmp_path, ([png(1), b"", png(2), b"no image"], [False, False]))
    _, skipped, _ = gathered(source(path), tmp_path / "out")
    assert skipped["image"].tolist() == ["1", "3"]
    assert skipped["reason"].tolist() == ["an empty file", "not an image of a known format"]


# --- arrays of bytes, as `cv2.imencode` makes them ------------------------------------------------------------------


def arrays(images: list[bytes], rows: bool) -> list[Any]:
    """OpenCV gave [n, 1] before version 4.5.4, and gives [n] now."""
    return [np.frombuffer(image, np.uint8).reshape((-1, 1) if rows else -1).copy() for image in images]


def array2(content: bytes) -> bytes:
    """An array of bytes as NumPy 1 pickles it under Python 2, with HIGHEST_PROTOCOL."""
    length = b"M" + len(content).to_bytes(2, "little")
    return (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87R"
        b"(K\x01" + length + b"K\x01\x86cnumpy\ndtype\nq\x04U\x02u1K\x00K\x01\x87R"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        b"T" + len(content).to_bytes(4, "little") + content + b"tb"
    )


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_arrays_of_bytes_are_images(tmp_path: Path, protocol: int, rows: bool) -> None:
    """`build_eval_pack.py` pickles what `cv2.imencode` made."""
    images = [image for image in IMAGES if image]
    content = arrays(images, rows)
    path = binary(tmp_path, ([*content, content[0]], SAME), protocol)
    assert read_pairs(path) == ([*images, images[0]], SAME)
    read = {row["image"]: source(path).content(row) for row in source(path).index().rows()}
    assert [read[str(place)] for place in range(8)] == [*images, images[0]]


def test_arrays_of_python_2_are_images(tmp_path: Path) -> None:
    content = b"\x80\x02](" + array2(png(1)) + array2(jpeg(2)) + b"e]\x88a\x86."
    loaded = pickle.loads(content, encoding="latin1")
    assert [array.tobytes() for array in loaded[0]] == [png(1), jpeg(2)], "the test's own pickler is right"
    assert read_pairs(binary(tmp_path, content)) == ([png(1), jpeg(2)], [True])


def test_an_array_of_another_length_than_its_bytes_is_refused(tmp_path: Path) -> None:
    content = b"\x80\x02](" + array2(png(1)).replace(b"K\x01\x86c", b"K\x02\x86c") + array2(png(2)) + b"e]\x88a\x86."
    with pytest.raises(DamnatioError, match="whose shape is not that of its bytes"):
        read_pairs(binary(tmp_path, content))


# --- what is refused -------------------------------------------------------------------------------------------------


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("exit 1",)


HARMFUL = [
    (Evil(), "posix.system"),
    (([png(1), png(2)], [Evil()]), "posix.system"),
    (([png(1), png(2)], [np.bool_(True)]), r"numpy\.\S*multiarray\.scalar"),
    (([bytearray(b"x"), png(2)], [True]), "builtins.bytearray"),
    (OrderedDict(a=1), "collections.OrderedDict"),
]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(("content", "name"), HARMFUL)
def test_what_would_be_imported_is_refused_by_name(tmp_path: Path, content: Any, name: str, protocol: int) -> None:
    path = binary(tmp_path, content, protocol)
    if protocol < 3:  # these have no instruction for bytes: Python 3 calls a function for them, which comes first
        name = rf"({name}|_codecs\.encode|__builtin__\.bytearray|numpy\.\S*multiarray\._reconstruct|copyreg|copy_reg)"
    with pytest.raises(DamnatioError, match=rf"pairs\.bin cannot be read: it would import {name}"):
        read_pairs(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"\xff\xd8", "no pickle: byte 0 is no instruction"),
        ((IMAGES, [True, 1, True, False]), "label 1 is no boolean"),
        ((IMAGES, [True, 1 << 40, True, False]), "the instruction LONG1"),
        (([np.zeros(3), png(2)], [True]), "an array of another type"),
        (([np.array(["a"]), png(2)], [True]), "an array of another type"),
        (([np.array([object()]), png(2)], [True]), "an array of another type"),
        ((IMAGES, {}), "the instruction EMPTY_DICT"),
        ((IMAGES, None), "not a list of images"),
        ((IMAGES, 3.5), "the instruction BINFLOAT"),
        (b"(I5\nt.", "it holds a number"),
        ((IMAGES, ["text"] * 4), "label 0 is no boolean"),
        ((["text"] * 8, SAME), "image 0 is no bytes"),
        ((IMAGES, [True, b"x", True, True]), "label 1 is no boolean"),
        ((IMAGES[:7], SAME), "7 images and 4 labels are not pairs"),
        (([], []), "0 images and 0 labels"),
        ((IMAGES, SAME, SAME), "not a list of images and a list of booleans"),
        (True, "not a list of images"),
        ((b"ab", b"cd"), "not a list of images"),
        (b"]h\x05.", "refers to an object that it never stored"),
        (b"\x88\x88a.", "appends to something that is no list"),
        (b"a.", "takes an object that is not there"),
        (b"(\x85.", "takes an object that is not there"),
        (b"t.", "takes an object that is not there"),
        (b"]p999999999999\n.", "the place of an object is no number"),
        (b"Snot quoted\n.", "bytes without their quotes"),
        (b"((lS'\\xg0'\naS''\na(lI01\nat.", "bytes with an unknown escape"),
        (b"Pperson\n.", "the instruction PERSID"),
        (b"\x88\x88R.", "the instruction REDUCE"),
        (b"cos\nsystem\n(S'true'\ntR.", "it would import os.system"),
        (b"(S'true'\nios\nsystem\n.", "it would import os.system"),
        (b"\x8e" + b"\xff" * 8, "the file ends too early"),
        (b"B\xff\xff\xff\x7f....", "the file ends too early"),
        (pickle.dumps((IMAGES, SAME))[:-1], "the file ends too early"),
    ],
)
def test_anything_else_is_reported_in_a_sentence(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(DamnatioError, match=words) as raised:
        read_pairs(binary(tmp_path, content))
    assert "\n" not in str(raised.value)


def test_every_instruction_of_a_pickle_is_admitted_or_refused(tmp_path: Path) -> None:
    """Nothing but the four kinds is ever built, whatever instruction comes on whatever stack."""
    for operation in pickletools.opcodes:
        for before in (b"", b"(", b"]", b"]\x88", b"(\x88", b"\x8c\x02os\x8c\x06system"):
            for argument in (b"", b"\0" * 9, b"os\nsystem\n", b"\x01" * 16):
                path = binary(tmp_path, before + operation.code.encode("latin-1") + argument + b".")
                with pytest.raises(DamnatioError):
                    read_pairs(path)


def test_huge_place_in_the_memo_takes_no_memory(tmp_path: Path) -> None:
    """Python's own unpickler makes room for every place below it: 64 GB here."""
    path = binary(tmp_path, b"]r\xff\xff\xff\xff0.")
    program = f"""
import resource
from damnatio.faces.pairs_bin import read_pairs
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
try:
    read_pairs(Path({str(path)!r}))
except Exception as error:
    print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "DamnatioError"


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DamnatioError, match=r"gone\.bin cannot be read: No such file"):
        read_pairs(tmp_path / "gone.bin")


def test_file_cut_after_the_stage_is_reported(tmp_path: Path) -> None:
    path = binary(tmp_path, ([png(1), png(2)], [True]))
    faces, _, _ = gathered(source(path, cache_gb=0), tmp_path / "out")
    os.truncate(path, 20)
    with pytest.raises(DamnatioError, match="0 was readable and no longer is: the file ends inside the image"):
        faces.read([0])


def test_fingerprint_follows_the_file(tmp_path: Path) -> None:
    path = binary(tmp_path, (IMAGES, SAME))
    before = source(path).fingerprint()
    os.utime(path, ns=(1, 1))
    assert source(path).fingerprint() != before


# --- any bytes at all ------------------------------------------------------------------------------------------------


def survives(path: Path) -> None:
    try:
        images, same = read_pairs(path)
        made = source(path)
        made.read(made.index())
    except DamnatioError:
        return
    assert {type(image) for image in images} == {bytes}
    assert {type(truth) for truth in same} == {bool}


codes = st.one_of(st.sampled_from([op.code.encode("latin-1") for op in pickletools.opcodes]), st.binary(max_size=5))


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.lists(codes, max_size=30).map(b"".join), st.binary(max_size=100)))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("bin") / "pairs.bin"
    path.write_bytes(content)
    survives(path)


VALID = [pickle.dumps((IMAGES, SAME), 4), *(python2((IMAGES, SAME), protocol) + b"." for protocol in (0, 1, 2))]


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(VALID), st.floats(0, 1, exclude_max=True), st.binary(max_size=4), st.booleans())
def test_damaged_pairs_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, valid: bytes, place: float, damage: bytes, cut: bool
) -> None:
    start = int(place * len(valid))
    path = tmp_path_factory.mktemp("bin") / "pairs.bin"
    path.write_bytes(valid[:start] + damage + (b"" if cut else valid[start + len(damage) :]))
    survives(path)
