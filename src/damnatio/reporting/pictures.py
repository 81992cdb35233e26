"""The photographs of the page's map, small, as addresses that hold them."""

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from damnatio.faces.base import Faces
from damnatio.support.files import write_atomically
from damnatio.support.tables import Table

FILE = "pictures.json"
SIZE = 56
"""pixels of a side, at most"""
QUALITY = 70


def write_pictures(faces: Faces, planes: Sequence[Path], folder: Path) -> None:
    """Write the images of these tables, by name."""
    found: dict[str, int] = {}
    for path in planes:
        table = Table.read(path)
        found |= dict(zip(table["image"].tolist(), table["row"].tolist(), strict=True))
    pixels = faces.read(np.array(list(found.values()), np.int64))
    addresses = {name: _address(each) for name, each in zip(found, pixels, strict=True)}
    write_atomically(folder / FILE, json.dumps(addresses) + "\n")


def _address(pixels: np.ndarray) -> str:
    image = Image.fromarray(pixels)
    image.thumbnail((SIZE, SIZE))
    kept = io.BytesIO()
    image.save(kept, "JPEG", quality=QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(kept.getvalue()).decode()}"
