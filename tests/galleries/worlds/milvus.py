"""As Milvus Lite writes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray


@contextmanager
def world(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> Iterator[str]:
    pytest.importorskip("milvus_lite")
    pymilvus = pytest.importorskip("pymilvus")
    client = pymilvus.MilvusClient(str(folder / "gallery.db"))
    client.create_collection("faces", dimension=vectors.shape[1], metric_type="COSINE")
    rows = [{"id": row, "vector": vectors[row].tolist(), "person": name} for row, name in enumerate(names)]
    client.insert("faces", rows)
    client.flush("faces")
    client.close()
    released(folder / "gallery.db")
    yield f"milvus:{folder / 'gallery.db'}?collection=faces&name=person"


def released(path: Path) -> None:
    """The engine holds its lock for as long as the process lives, unless it is told to let go."""
    pytest.importorskip("milvus_lite.server_manager").server_manager_instance.release_server(str(path))
