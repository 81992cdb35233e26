"""As numpy writes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@contextmanager
def world(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> Iterator[str]:
    np.savez(folder / "gallery.npz", embeddings=vectors, names=np.array(names))
    yield str(folder / "gallery.npz")
