"""The order of colours, found out from faces."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from damnatio.cli.main import main
from damnatio.evaluation.checking import MOST_IMAGES, Verification, check, choose, difference, text
from damnatio.faces import SOURCES
from damnatio.models.card import Card, load_card
from damnatio.models.exporting import export
from damnatio.models.store import new_backbone, save_model
from damnatio.recipe.files import face_settings
from damnatio.support.errors import DamnatioError

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
        assert declared.counts == (12 * 10, 12 * 11 // 2 * 25)  # all images of each
        assert list(declared.tmr) == [1e-3]  # 1,650 comparisons resolve no 1e-4
        assert ("The declared RGB is the better order" in text(declared, swapped)) != warned
        assert ("WARNING: RGB is better than the declared BGR" in text(declared, swapped)) == warned


def verification(colour: str, separations: list[float], tmr: float) -> Verification:
    return Verification(colour, {1e-3: tmr}, 0.5, 0.0, (120, 2000), np.array(separations), statistics=None)


def test_the_interval_is_students_over_people() -> None:
    """By hand: differences 1, 2, 3 have the mean 2 and the deviation 1; t at 99 % and two degrees is 9.9248."""
    found = difference(verification("RGB", [1, 1, 1], 0.5), verification("BGR", [2, 3, 4], 0.5))
    assert (found.mean, found.people) == (2, 3)
    assert found.high - found.mean == pytest.approx(9.9248 / 3**0.5, rel=1e-4)
    assert found.low < 0
    alone = difference(verification("RGB", [1], 0.5), verification("BGR", [9], 0.5))
    assert (alone.low, alone.high) == (-np.inf, np.inf)


def test_a_difference_within_chance_is_no_advice() -> None:
    """One comparison of 120 more, while people differ both ways."""
    declared = verification("RGB", [2.0, 2.1, 1.9, 2.0, 2.2, 1.8], 119 / 120)
    other = verification("BGR", [2.1, 2.0, 2.0, 1.9, 2.3, 1.8], 1.0)
    assert "WARNING" not in text(declared, other)
    assert "No difference between the orders was found" in text(declared, other)
    better = verification("BGR", [3.1, 3.0, 3.0, 2.9, 3.3, 2.8], 1.0)
    assert "WARNING: BGR is better than the declared RGB" in text(declared, better)


class Ruined(nn.Module):
    """Gives every image the same, whatever that is."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((2,), value))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight.expand(len(x), 2)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "The embeddings of 60 of 60 images are not finite, first that of 00/0.png"),
        (float("inf"), "The embeddings of 60 of 60 images are not finite"),
        (0.0, "The embeddings of 60 of 60 images are of zero length, first that of 00/0.png"),
        (1.0, "All 60 images have the same embedding"),
    ],
)
def test_a_model_that_says_nothing_is_refused(people: Path, value: float, words: str) -> None:
    with pytest.raises(DamnatioError) as told:
        check(Ruined(value), CARD, SOURCES.get("folder")(face_settings(people, 32)))
    assert words in str(told.value)


@pytest.mark.cli
def test_verb_reports_both_orders(people: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.models.onnx.world import settled

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


def test_faces_of_another_size_than_the_models_are_told_with_both(people: Path) -> None:
    with pytest.raises(DamnatioError) as told:
        check(RedNotBlue(), CARD.model_copy(update={"size": 48}), SOURCES.get("folder")(face_settings(people, 48)))
    assert "of 48x48 pixels as the model takes them; 60 of 60 cannot be used: 32x32 is not 48x48." in str(told.value)


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
    few = np.repeat(np.arange(9), 50)
    assert np.array_equal(choose(few), np.arange(450))  # all that there are
    assert np.unique(choose(np.repeat(np.arange(100), 50)), return_counts=True)[1].sum() == MOST_IMAGES
    with pytest.raises(DamnatioError, match=r"Nobody among these faces has two images"):
        choose(np.arange(5))


def test_the_card_is_told_how_the_scores_lie(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`check --card` writes statistics beside the weights, keeps what the card said, and needs fifty people."""
    faces, few = tmp_path / "faces", tmp_path / "few"
    rng = np.random.default_rng(0)
    for number in range(60):
        for root in (faces, few) if number < 5 else (faces,):
            (root / f"p{number}").mkdir(parents=True)
            for image in range(2):
                Image.fromarray(rng.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(root / f"p{number}/{image}.png")
    model = tmp_path / "model"
    model.mkdir()
    card = Card(backbone="iresnet-tiny", dim=16, size=32, licence="MIT", origin="mine")
    save_model(new_backbone("iresnet-tiny", 32, 16), None, card, model)
    assert main(["check", str(model), str(few), "--card"]) == 2
    assert "at least fifty" in capsys.readouterr().err
    assert load_card(model).scores is None
    assert main(["check", str(model), str(faces), "--card"]) == 0
    found = load_card(model)
    assert found.scores is not None
    assert found.scores.people == 60
    assert (found.licence, found.origin) == ("MIT", "mine")
    assert main(["check", str(model), str(faces)]) == 0, "the card is still that of the weights"
