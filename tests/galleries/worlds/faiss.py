"""As faiss writes it: rows with ids of their own, and a list of names by id."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray


@contextmanager
def world(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> Iterator[str]:
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexIDMap2(faiss.IndexFlatIP(vectors.shape[1]))
    index.add_with_ids(vectors, np.arange(len(vectors)))
    faiss.write_index(index, str(folder / "gallery.index"))
    (folder / "names.json").write_text(json.dumps(names))
    yield f"faiss:{folder}/gallery.index?names=names.json"
