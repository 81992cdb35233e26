"""What an erasure says is what was measured: on the terminal, on the page, in erasure.json and in --list."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from damnatio.cli.main import main
from damnatio.models.importing import import_model
from damnatio.recipe.files import model_settings
from tests.erasure.world import pattern, photograph, write_model, write_people

pytestmark = pytest.mark.cli

QUICK = ["--set", "threads=1"]
NAME = "model-GS.safetensors"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


@pytest.fixture
def gallery(tmp_path: Path, model: Path) -> Path:
    return write_gallery(tmp_path / "gallery.npz", model)


def write_gallery(file: Path, model: Path, people: int = 120) -> Path:
    network, card = import_model(model_settings(model))
    images = np.stack([photograph(pattern(300 + i // 2), 70_000 + i) for i in range(2 * people)])
    with torch.inference_mode():
        vectors = network(card.prepare(images, torch.device("cpu"))).numpy()
    np.savez(file, embeddings=vectors, names=np.array([f"member{i // 2}" for i in range(2 * people)]))
    return file


def erased(*words: object) -> int:
    return main(["erase", *map(str, words), *QUICK])


def record_of(out: Path) -> dict[str, Any]:
    return dict(json.loads((out / "erasure.json").read_text()))


def test_with_strangers_and_photographs_enough_it_is_measured(
    tmp_path: Path, model: Path, gallery: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people, out = write_people(tmp_path / "people", range(3), photographs=12), tmp_path / "out"
    assert erased(model, people, "--gallery", gallery, "--out", out) == 0
    told, page, record = capsys.readouterr().out, (out / "erasure.html").read_text(), record_of(out)
    assert record["complete"]
    assert record["exit_code"] == 0
    assert record["touched"]["how"] == "measured"
    assert (record["touched"]["people"], record["touched"]["photographs"]) == (60, 120)
    for line in record["people"]:
        assert line["verdict"] == "forgotten"
        assert (line["held"]["photographs"], line["held"]["pairs"], line["held"]["before"]) == (12, 30, 30)
    for words in (record["verdict"], record["strangers"], record["holds"]):
        assert words in told
        assert words in page.replace("&#39;", "'")
    assert "0 of 90 pairs" in record["verdict"]
    assert "Yes: it has a template of each person" in record["holds"]
    assert 'class="verdict yes"' in page
    assert erased(out / NAME, "--list") == 0
    told = capsys.readouterr().out
    assert record["verdict"] in told
    assert record["strangers"] in told
    assert record["holds"] in told
    more = write_people(tmp_path / "more", [9], photographs=12)
    again = erased(out / NAME, more, "--gallery", gallery, "--out", tmp_path / "o2")
    assert again == 3  # 30 pairs are too few over all
    capsys.readouterr()
    assert erased(tmp_path / "o2" / NAME, "--list") == 0
    assert "Measured to be forgotten: 0 of 4" in capsys.readouterr().out  # one more makes all cones narrower


@pytest.mark.parametrize("photographs", [1, 2, 5])
def test_few_photographs_are_no_measurement(tmp_path: Path, model: Path, gallery: Path, photographs: int) -> None:
    people, out = write_people(tmp_path / "people", range(3), photographs=photographs), tmp_path / "out"
    assert erased(model, people, "--gallery", gallery, "--out", out) == 3
    record = record_of(out)
    assert {line["verdict"] for line in record["people"]} == {"hidden, not measured"}
    assert [line["held"]["photographs"] for line in record["people"]] == [photographs if photographs > 1 else 0] * 3
    assert "hidden, not measured: 3" in record["verdict"]
    assert "unknown" not in record["verdict"]


@pytest.mark.parametrize("photographs", [1, 12])
def test_without_strangers_the_share_is_unknown_and_nobody_is_called_forgotten(
    tmp_path: Path, model: Path, photographs: int, capsys: pytest.CaptureFixture[str]
) -> None:
    people, out = write_people(tmp_path / "people", range(3), photographs=photographs), tmp_path / "out"
    assert erased(model, people, "--out", out) == 3
    told, page, record = capsys.readouterr().out, (out / "erasure.html").read_text(), record_of(out)
    assert not record["complete"]
    assert record["exit_code"] == 3
    assert record["touched"]["how"] == "unknown"
    assert {line["verdict"] for line in record["people"]} == {"hidden, not measured"}
    assert record["unmeasured"] == ["person000", "person001", "person002"]
    assert erased(out / NAME, "--list") == 0
    listed = capsys.readouterr().out
    for words in (told, page, listed):
        assert "Strangers touched: unknown, since no strangers were at hand." in words
        assert "Measured to be forgotten: 0 of 3; hidden, not measured: 3." in words
    for words in (told, page):
        assert "Hidden, not measured: person000, person001, person002" in words
        assert "at most 0.0001" not in words
    assert 'class="verdict yes"' not in page
    assert 'class="verdict-cell forgotten"' not in page
    assert erased(model, people, "--out", tmp_path / "o2", "--accept-unmeasured") == 0
    record = record_of(tmp_path / "o2")
    assert not record["complete"]
    assert record["exit_code"] == 0
    assert "accepted (--accept-unmeasured)" in record["verdict"]


def test_statistics_in_the_card_count_if_they_are_of_this_model(tmp_path: Path, model: Path) -> None:
    faces = write_people(tmp_path / "faces", range(400, 460), photographs=4)
    people = write_people(tmp_path / "people", range(3), photographs=12)
    assert main(["check", str(model), str(faces), "--card"]) == 0
    assert erased(model, people, "--out", tmp_path / "o1") == 0
    record = record_of(tmp_path / "o1")
    assert record["touched"]["how"] == "card"
    assert "not measured here" in record["strangers"]
    card = model / "card.json"
    content = json.loads(card.read_text())
    del content["sha256"]
    card.write_text(json.dumps(content))
    assert erased(model, people, "--out", tmp_path / "o2") == 3
    assert record_of(tmp_path / "o2")["touched"]["how"] == "unknown"
