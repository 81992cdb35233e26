"""A folder of images as people have them: many formats, some broken, none of which may stop a run."""

import hashlib
import io
import os
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from damnatio.faces import collecting
from damnatio.faces.base import Faces, UnreadableError
from damnatio.faces.collecting import collect
from damnatio.faces.decoding import AVIF, decode
from damnatio.faces.folder import Folder
from damnatio.support.errors import DamnatioError
from damnatio.support.files import content_key
from damnatio.support.tables import Table
from tests.faces.images import SIZE, encoded, gathered, pixels, png, smooth


def written(root: Path, files: dict[str, bytes]) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def source(root: Path, **given_settings: Any) -> Folder:
    return Folder(Folder.Settings(source="folder", root=root, **{"size": SIZE, **given_settings}))


def collected(root: Path, folder: Path, **given_settings: Any) -> tuple[Faces, Table, dict[str, Any]]:
    return gathered(source(root, **given_settings), folder)


# --- what is found ---------------------------------------------------------------------------------------------------


def test_each_sub_folder_is_an_identity_and_images_are_in_order(tmp_path: Path) -> None:
    files = {name: png() for name in ("bert/2.png", "bert/10.png", "anna/b.PNG", "anna/a.png", "Carl/x.png")}
    index = source(written(tmp_path, files)).index()
    assert index["image"].tolist() == ["Carl/x.png", "anna/a.png", "anna/b.PNG", "bert/10.png", "bert/2.png"]
    assert index["identity"].tolist() == ["Carl", "anna", "anna", "bert", "bert"]


def test_only_images_inside_identities_are_taken(tmp_path: Path) -> None:
    root = written(tmp_path, {"stray.png": png(), "anna/1.png": png(), "anna/notes.txt": b"", "anna/more/2.png": png()})
    assert source(root).index()["image"].tolist() == ["anna/1.png"]


@pytest.mark.parametrize(
    ("ending", "kind", "options"),
    [
        ("png", "PNG", {}),
        ("bmp", "BMP", {}),
        ("webp", "WEBP", {"lossless": True}),
        ("PNG", "PNG", {}),
        ("tif", "TIFF", {}),
        ("tiff", "TIFF", {"compression": "tiff_lzw"}),
    ],
)
def test_lossless_formats_give_the_pixels_that_were_written(
    tmp_path: Path, ending: str, kind: str, options: dict[str, Any]
) -> None:
    root = written(tmp_path / "faces", {f"anna/1.{ending}": encoded(pixels(), kind, **options)})
    faces, skipped, _ = collected(root, tmp_path / "out")
    assert np.array_equal(faces.read([0])[0], pixels())
    assert len(skipped) == 0


def test_gif_is_read_exactly() -> None:
    grey = pixels()[..., 0]
    assert np.array_equal(decode(encoded(Image.fromarray(grey), "GIF")), np.stack([grey] * 3, axis=2))


@pytest.mark.parametrize("kind", ["GIF", "TIFF"])
def test_several_pictures_in_one_file_are_never_read_as_one(kind: str) -> None:
    content = encoded(Image.fromarray(pixels(1)), kind, save_all=True, append_images=[Image.fromarray(pixels(2))])
    with pytest.raises(UnreadableError, match="several pictures in one file"):
        decode(content)


def test_pixels_of_32_bits_are_never_clipped() -> None:
    deep = Image.fromarray(np.full((SIZE, SIZE), 1000.0, np.float32))
    with pytest.raises(UnreadableError, match="32 bits"):
        decode(encoded(deep, "TIFF"))


def test_every_file_is_used_or_named(tmp_path: Path) -> None:
    files = {
        "anna/1.png": png(),
        "anna/2.heic": b"x",
        "anna/notes": b"x",
        "anna/more/2.png": png(),
        "anna/.DS_Store": b"x",
        "stray.jpg": b"x",
        ".git/config": b"x",
        "Thumbs.db": b"x",
    }
    faces, skipped, _ = collected(written(tmp_path / "faces", files), tmp_path / "out")
    assert faces.table["image"].tolist() == ["anna/1.png"]
    assert {row["image"]: (row["identity"], row["reason"]) for row in skipped.rows()} == {
        "anna/2.heic": ("anna", ".heic is not read: save a photograph as PNG or JPEG"),
        "anna/notes": ("anna", "a name without an ending is not read: save a photograph as PNG or JPEG"),
        "anna/more": ("anna", "a folder inside a person's folder is not read"),
        "anna/.DS_Store": ("", "hidden"),
        ".git": ("", "hidden"),
        "Thumbs.db": ("", "hidden"),
        "stray.jpg": ("", "in no person's folder"),
    }


def test_jpeg_folder_is_read(tmp_path: Path) -> None:
    contents = {f"p{i}/{j}.jpg": encoded(smooth(10 * i + j), "JPEG") for i in range(3) for j in range(2)}
    faces, skipped, summary = collected(written(tmp_path / "faces", contents), tmp_path / "out")
    assert (summary["images"], summary["identities"], summary["skipped"], len(skipped)) == (6, 3, 0, 0)
    for row, name in enumerate(faces.table["image"]):
        assert np.array_equal(faces.read([row])[0], np.asarray(Image.open(io.BytesIO(contents[name]))))


@pytest.mark.parametrize(
    ("name", "words"), [("gone", "cannot be read: No such file"), ("file", "cannot be read: Not a")]
)
def test_missing_folder_is_reported(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DamnatioError) as raised:
        source(tmp_path / name).index()
    assert words in str(raised.value)
    assert str(tmp_path / name) in str(raised.value)


@pytest.mark.parametrize("files", [{}, {"stray.png": b"x"}, {"anna/notes.txt": b"x"}])
def test_folder_without_images_is_reported_with_the_layout_expected(tmp_path: Path, files: dict[str, bytes]) -> None:
    with pytest.raises(DamnatioError, match=r"holds no images: they are expected as .*/<identity>/<name>\.jpg"):
        collect(source(written(tmp_path / "faces", files)), tmp_path)


def test_identity_with_one_image_is_counted(tmp_path: Path) -> None:
    files = {"anna/1.png": png(), "anna/2.png": png(), "bert/1.png": png(), "carl/1.png": png(), "carl/2.png": b"bad"}
    _, _, summary = collected(written(tmp_path / "faces", files), tmp_path / "out")
    assert summary["identities"] == 3
    assert summary["identities_with_one_image"] == 2


def test_fingerprint_follows_the_listing(tmp_path: Path) -> None:
    root = written(tmp_path, {"anna/1.png": png(), "bert/1.png": png(1)})
    before = source(root).fingerprint()
    assert source(root).fingerprint() == before
    written(root, {"anna/2.png": png(2)})
    added = source(root).fingerprint()
    written(root, {"anna/2.png": png(3)})
    os.utime(root / "anna/2.png", ns=(1, 1))
    changed = source(root).fingerprint()
    (root / "bert").rename(root / "berta")
    assert len({before, added, changed, source(root).fingerprint()}) == 4


def test_fingerprint_is_the_key_of_the_whole_listing(tmp_path: Path) -> None:
    """It is hashed file by file; runs made when it was hashed at once are found again."""
    root = written(tmp_path, {'änna "x"/1.png': png(), "bert/1.png": png(1), "bert/2.png": b""})
    names = ["bert/1.png", "bert/2.png", 'änna "x"/1.png']
    listing = [(name, (root / name).stat().st_size, (root / name).stat().st_mtime_ns) for name in names]
    assert source(root).fingerprint() == content_key(listing)


# --- what cannot be read ---------------------------------------------------------------------------------------------


def truncated(content: bytes) -> bytes:
    return content[: len(content) * 2 // 3]


BROKEN = {
    "empty.png": b"",
    "text.jpg": b"this is no image at all",
    "half.jpg": truncated(encoded(smooth(), "JPEG")),
    "half.png": truncated(png()),
    "half.webp": truncated(encoded(smooth(), "WEBP")),
    "head.jpg": encoded(smooth(), "JPEG")[:20],
}


def test_broken_images_are_skipped_counted_and_named(tmp_path: Path) -> None:
    good = {f"anna/{i}.png": png(i) for i in range(4)}
    root = written(tmp_path / "faces", good | {f"anna/{name}": content for name, content in BROKEN.items()})
    faces, skipped, summary = collected(root, tmp_path / "out")
    assert faces.table["image"].tolist() == sorted(good)
    assert skipped["image"].tolist() == sorted(f"anna/{name}" for name in BROKEN)
    assert set(skipped["identity"]) == {"anna"}
    assert all(skipped["reason"])
    assert summary["images"] == 4
    assert summary["skipped"] == len(BROKEN)
    assert [line.split(": ")[0] for line in summary["first_skipped"]] == skipped["image"].tolist()[:5]


@pytest.mark.parametrize("name", BROKEN)
def test_reason_is_for_people_and_the_same_each_time(name: str) -> None:
    reasons = []
    for _ in range(2):
        with pytest.raises(UnreadableError) as raised:
            decode(BROKEN[name])
        reasons.append(str(raised.value))
    assert re.search(r"0x[0-9a-f]{6,}", reasons[0]) is None, "the address of an object says nothing"
    assert reasons[0] == reasons[1]


def test_summary_counts_the_reasons(tmp_path: Path) -> None:
    files = {"anna/1.png": png(), "anna/2.png": b"", "bert/1.png": b"", "bert/2.png": b"text"}
    _, _, summary = collected(written(tmp_path / "faces", files), tmp_path / "out")
    assert summary["skipped_because"] == {"an empty file": 2, "not an image of a known format": 1}


@pytest.mark.parametrize("side", [8_000, 65_500])
def test_image_that_claims_to_be_huge_is_never_unpacked(side: int) -> None:
    content = bytearray(encoded(smooth(), "JPEG"))
    frame = content.index(b"\xff\xc0") + 5
    content[frame : frame + 4] = side.to_bytes(2, "big") * 2
    for huge in (bytes(content), bytes(content[:2]) + b"\xff\xe1\0\x02" + bytes(content[2:])):
        with pytest.raises(UnreadableError, match=f"{side}x{side} is larger than any aligned crop|exceeds limit"):
            decode(huge)


def test_folder_of_broken_images_only_is_reported_with_the_reasons(tmp_path: Path) -> None:
    root = written(tmp_path / "faces", {"anna/1.png": b"", "bert/1.png": b""})
    with pytest.raises(DamnatioError, match="'folder' gave no readable image: an empty file"):
        collected(root, tmp_path / "out")


def test_folder_that_looks_like_an_image_is_skipped(tmp_path: Path) -> None:
    root = written(tmp_path / "faces", {"anna/1.png": png()})
    (root / "anna" / "2.png").mkdir()
    _, skipped, _ = collected(root, tmp_path / "out")
    assert skipped["image"].tolist() == ["anna/2.png"]


def test_link_to_nowhere_is_skipped_like_any_broken_image(tmp_path: Path) -> None:
    root = written(tmp_path / "faces", {"anna/1.png": png()})
    (root / "anna" / "2.png").symlink_to(tmp_path / "gone.png")
    assert source(root).fingerprint()
    _, skipped, _ = collected(root, tmp_path / "out")
    assert skipped["image"].tolist() == ["anna/2.png"]


def test_file_name_that_is_no_text_is_skipped_and_the_others_are_read(tmp_path: Path) -> None:
    """Names from old archives are Latin-1 bytes: they can be opened, and not be written into a table as they are."""
    root = written(tmp_path / "faces", {"anna/1.png": png(), "anna/2.png": png(1)})
    os.rename(root / "anna" / "2.png", os.fsencode(root / "anna") + b"/\xfc.png")
    os.rename(written(tmp_path / "more", {"x/1.png": png(2)}) / "x", os.fsencode(root) + b"/m\xfcller")
    faces, skipped, _ = collected(root, tmp_path / "out")
    assert faces.table["image"].tolist() == ["anna/1.png"]
    assert skipped["image"].tolist() == [r"anna/\xfc.png", r"m\xfcller/1.png"]
    assert skipped["identity"].tolist() == ["anna", r"m\xfcller"]
    assert all("not UTF-8: rename it" in reason for reason in skipped["reason"])


def test_image_that_vanished_after_the_stage_is_reported(tmp_path: Path) -> None:
    root = written(tmp_path / "faces", {"anna/1.png": png(), "anna/2.png": png(1)})
    faces, _, _ = collected(root, tmp_path / "out", cache_gb=0)
    (root / "anna" / "2.png").unlink()
    assert np.array_equal(faces.read([0])[0], pixels(0))
    with pytest.raises(DamnatioError, match=r"anna/2\.png was readable and no longer is: No such file"):
        faces.read([0, 1])


# --- sizes -----------------------------------------------------------------------------------------------------------


def test_image_of_another_size_is_skipped_with_what_to_do(tmp_path: Path) -> None:
    files = {"anna/1.png": png(), "anna/2.png": encoded(pixels(1, 24, 24), "PNG")}
    _, skipped, _ = collected(written(tmp_path / "faces", files), tmp_path / "out")
    assert skipped["image"].tolist() == ["anna/2.png"]
    assert skipped["reason"].tolist() == ["24x24 is not 16x16: set faces.resize=true or faces.size=24"]


@pytest.mark.parametrize("resize", [False, True])
def test_image_that_is_not_square_is_skipped(tmp_path: Path, resize: bool) -> None:
    files = {"anna/1.png": png(), "anna/2.png": encoded(pixels(1, height=16, width=20), "PNG")}
    _, skipped, _ = collected(written(tmp_path / "faces", files), tmp_path / "out", resize=resize)
    assert skipped["reason"].tolist() == ["20x16 is not square: aligned crops are expected"]


@pytest.mark.parametrize("size", [8, 13, 32, 50])
def test_resize_brings_images_of_another_size_to_the_wanted_one(tmp_path: Path, size: int) -> None:
    image = smooth(1, size)
    files = {"anna/1.png": png(), "anna/2.png": encoded(image, "PNG")}
    faces, skipped, _ = collected(written(tmp_path / "faces", files), tmp_path / "out", resize=True)
    assert len(skipped) == 0
    read = faces.read([0, 1])
    assert np.array_equal(read[0], pixels(0))
    wanted = np.asarray(Image.fromarray(image).resize((SIZE, SIZE), Image.Resampling.BILINEAR))
    assert np.abs(read[1].astype(int) - wanted).mean() < 8


def test_halving_the_size_averages_four_pixels(tmp_path: Path) -> None:
    image = pixels(1, 32, 32)
    root = written(tmp_path / "faces", {"anna/1.png": encoded(image, "PNG")})
    faces, _, _ = collected(root, tmp_path / "out", resize=True)
    means = image.reshape(16, 2, 16, 2, 3).astype(float).mean(axis=(1, 3))
    assert np.abs(faces.read([0])[0] - means).max() <= 1


# --- kinds of image --------------------------------------------------------------------------------------------------


def test_grey_image_has_three_equal_channels() -> None:
    grey = pixels()[..., 0]
    for content in (encoded(Image.fromarray(grey), "PNG"), encoded(Image.fromarray(grey), "BMP")):
        assert np.array_equal(decode(content), np.stack([grey] * 3, axis=2))
    jpeg = decode(encoded(Image.fromarray(smooth()[..., 0]), "JPEG", quality=95))
    assert np.array_equal(jpeg[..., 0], jpeg[..., 1])
    assert np.abs(jpeg[..., 0].astype(int) - smooth()[..., 0]).max() < 12


def test_alpha_is_left_out() -> None:
    image = pixels()
    alpha = np.random.default_rng(1).integers(0, 256, (SIZE, SIZE, 1), dtype=np.uint8)
    assert np.array_equal(decode(encoded(np.concatenate([image, alpha], axis=2), "PNG")), image)


def test_palette_is_looked_up() -> None:
    image = Image.fromarray(pixels()).quantize(16)
    assert np.array_equal(decode(encoded(image, "PNG")), np.asarray(image.convert("RGB")))


def test_black_and_white_image_is_black_and_white() -> None:
    bits = Image.fromarray(pixels()[..., 0] > 127)
    assert set(np.unique(decode(encoded(bits, "PNG")))) == {0, 255}


def test_cmyk_jpeg_is_converted() -> None:
    content = encoded(Image.fromarray(smooth()).convert("CMYK"), "JPEG", quality=95)
    assert np.array_equal(decode(content), np.asarray(Image.open(io.BytesIO(content)).convert("RGB")))
    assert np.abs(decode(content).astype(int) - smooth()).mean() < 12


def test_sixteen_bits_are_brought_to_eight_and_not_clipped() -> None:
    deep = np.random.default_rng(0).integers(0, 65_536, (SIZE, SIZE), dtype=np.uint16)
    content = encoded(Image.fromarray(deep), "PNG")
    assert np.array_equal(decode(content), np.stack([(deep >> 8).astype(np.uint8)] * 3, axis=2))


ORIENTED = {
    1: lambda image: image,
    2: lambda image: image[:, ::-1],
    3: lambda image: image[::-1, ::-1],
    4: lambda image: image[::-1],
    5: lambda image: image.transpose(1, 0, 2),
    6: lambda image: np.rot90(image, 1),
    7: lambda image: image[::-1, ::-1].transpose(1, 0, 2),
    8: lambda image: np.rot90(image, -1),
}
"""How the camera stored an upright image, by EXIF orientation."""


def exif(orientation: int) -> bytes:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags.tobytes()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", *AVIF])
@pytest.mark.parametrize("orientation", ORIENTED)
def test_turned_image_is_read_upright(orientation: int, kind: str) -> None:
    stored = np.ascontiguousarray(ORIENTED[orientation](smooth()))
    options: dict[str, Any] = {"JPEG": {"quality": 100, "subsampling": 0}}.get(kind, {})
    options |= {"quality": 100, "subsampling": "4:4:4"} if kind == "AVIF" else {}
    read = decode(encoded(stored, kind, exif=exif(orientation), **options))
    assert np.abs(read.astype(int) - smooth()).max() <= {"JPEG": 8, "AVIF": 12}.get(kind, 0)


@pytest.mark.parametrize("orientation", [0, 9, 77])
def test_unknown_orientation_is_no_reason_to_skip(orientation: int) -> None:
    assert np.array_equal(decode(encoded(pixels(), "PNG", exif=exif(orientation))), pixels())


@pytest.mark.parametrize("quality", [60, 90, 100])
@pytest.mark.parametrize("options", [{"subsampling": 0}, {"subsampling": 1}, {"subsampling": 2}, {"progressive": True}])
@pytest.mark.parametrize("shape", [(16, 16), (17, 13)])
def test_jpeg_pixels_equal_those_of_pillow(quality: int, options: dict[str, Any], shape: tuple[int, int]) -> None:
    content = encoded(pixels(3, *shape), "JPEG", quality=quality, **options)
    assert np.array_equal(decode(content), np.asarray(Image.open(io.BytesIO(content)).convert("RGB")))


def test_colours_are_red_green_blue() -> None:
    image = np.zeros((SIZE, SIZE, 3), dtype=np.uint8)
    image[..., 0] = 200
    for kind in ("PNG", "JPEG", "WEBP", "BMP"):
        red, green, blue = decode(encoded(image, kind)).reshape(-1, 3).mean(axis=0)
        assert red > 150 > 50 > max(green, blue), kind


# --- rows of the table and rows of pixels ----------------------------------------------------------------------------


def mixed(root: Path) -> Path:
    """Good images with broken ones before, between and after them."""
    files = {}
    for person in range(3):
        for number in range(5):
            bad = (person + number) % 3 == 0
            files[f"p{person}/{number}.png"] = b"broken" if bad else png(100 * person + number)
    return written(root, files)


@pytest.mark.parametrize("chunk", [1, 2, 4, 512])
@pytest.mark.parametrize("cache_gb", [0.0, 8.0])
def test_rows_of_pixels_are_those_of_the_table(
    tmp_path: Path, cache_gb: float, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "CHUNK", chunk)
    root = mixed(tmp_path / "faces")
    faces, skipped, summary = collected(root, tmp_path / "out", cache_gb=cache_gb)
    assert (tmp_path / "out" / "pixels.npy").exists() == (cache_gb > 0)
    assert (len(faces.table), len(skipped)) == (10, 5)
    read = faces.read(np.arange(10))
    assert read.shape == (10, SIZE, SIZE, 3)
    assert read.dtype == np.uint8
    hashes = [hashlib.sha256(image.tobytes()).digest() for image in read]
    assert summary["pixels_sha256"] == hashlib.sha256(b"".join(hashes)).hexdigest(), "with a cache and without"
    for name, image in zip(faces.table["image"], read, strict=True):
        assert np.array_equal(image, np.asarray(Image.open(root / name))), name
    backwards = faces.read(np.array([9, 3, 3, 0]))
    assert np.array_equal(backwards, read[[9, 3, 3, 0]])


def test_read_pixels_belong_to_the_reader(tmp_path: Path) -> None:
    """A batch is mirrored in place: the store must not be."""
    for cache_gb in (0.0, 8.0):
        faces, _, _ = collected(mixed(tmp_path / "faces"), tmp_path / f"out{cache_gb}", cache_gb=cache_gb)
        first = faces.read([0, 1])
        before = first.copy()
        first[:] = 0
        assert np.array_equal(faces.read([0, 1]), before)


def test_pixels_of_an_interrupted_call_are_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk ran full while the cache was written; the next call does without the cache, in the same folder."""
    root, out = mixed(tmp_path / "faces"), tmp_path / "out"
    monkeypatch.setattr(collecting, "CHUNK", 4)
    read = Folder.read

    def stop(self: Folder, rows: Table) -> Any:
        if rows["image"][0] >= "p1":
            raise OSError(28, "No space left on device")
        return read(self, rows)

    with monkeypatch.context() as broken:
        broken.setattr(Folder, "read", stop)
        with pytest.raises(OSError, match="No space"):
            collected(root, out)
    faces, _, _ = collected(root, out, cache_gb=0)
    for row, name in enumerate(faces.table["image"]):
        assert np.array_equal(faces.read([row])[0], np.asarray(Image.open(root / name))), name


# --- any bytes at all ------------------------------------------------------------------------------------------------


def read_or_refused(content: bytes) -> None:
    """An image, or an UnreadableError; any other exception is the test's failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            image = decode(content)
        except UnreadableError:
            return
    assert image.dtype == np.uint8
    assert image.ndim == 3
    assert image.shape[2] == 3


MAGIC = [b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"\xff\xd8\xff\xe1", b"RIFF\x10\0\0\0WEBP", b"BM", b"GIF89a"]
OTHERS = [b"II*\0", b"DDS |\0\0\0", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"\0\0\0\x20ftypavif", b"8BPS\0\x01", b"P6 "]


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(MAGIC + OTHERS), st.binary(max_size=300))
def test_random_bytes_are_read_or_refused(head: bytes, content: bytes) -> None:
    read_or_refused(head + content)


def rich_exif() -> bytes:
    tags = Image.Exif()
    tags[0x0112] = 6
    tags[0x010E] = "hello"
    tags[0x011A] = 72.0
    return tags.tobytes()


VALID = {
    "png": png(),
    "palette": encoded(Image.fromarray(pixels()).quantize(16), "PNG"),
    "jpeg": encoded(smooth(), "JPEG"),
    "progressive": encoded(smooth(), "JPEG", progressive=True),
    "turned jpeg": encoded(smooth(), "JPEG", exif=rich_exif()),
    "turned png": encoded(smooth(), "PNG", exif=rich_exif()),
    "webp": encoded(smooth(), "WEBP"),
    "gif": encoded(smooth(), "GIF"),
    "tiff": encoded(smooth(), "TIFF", compression="tiff_lzw"),
}


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(sorted(VALID)), st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=3))
def test_damaged_images_are_read_or_refused(kind: str, place: float, damage: bytes) -> None:
    content = bytearray(VALID[kind])
    start = int(place * len(content))
    content[start : start + len(damage)] = damage
    read_or_refused(bytes(content))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_damaged_exif_is_no_reason_to_stop(kind: str) -> None:
    """What a camera or an editor wrote wrongly: tags, types and lengths of the entries, one byte at a time."""
    tags = rich_exif()
    first = tags.index(b"MM\0*") + 10
    for entry in range(3):
        for place in (0, 1, 2, 3, 7):
            for value in range(0, 64, 3):
                damaged = bytearray(tags)
                damaged[first + 12 * entry + place] = value
                read_or_refused(encoded(smooth(), kind, exif=bytes(damaged)))


@pytest.mark.parametrize("flags", [0x08, 0x10, 0x18])
def test_file_of_another_kind_under_the_name_of_an_image_is_read_or_refused(flags: int) -> None:
    """A texture whose pixel format Pillow's decoder does not implement."""
    texture = bytearray(encoded(pixels(), "DDS"))
    texture[80] = flags
    read_or_refused(bytes(texture))


def test_folder_of_nobody_is_named(tmp_path: Path) -> None:
    """Whoever asks for a person must learn that there is no image of them."""
    root = written(tmp_path / "faces", {"anna/1.png": png(), "bert/notes.txt": b"", "loose.txt": b"", ".git/x": b""})
    (root / "carl").mkdir()
    _, skipped, _ = collected(root, tmp_path / "out")
    nobody = [row["image"] for row in skipped.rows() if row["reason"] == "a folder without images"]
    assert nobody == ["bert", "carl"]
