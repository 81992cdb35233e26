"""A world in which a small linear network knows people: an image is a pattern of grey blocks, the person's own pattern
plus one of the moment, and the network reads the blocks. Scores lie as those of face models do: 0.63 +- 0.05 for one
person, 0 +- 0.09 for two."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from damnatio.models.card import Card
from damnatio.models.store import new_backbone, save_model

SIZE, BLOCK, DIM = 32, 4, 128
SIDE = SIZE // BLOCK
NAME = "blocks"

Pattern = NDArray[np.float64]


class Blocks(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(BLOCK)
        self.read = nn.Linear(SIDE * SIDE * 3, dim, bias=False)
        rng = np.random.default_rng(5)
        rows = np.linalg.qr(rng.normal(size=(SIDE * SIDE * 3, dim)))[0].T
        self.read.weight.data = torch.from_numpy(rows.astype(np.float32))

    def forward(self, x: Tensor) -> Tensor:
        return self.read(torch.flatten(self.pool(x), 1))  # type: ignore[no-any-return]


def blocks(size: int, dim: int) -> nn.Module:
    assert size == SIZE
    return Blocks(dim)


def pattern(number: int) -> Pattern:
    """The pattern of a person."""
    return np.random.default_rng([7, number]).normal(size=(SIDE, SIDE, 3))


def photograph(person: Pattern, moment: int, mated: float = 0.63) -> NDArray[np.uint8]:
    """An image of a person: two of them have the cosine `mated` on average."""
    other = np.random.default_rng([8, moment]).normal(size=person.shape)
    mixed = np.sqrt(mated) * person + np.sqrt(1 - mated) * other
    blocks = np.clip(127.5 + 30 * mixed, 0, 255).round().astype(np.uint8)
    return np.asarray(blocks.repeat(BLOCK, axis=0).repeat(BLOCK, axis=1))


def write_person(folder: Path, person: Pattern, moments: Sequence[int], mated: float = 0.63) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for moment in moments:
        Image.fromarray(photograph(person, moment, mated)).save(folder / f"{moment}.png")
    return folder


def write_people(root: Path, numbers: Sequence[int], photographs: int = 8) -> Path:
    for number in numbers:
        write_person(root / f"person{number:03d}", pattern(number), range(100 * number, 100 * number + photographs))
    return root


def write_model(folder: Path, dim: int = DIM) -> Path:
    folder.mkdir(parents=True)
    card = Card(backbone=NAME, dim=dim, size=SIZE, licence="MIT")
    save_model(new_backbone(NAME, SIZE, dim), None, card, folder)
    return folder
