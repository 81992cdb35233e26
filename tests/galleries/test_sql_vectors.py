import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from damnatio.galleries.base import BLOCK
from damnatio.galleries.sql_vectors import Row, digest, gathered, guessed_dtype, read_vector, written_vector


@given(st.integers(0, 2**32 - 1), st.sampled_from([16, 128, 512]), st.sampled_from([0.01, 1.0, 30.0]))
def test_the_type_of_numbers_is_found_out(seed: int, dim: int, scale: float) -> None:
    vectors = np.random.default_rng(seed).standard_normal((5, dim)) * scale
    for dtype in ("<f4", "<f8"):
        assert guessed_dtype([vector.astype(dtype).tobytes() for vector in vectors]) == dtype
    assert guessed_dtype([vector.astype("<f4").astype("<f8").tobytes() for vector in vectors]) == "<f8"


def test_bytes_that_may_be_either_are_not_guessed() -> None:
    assert guessed_dtype([]) == ""
    assert guessed_dtype([np.ones(8, "<f8").tobytes()]) == "<f8"
    assert guessed_dtype([np.maximum(np.linspace(-1, 1, 64), 0).astype("<f4").tobytes()]) == "<f4"
    assert guessed_dtype([b"\x89PNG\r\n\x1a\n" * 5, b"text"]) == ""
    with pytest.raises(ValueError, match="float32 or float64"):
        read_vector(bytes(8), "")


@pytest.mark.parametrize("like", ["[0.5]", "0.5,0.5", "0.5 0.5", b"", b"npy"])
def test_a_vector_is_written_as_the_others_are(like: str | bytes) -> None:
    vector = np.array([0.25, -1.5, 3.0], np.float32)
    if like == b"npy":
        file = io.BytesIO()
        np.save(file, vector)
        like = file.getvalue()
    value = written_vector(vector, like, "<f4")
    assert type(value) is type(like)
    found = read_vector(value, "<f4")
    assert found is not None
    assert found.tolist() == vector.tolist()


def test_pickled_objects_are_not_read() -> None:
    file = io.BytesIO()
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="pickle"):
        read_vector(file.getvalue(), "")


def test_rows_of_one_length_share_a_block_and_no_block_is_too_large() -> None:
    lengths = [4, 8, 0] * (BLOCK // 2)
    rows = (Row(str(n), "", np.zeros(size, np.float32) if size else None, b"") for n, size in enumerate(lengths))
    blocks = list(gathered(rows))
    assert sum(len(block.ids) for block in blocks) == len(lengths)
    assert all(len(block.ids) <= BLOCK for block in blocks)
    for block in blocks:
        (size,) = {lengths[int(id)] for id in block.ids}
        assert (0 if block.vectors is None else block.vectors.shape[1]) == size
    assert len(blocks) == 6


def test_the_hash_of_other_columns_tells_values_apart() -> None:
    assert len({digest(row) for row in [(1, 2), ("1", 2), (12,), ("12",), (b"12",), (None, 12), (1.0, 2)]}) == 7
