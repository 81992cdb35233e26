"""A table as people make it: deepface's columns, written by SQLite itself."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DEEPFACE = """
CREATE TABLE embeddings (
    id INTEGER PRIMARY KEY AUTOINCREMENT, img_name TEXT NOT NULL, face BLOB NOT NULL, face_shape TEXT NOT NULL,
    model_name TEXT NOT NULL, detector_backend TEXT NOT NULL, aligned INTEGER DEFAULT 1,
    l2_normalized INTEGER DEFAULT 0, embedding BLOB NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    face_hash TEXT NOT NULL, embedding_hash TEXT NOT NULL, UNIQUE (face_hash, embedding_hash));
CREATE TABLE embeddings_index (
    id INTEGER PRIMARY KEY AUTOINCREMENT, model_name TEXT, detector_backend TEXT, align INTEGER, l2_normalized INTEGER,
    index_data BLOB, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    UNIQUE (model_name, detector_backend, align, l2_normalized));
"""


@contextmanager
def world(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> Iterator[str]:
    path = folder / "faces.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA secure_delete = OFF")
        database.executescript(DEEPFACE)
        for name, vector in zip(names, vectors, strict=True):
            enrol(database, name, vector)
        database.commit()
    yield str(path)


def enrol(database: sqlite3.Connection, name: str, vector: NDArray[np.float32]) -> None:
    face, embedding = b"\1" * 48, vector.astype("<f8").tobytes()
    hashes = hashlib.sha256(face + embedding).hexdigest(), hashlib.sha256(embedding).hexdigest()
    database.execute(
        "INSERT INTO embeddings (img_name, face, face_shape, model_name, detector_backend, aligned, l2_normalized,"
        " embedding, face_hash, embedding_hash) VALUES (?, ?, '[4, 4, 3]', 'ArcFace', 'opencv', 1, 1, ?, ?, ?)",
        (name, face, embedding, *hashes),
    )
