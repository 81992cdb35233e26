"""Real faces and published weights, which the project does not ship, and where the tests look for them.

`DAMNATIO_ASSETS` names a folder with `data/lfw-aligned-112.tar` (or that archive unpacked) and
`models/mobilefacenet-facexzoo.safetensors`; unset, it is the folder `shared` beside the checkout. A test whose asset is
absent is skipped.
"""

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ASSETS = Path(os.environ.get("DAMNATIO_ASSETS") or Path(__file__).resolve().parents[2] / "shared").expanduser()
WEIGHTS = ASSETS / "models/mobilefacenet-facexzoo.safetensors"
FACES = ASSETS / "data/lfw-aligned-112"
ARCHIVE = FACES.with_name(f"{FACES.name}.tar")

needs_weights = pytest.mark.skipif(
    not WEIGHTS.is_file(), reason=f"FaceX-Zoo's MobileFaceNet is not at {WEIGHTS}: set DAMNATIO_ASSETS"
)
needs_faces = pytest.mark.skipif(
    not (FACES.is_dir() or ARCHIVE.is_file()), reason=f"The aligned LFW is not at {FACES}[.tar]: set DAMNATIO_ASSETS"
)


def lfw() -> Iterator[tuple[str, bytes]]:
    """Identity and encoded image of every face, one identity after the other."""
    if FACES.is_dir():
        for file in sorted(FACES.glob("*/*.jpg")):
            yield file.parent.name, file.read_bytes()
        return
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            file_object = archive.extractfile(member) if member.isfile() else None
            if file_object is not None:
                yield Path(member.name).parent.name, file_object.read()
