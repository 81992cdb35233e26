"""As a server lays its storage out, with segments and logs by Qdrant Edge. No server runs here: the folders around the
shard are made by hand. `shard` and `local` are the two other layouts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray


@contextmanager
def world(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> Iterator[str]:
    shard(folder / "collections" / "faces" / "0", names, vectors)
    (folder / "collections" / "faces" / "0" / "edge_config.json").unlink()
    yield f"qdrant:{folder}?collection=faces&name=person"


def shard(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> str:
    edge = pytest.importorskip("qdrant_edge")
    folder.mkdir(parents=True)
    settings = edge.EdgeConfig(vectors=edge.EdgeVectorParams(size=vectors.shape[1], distance=edge.Distance.Cosine))
    made = edge.EdgeShard.create(str(folder), settings)
    points = [edge.Point(row, vectors[row].tolist(), {"person": name, "row": row}) for row, name in enumerate(names)]
    made.update(edge.UpdateOperation.upsert_points(points))
    made.flush()
    made.close()
    return f"qdrant:{folder}?name=person"


def local(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> str:
    qdrant = pytest.importorskip("qdrant_client")
    client = qdrant.QdrantClient(path=str(folder))
    size = qdrant.models.VectorParams(size=vectors.shape[1], distance=qdrant.models.Distance.COSINE)
    client.create_collection("faces", vectors_config=size)
    points = [
        qdrant.models.PointStruct(id=row, vector=vectors[row].tolist(), payload={"person": name})
        for row, name in enumerate(names)
    ]
    client.upsert("faces", points)
    client.close()
    return f"qdrant:{folder}?collection=faces&name=person"
