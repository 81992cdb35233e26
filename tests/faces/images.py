"""Small images to put into sources, and what stage 1 makes of a source."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from damnatio.faces.base import Faces, FaceSource
from damnatio.faces.collecting import collect
from damnatio.support.tables import Table

SIZE = 16
Pixels = NDArray[np.uint8]


def pixels(seed: int = 0, height: int = SIZE, width: int = SIZE) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def smooth(seed: int = 0, size: int = SIZE) -> Pixels:
    """What a camera sees: no pixel is far from its neighbours, so that a lossy format keeps it."""
    small = Image.fromarray(pixels(seed, 4, 4))
    return np.asarray(small.resize((size, size), Image.Resampling.BICUBIC))


def encoded(image: Pixels | Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(file, kind, **options)
    return file.getvalue()


def png(seed: int = 0) -> bytes:
    return encoded(pixels(seed), "PNG")


def jpeg(seed: int = 0) -> bytes:
    return encoded(smooth(seed), "JPEG")


def gathered(source: FaceSource, folder: Path) -> tuple[Faces, Table, dict[str, Any]]:
    """The faces, what was skipped, and the summary."""
    folder.mkdir(exist_ok=True)
    collect(source, folder)
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return Faces(folder, source), Table.read(folder / "skipped.parquet"), summary
