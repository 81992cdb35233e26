"""As Chroma writes it: most rows in the index, the last ones still in the queue."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray


@contextmanager
def world(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> Iterator[str]:
    fill(folder, names, vectors, "cosine", synced=100)
    yield f"chroma:{folder}?collection=faces&name=person"


def fill(folder: Path, names: list[str], vectors: NDArray[np.float32], space: str, synced: int) -> None:
    chromadb = pytest.importorskip("chromadb")
    client = chromadb.PersistentClient(str(folder), chromadb.config.Settings(anonymized_telemetry=False))
    settings = {"hnsw": {"space": space, "sync_threshold": synced, "batch_size": min(synced, 100)}}
    faces = client.create_collection("faces", configuration=settings, embedding_function=None)
    for first in range(0, len(names), 50):
        rows = range(first, min(first + 50, len(names)))
        faces.add(
            ids=[f"row {row}" for row in rows],
            embeddings=vectors[rows.start : rows.stop],
            metadatas=[{"person": names[row], "row": row} for row in rows],
        )
    client.close()
