"""As numpy writes it, with the names in a file of JSON."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@contextmanager
def world(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> Iterator[str]:
    np.save(folder / "vectors.npy", vectors)
    (folder / "names.json").write_text(json.dumps(names))
    yield f"{folder}/vectors.npy?names=names.json"
