"""A count of what is left that knows nothing of the scanner: 32-byte pieces of vectors in files, byte by byte."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PIECE = 32


def pieces(vectors: NDArray[np.floating]) -> set[bytes]:
    """All 32-byte pieces of the vectors as they are stored."""
    rows = [vector.tobytes() for vector in vectors]
    return {row[at : at + PIECE] for row in rows for at in range(0, len(row), PIECE)}


def left(vectors: NDArray[np.floating], files: Iterable[Path]) -> int:
    """How many of them are in the files."""
    contents = [path.read_bytes() for path in files]
    return sum(any(piece in content for content in contents) for piece in pieces(vectors))


def people(count: int = 20, each: int = 10, dim: int = 512, seed: int = 3) -> tuple[list[str], NDArray[np.float32]]:
    """Random unit vectors: "person 00" and so on, each with several, mixed."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((count * each, dim)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    order = random.permutation(count * each)
    return [f"person {row // each:02d}" for row in order.tolist()], vectors[order]
