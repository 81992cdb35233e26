"""As LanceDB writes it, in two batches."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray


@contextmanager
def world(folder: Path, names: list[str], vectors: NDArray[np.float32]) -> Iterator[str]:
    lancedb = pytest.importorskip("lancedb")
    pytest.importorskip("lance")
    rows = [{"vector": vectors[row].tolist(), "person": name} for row, name in enumerate(names)]
    table = lancedb.connect(str(folder)).create_table("faces", rows[: len(rows) // 2])
    table.add(rows[len(rows) // 2 :])
    yield f"lancedb:{folder}?table=faces&name=person"
