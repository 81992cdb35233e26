"""As face_recognition's examples write it."""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@contextmanager
def world(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> Iterator[str]:
    rows = [np.asarray(vector, np.float64) for vector in vectors]
    (folder / "encodings.pickle").write_bytes(pickle.dumps({"encodings": rows, "names": names}))
    yield str(folder / "encodings.pickle")
