"""A table of faces with pgvector and an HNSW index, filled by psycopg."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.galleries.postgres_server import database


@contextmanager
def world(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> Iterator[str]:
    psycopg = pytest.importorskip("psycopg")
    with database() as address:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute(
                f"CREATE TABLE face (id bigserial PRIMARY KEY, subject text, embedding vector({vectors.shape[1]}))"
            )
            connection.execute("CREATE INDEX ON face USING hnsw (embedding vector_cosine_ops)")
            with connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO face (subject, embedding) VALUES (%s, %s::float4[]::vector)",
                    [(name, vector.tolist()) for name, vector in zip(names, vectors, strict=True)],
                )
        yield f"{address}{'&' if '?' in address else '?'}table=face&vector=embedding&name=subject"
