"""Embedding ahead of the network and in pieces: the same vectors, whatever stopped it before."""

import threading
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from damnatio import embedding
from damnatio.embedding import FILE, embed, read_embeddings, write_embeddings
from damnatio.faces.base import Faces
from damnatio.models import inputs
from damnatio.models.card import Card

CARD = Card(backbone="flat", dim=8, size=6)
IMAGES = np.random.default_rng(0).integers(0, 256, (57, 6, 6, 3), dtype=np.uint8)
ROWS = np.random.default_rng(1).permutation(57)[:50]


class Flat(nn.Module):
    """A network of one layer, which notes the batches that it is given."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.drop = nn.Linear(6 * 6 * 3, 8), nn.Dropout(0.5)
        self.batches: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.batches.append(len(x))
        y: Tensor = self.drop(self.layer(x.flatten(1)))
        return y


class Held:
    """Images from memory, read by row."""

    def __init__(self) -> None:
        self.read_by: list[tuple[str, int]] = []

    def read(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        self.read_by.append((threading.current_thread().name, len(rows)))
        return IMAGES[rows]


def faces() -> Faces:
    return cast(Faces, Held())


def test_vectors_are_those_of_each_image_by_itself() -> None:
    network, held = Flat(), Held()
    units = embed(network, CARD, cast(Faces, held), ROWS, 7)
    assert network.training, "the network stays in its mode"
    assert network.batches == [7] * 7 + [1]
    assert {name.split("_")[0] for name, _ in held.read_by} == {"read-ahead"}
    for row, unit in zip(ROWS, units, strict=True):
        x = (torch.from_numpy(IMAGES[row].astype(np.float32)).permute(2, 0, 1).flatten() - 127.5) / 127.5
        y = network.layer(x).detach().numpy()
        assert np.allclose(unit, y / np.linalg.norm(y), atol=1e-6)
    assert embed(network, CARD, faces(), ROWS[:0], 7).shape == (0, 8)


def test_no_more_is_read_ahead_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the network is at work on one batch, at most AHEAD others and the one just handed over have been read."""
    held, most = Held(), []

    class Watching(Flat):
        def forward(self, x: Tensor) -> Tensor:
            most.append(len(held.read_by) - len(self.batches))
            return super().forward(x)

    embed(Watching(), CARD, cast(Faces, held), ROWS, 2)
    assert len(most) == 25
    assert max(most) <= inputs.AHEAD + 1


def test_an_error_of_the_reader_reaches_the_caller() -> None:
    class Broken(Held):
        def read(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
            if len(self.read_by) == 5:
                raise OSError("gone")
            return super().read(rows)

    with pytest.raises(OSError, match="gone"):
        embed(Flat(), CARD, cast(Faces, Broken()), ROWS, 4)


@pytest.mark.parametrize("stop", [0, 1, 2])
def test_interrupted_call_goes_on_to_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int) -> None:
    monkeypatch.setattr(embedding, "PIECE", 16)  # three batches of 5, hence pieces of 15, 15, 15 and 5
    whole = embed(Flat(), CARD, faces(), ROWS, 5)

    class Stops(Flat):
        def forward(self, x: Tensor) -> Tensor:
            if len(self.batches) == 3 * stop + 1:
                raise KeyboardInterrupt
            return super().forward(x)

    with pytest.raises(KeyboardInterrupt):
        write_embeddings(Stops(), CARD, faces(), ROWS, 5, tmp_path)
    assert not (tmp_path / FILE).exists()
    again = Flat()
    write_embeddings(again, CARD, faces(), ROWS, 5, tmp_path)
    units, rows = read_embeddings(tmp_path / FILE)
    assert np.array_equal(units, whole)
    assert np.array_equal(rows, ROWS)
    assert again.batches == [5] * (10 - 3 * stop), "finished pieces are not embedded again"
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_pieces_of_other_batches_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "PIECE", 10)
    write: Any = embedding.save_embeddings
    monkeypatch.setattr(embedding, "save_embeddings", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_embeddings(Flat(), CARD, faces(), ROWS, 5, tmp_path)
    monkeypatch.setattr(embedding, "save_embeddings", write)
    other = Flat()
    write_embeddings(other, CARD, faces(), ROWS, 10, tmp_path)
    assert other.batches == [10] * 5
