"""Sources of faces: images, records, shards, verification sets, manifests, lists of pairs."""

import io
import pickle
import struct
import tarfile
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from damnatio.evaluation.pair_lists import read_pair_list
from damnatio.faces.base import FaceSource, UnreadableError
from damnatio.faces.decoding import AVIF, decode
from damnatio.faces.manifest import Manifest
from damnatio.faces.pairs_bin import PairsBin, read_pairs
from damnatio.faces.recordio import RecordIO
from damnatio.faces.webdataset import WebDataset
from fuzz.mutations import damaged, edited, mixed
from fuzz.readers.base import Reader
from fuzz.structures import long_words, odd_table, payload, summed_png, summed_tar

SIZE = 16


@cache
def image(kind: str = "PNG", mode: str = "RGB", number: int = 0, **options: bytes | bool | str) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels)
    if mode == "I;16":
        picture = Image.fromarray(pixels[..., 0].astype(np.uint16) * 256)
    elif mode == "LA":
        picture = picture.convert("RGBA").convert("LA")
    else:
        picture = picture.convert(mode)
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def _images(folder: Path) -> list[bytes]:
    turned = Image.Exif()
    turned[0x0112] = 6
    exif = turned.tobytes()
    modes = [
        ("JPEG", "RGB"),
        ("JPEG", "L"),
        ("JPEG", "CMYK"),
        ("PNG", "RGB"),
        ("PNG", "RGBA"),
        ("PNG", "P"),
        ("PNG", "1"),
    ]
    modes += [
        ("PNG", "LA"),
        ("PNG", "I;16"),
        ("WEBP", "RGB"),
        ("WEBP", "RGBA"),
        ("BMP", "RGB"),
        ("BMP", "P"),
        ("BMP", "1"),
        ("GIF", "P"),
        ("TIFF", "RGB"),
        ("TIFF", "I;16"),
    ]
    plain = [image(kind, mode) for kind, mode in modes]
    return [
        *plain,
        image("JPEG", exif=exif),
        image("PNG", exif=exif),
        image("WEBP", lossless=True),
        image("JPEG", progressive=True),
        image("TIFF", compression="tiff_lzw"),
        *(image(kind) for kind in AVIF),
    ]


def _read_all(source: FaceSource) -> None:
    """Read as stage 1 does; the first skipped image is reported to the campaign."""
    source.fingerprint()
    index = source.index()
    for found in source.read(index):
        if isinstance(found, UnreadableError):
            raise found
    if source.skipped:
        raise UnreadableError(source.skipped[0][2])


# --- records ---------------------------------------------------------------------------------------------------------

MAGIC = struct.pack("<I", 0xCED7230A)


def _frame(payload: bytes, piece: int = 0) -> bytes:
    return MAGIC + struct.pack("<I", piece << 29 | len(payload)) + payload + b"\0" * (-len(payload) % 4)


def _record(label: float, content: bytes, *labels: float) -> bytes:
    return struct.pack("<IfQQ", len(labels), label, 1, 0) + struct.pack(f"<{len(labels)}f", *labels) + content


@cache
def _rec() -> tuple[bytes, bytes]:
    """A small train.rec with a cut payload and vector labels, and its train.idx."""
    frames = [_frame(_record(0, b"", 4, 5)), _frame(_record(1, image("JPEG"))), _frame(_record(0, image("PNG"), 2, 0))]
    cut = _record(2, image("JPEG", "L"))
    frames += [_frame(cut[:32], 1) + _frame(cut[32:64], 2) + _frame(cut[64:], 3), _frame(_record(0, b"", 1, 4))]
    places = np.cumsum([0, *map(len, frames[:-1])])
    return b"".join(frames), "".join(f"{key}\t{place}\n" for key, place in enumerate(places)).encode()


def _recordio(path: Path) -> RecordIO:
    return RecordIO(RecordIO.Settings(source="recordio", path=path, size=SIZE))


def _read_idx(path: Path) -> None:
    path.with_suffix(".rec").write_bytes(_rec()[0])
    _read_all(_recordio(path.with_suffix(".rec")))


# --- shards ----------------------------------------------------------------------------------------------------------


def _shards(folder: Path) -> list[bytes]:
    members = {"a.jpg": image("JPEG"), "a.cls": b"7", "d/b.png": image("PNG"), "d/b.json": b'{"identity": "x"}'}
    members |= {f"{'long' * 30}.jpg": image("JPEG"), f"{'long' * 30}.txt": b"y\n"}
    found = []
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w", format=form) as shard:
            for name, content in members.items():
                if form == tarfile.USTAR_FORMAT and len(name) > 100:
                    continue
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                shard.addfile(entry, io.BytesIO(content))
        found.append(file.getvalue())
    return found


def _read_shard(path: Path) -> None:
    _read_all(WebDataset(WebDataset.Settings(source="webdataset", path=path, size=SIZE)))


# --- verification sets -----------------------------------------------------------------------------------------------


def _pickles(folder: Path) -> list[bytes]:
    images = [image("JPEG", number=number) for number in range(4)]
    content = (images, [True, False])
    arrays = ([np.frombuffer(one, np.uint8).copy() for one in images], [True, False])
    pickled = [pickle.dumps(one, protocol) for one in (content, arrays) for protocol in (3, 4, 5)]
    return [*pickled, pickle.dumps(list(content), 4)]


def _read_bin(path: Path) -> None:
    contents, _ = read_pairs(path)
    for content in contents:
        decode(content)
    _read_all(PairsBin(PairsBin.Settings(source="pairs_bin", path=path, size=SIZE)))


# --- manifests and lists of pairs ------------------------------------------------------------------------------------


def _faces_beside(path: Path) -> None:
    for person, count in (("ann", 2), ("bob", 2)):
        folder = path.parent / person
        folder.mkdir()
        for number in range(1, count + 1):
            (folder / f"{person}_{number:04d}.png").write_bytes(image("PNG", number=number))


NAMES = [f"{person}/{person}_{number:04d}.png" for person in ("ann", "bob") for number in (1, 2)]


def _manifests(folder: Path) -> list[bytes]:
    rows = "".join(f"{name},{name[:3]}\n" for name in NAMES)
    return [
        f"path,identity\n{rows}".encode(),
        b'more,identity,path\n1,"a,b",' + NAMES[0].encode() + b"\n2,c," + NAMES[1].encode(),
    ]


def _parquet_manifests(folder: Path) -> list[bytes]:
    found = []
    for identities in (["ann", "ann", "bob", "bob"], [1, 1, 2, 2], [1.0, 1.0, 2.0, 2.0]):
        file = io.BytesIO()
        pq.write_table(pa.table({"path": NAMES, "identity": pa.array(identities)}), file)
        found.append(file.getvalue())
    return found


def _read_manifest(path: Path) -> None:
    _faces_beside(path)
    _read_all(Manifest(Manifest.Settings(source="manifest", path=path, size=SIZE)))


def _pair_csv(folder: Path) -> list[bytes]:
    lines = [f"{NAMES[i % 4]},{NAMES[(i + 1) % 4]},{i % 2}\n" for i in range(12)]
    return ["".join(["image_a,image_b,same\n", *lines]).encode()]


def _pair_lfw(folder: Path) -> list[bytes]:
    return [
        b"2\t2\n" + b"ann 1 2\nbob 1 2\nann 1 bob 2\nann\t2\tbob\t1\n" * 2,
        b"6\n" + b"ann 1 2\n" * 6 + b"ann 1 bob 2\n" * 6,
    ]


def _read_pair_list(path: Path) -> None:
    _faces_beside(path)
    read_pair_list(path, path.parent)


READERS = [
    Reader("image", ".img", _images, lambda path: decode(path.read_bytes()), mixed(damaged, damaged, summed_png)),
    Reader("rec", ".rec", lambda _: [_rec()[0]], lambda path: _read_all(_recordio(path)), damaged),
    Reader("idx", ".idx", lambda _: [_rec()[1]], _read_idx, mixed(damaged, edited)),
    Reader("tar", ".tar", _shards, _read_shard, mixed(damaged, summed_tar, damaged, summed_tar, long_words)),
    Reader("pairs-bin", ".bin", _pickles, _read_bin, mixed(damaged, damaged, payload)),
    Reader("manifest-csv", ".csv", _manifests, _read_manifest, edited),
    Reader("manifest-parquet", ".parquet", _parquet_manifests, _read_manifest, mixed(damaged, odd_table)),
    Reader("pairs-csv", ".csv", _pair_csv, _read_pair_list, edited),
    Reader("pairs-lfw", ".txt", _pair_lfw, _read_pair_list, edited),
]
