"""The order of colours, found out from faces."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from damnatio.checking import MOST_IMAGES, check, choose, text
from damnatio.cli import main
from damnatio.errors import DamnatioError
from damnatio.exporting import export
from damnatio.faces import SOURCES
from damnatio.models import Card
from damnatio.recipe import face_settings

CARD = Card(backbone="", dim=2, size=32)


class RedNotBlue(nn.Module):
    """Tells people by the first channel alone, where a small pattern of theirs lies."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[:, 0, :16].mean((1, 2)), x[:, 0, 16:].mean((1, 2))], 1) @ self.weight


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Red holds who it is, blue is noise."""
    rng = np.random.default_rng(0)
    for person in range(12):
        (tmp_path / "faces" / f"{person:02}").mkdir(parents=True)
        angle = 2 * np.pi * person / 12
        for number in range(5):
            pixels: NDArray[np.uint8] = np.empty((32, 32, 3), np.uint8)
            pixels[:16, :, 0], pixels[16:, :, 0] = 127.5 + 100 * np.cos(angle), 127.5 + 100 * np.sin(angle)
            pixels[:16, :, 2], pixels[16:, :, 2] = rng.integers(0, 256, 2)
            Image.fromarray(pixels).save(tmp_path / "faces" / f"{person:02}" / f"{number}.png")
    return tmp_path / "faces"


def test_the_better_order_is_told(people: Path) -> None:
    settings = face_settings(people, 32)
    for colour, warned in (("RGB", False), ("BGR", True)):
        card = CARD.model_copy(update={"colour": colour})
        declared, swapped = check(RedNotBlue(), card, SOURCES.get("folder")(settings))
        assert (declared.colour, swapped.colour) == (colour, "BGR" if colour == "RGB" else "RGB")
        right = swapped if warned else declared
        assert right.mated > 0.999
        assert right.tmr[1e-3] > 0.99
        assert declared.counts == (12 * 6, 12 * 11 // 2 * 16)  # four images of each
        assert list(declared.tmr) == [1e-3]  # 1,056 comparisons resolve no 1e-4
        assert ("WARNING: RGB is better than the declared BGR" in text(declared, swapped)) == warned


@pytest.mark.cli
def test_verb_reports_both_orders(people: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.exchange.world import settled

    export(
        settled("iresnet-tiny", 32, 16),
        CARD.model_copy(update={"backbone": "iresnet-tiny", "dim": 16}),
        tmp_path / "f.pth",
    )
    assert main(["check", str(tmp_path / "f.pth"), str(people)]) == 0
    said = capsys.readouterr().out
    assert "RGB declared" in said
    assert "BGR swapped" in said
    assert main(["check", str(tmp_path / "f.pth"), str(tmp_path / "nowhere")]) == 2


def test_choice_is_fixed_bounded_and_of_people_with_two_images() -> None:
    identities = np.repeat(np.arange(3000), np.where(np.arange(3000) % 3 == 0, 1, 6))
    rows = choose(identities)
    assert np.array_equal(rows, choose(identities))
    assert 0.9 * MOST_IMAGES < len(rows) <= MOST_IMAGES
    people, counts = np.unique(identities[rows], return_counts=True)
    assert set(counts) == {4}
    assert not (people % 3 == 0).any()
    assert people.min() < 100
    assert people.max() > 2900
    with pytest.raises(DamnatioError, match=r"Nobody among these faces has two images"):
        choose(np.arange(5))
