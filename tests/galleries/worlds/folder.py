"""Photographs in a folder per person, and their thumbnails; the vectors have no part in it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image


@contextmanager
def world(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> Iterator[str]:
    number, random = Counter[str](), np.random.default_rng(0)
    for name in names:
        number[name] += 1
        for place, side in ((folder, 48), (folder / "thumbs", 32)):
            (place / name).mkdir(parents=True, exist_ok=True)
            pixels = random.integers(0, 256, (side, side, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(place / name / f"{number[name]}.jpg")
    yield str(folder)
