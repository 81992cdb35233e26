"""Arrays and tensors read back as they were written; a bad file is reported in one sentence."""

from pathlib import Path

import numpy as np
import pytest
import torch

from damnatio.support.arrays import read_tensors, save_tensors, write_arrays
from damnatio.support.errors import DamnatioError


def test_arrays_and_tensors_read_back(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    write_arrays({"a": array}, tmp_path / "arrays.safetensors")
    save_tensors({"a": torch.from_numpy(array).T}, tmp_path / "tensors.safetensors")
    assert np.array_equal(read_tensors(tmp_path / "arrays.safetensors")["a"], array)
    assert np.array_equal(read_tensors(tmp_path / "tensors.safetensors")["a"], array.T)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("content", [b"", b"no tensors", b"\xff" * 16])
def test_file_that_is_not_readable_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f.safetensors").write_bytes(content)
    with pytest.raises(DamnatioError, match=r"f\.safetensors is not a readable safetensors file"):
        read_tensors(tmp_path / "f.safetensors")


def test_folder_that_cannot_be_written_to_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        write_arrays({"a": np.zeros(1)}, tmp_path / "nowhere" / "f.safetensors")
    with pytest.raises(OSError, match="No such file"):
        save_tensors({"a": torch.zeros(1)}, tmp_path / "nowhere" / "f.safetensors")
