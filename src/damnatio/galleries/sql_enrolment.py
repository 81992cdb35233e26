"""What a new row of deepface's table needs beside its vector: it has no face, and hashes of what it has."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from damnatio.galleries.items import Vectors
from damnatio.galleries.sql_layouts import DEEPFACE_COLUMNS


def filled(columns: Sequence[str], vector: Vectors) -> dict[str, Any]:
    """Values of the columns that deepface fills; nothing for other tables."""
    if not set(columns) >= DEEPFACE_COLUMNS:
        return {}
    hashes = {"face": hashlib.sha256(b"[]"), "embedding": hashlib.sha256(np.asarray(vector, "<f8").tobytes())}
    values: dict[str, Any] = {f"{name}_hash": found.hexdigest() for name, found in hashes.items()}
    values["face"] = b""
    if "face_shape" in columns:
        values["face_shape"] = "[0]"
    return values
