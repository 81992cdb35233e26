"""What every source of files keeps to: one set of images, put into each, is the same set of faces."""

import io
import multiprocessing
import pickle
import struct
import tarfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from damnatio.faces import SOURCES, detect
from damnatio.faces.base import Faces, FaceSource
from tests.faces.images import SIZE, Pixels, encoded, gathered, png, smooth

GREY = Image.fromarray(smooth(9)[..., 0])
DEEP = Image.fromarray((smooth(9)[..., 0].astype(np.uint16) << 8) + 7)


def turned() -> bytes:
    tags = Image.Exif()
    tags[0x0112] = 3
    return encoded(np.ascontiguousarray(smooth(9)[::-1, ::-1]), "PNG", exif=tags.tobytes())


def opened(content: bytes) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


CONTENT: dict[int, list[bytes]] = {
    0: [png(1), png(2)],
    1: [encoded(GREY, "PNG"), encoded(DEEP, "PNG"), b"", turned()],
    2: [encoded(smooth(9), "JPEG"), encoded(Image.fromarray(smooth(9)).convert("CMYK"), "JPEG"), b"no image", png(3)],
}
"""Images by person; the third of the second and of the third cannot be read."""
PIXELS = [
    [opened(image) for image in CONTENT[0]],
    [np.stack([np.asarray(GREY)] * 3, axis=2), smooth(9)],
    [opened(CONTENT[2][0]), opened(CONTENT[2][1]), opened(CONTENT[2][3])],
]
"""What they are, but for how they are stored: the deep one is the grey one."""
BROKEN = {"an empty file", "not an image of a known format"}


def flat() -> list[tuple[int, bytes]]:
    return [(person, image) for person, images in CONTENT.items() for image in images]


def folder(root: Path) -> Path:
    for number, (person, image) in enumerate(flat()):
        (root / f"{person}").mkdir(parents=True, exist_ok=True)
        (root / f"{person}/{number:02d}.png").write_bytes(image)
    return root


def manifest(root: Path) -> Path:
    folder(root / "images")
    lines = [f"images/{person}/{number:02d}.png,{person}\n" for number, (person, _) in enumerate(flat())]
    (root / "faces.csv").write_text("path,identity\n" + "".join(lines))
    return root / "faces.csv"


def recordio(root: Path) -> Path:
    root.mkdir()
    content = b""
    for person, image in flat():
        payload = struct.pack("<IfQQ", 0, person, 0, 0) + image
        content += struct.pack("<II", 0xCED7230A, len(payload)) + payload + b"\0" * (-len(payload) % 4)
    (root / "train.rec").write_bytes(content)
    return root


def webdataset(root: Path) -> Path:
    root.mkdir()
    with tarfile.open(root / "s.tar", "w") as archive:
        for number, (person, image) in enumerate(flat()):
            for ending, data in (("png", image), ("cls", str(person).encode())):
                info = tarfile.TarInfo(f"{number:02d}.{ending}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return root


def pairs_bin(root: Path) -> Path:
    """Each image of a person paired with the person's first."""
    images = [each for content in CONTENT.values() for image in content for each in (content[0], image)]
    root.mkdir()
    (root / "pairs.bin").write_bytes(pickle.dumps((images, [True] * (len(images) // 2))))
    return root / "pairs.bin"


BUILDERS: list[Callable[[Path], Path]] = [folder, manifest, recordio, webdataset, pairs_bin]


@pytest.fixture(params=BUILDERS, ids=lambda build: build.__name__)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> FaceSource:
    settings = detect(request.param(tmp_path / "source"), size=SIZE, cache_gb=0)
    assert settings.source == request.param.__name__
    return SOURCES.get(settings.source)(settings)


def test_every_source_of_files_is_tested_here() -> None:
    on_disk = {name for name in SOURCES.names() if {"path", "root"} & set(SOURCES.get(name).Settings.model_fields)}
    assert on_disk == {build.__name__ for build in BUILDERS}


def test_index_names_each_image_once_and_keeps_people_together(source: FaceSource) -> None:
    index = source.index()
    assert len(set(index["image"])) == len(index)
    people = index["identity"].tolist()
    assert sum(a != b for a, b in pairwise(people)) == 2
    assert source.index().rows() == index.rows()
    assert source.fingerprint() == SOURCES.get(source.settings.source)(source.settings).fingerprint()


def test_faces_are_the_same_from_every_source(source: FaceSource, tmp_path: Path) -> None:
    faces, skipped, summary = gathered(source, tmp_path / "out")
    assert set(skipped["reason"]) == BROKEN
    assert set(summary["skipped_because"]) == BROKEN
    assert summary["identities"] == 3
    read = faces.read(np.arange(len(faces.table)))
    people = list(dict.fromkeys(faces.table["identity"]))
    for person, wanted in zip(people, PIXELS, strict=True):
        found = read[faces.table["identity"] == person]
        assert {image.tobytes() for image in found} == {image.tobytes() for image in wanted}


def _read(faces: Faces, rows: NDArray[np.int64], answers: Any) -> None:
    answers.put(faces.read(rows))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_what_the_parent_reads(source: FaceSource, tmp_path: Path, method: str) -> None:
    """The parent has files open and threads behind it when the workers begin."""
    faces, _, _ = gathered(source, tmp_path / "out")
    rows = np.arange(len(faces.table))
    wanted = faces.read(rows)
    context: Any = multiprocessing.get_context(method)
    answers = context.Queue()
    workers = [context.Process(target=_read, args=(faces, rows, answers)) for _ in range(2 if method == "fork" else 1)]
    for worker in workers:
        worker.start()
    for _ in workers:
        assert np.array_equal(answers.get(timeout=500), wanted)
    for worker in workers:
        worker.join()
    assert np.array_equal(faces.read(rows), wanted)
