"""Bad input: one sentence each, and nothing is written."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from safetensors.numpy import load_file, save_file

from damnatio import erase
from damnatio.models.card import CARD, Card, write_card
from damnatio.support.errors import DamnatioError
from damnatio.support.files import digest_of
from tests.erasure.world import DIM, SIZE, pattern, write_model, write_people, write_person


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write_people(tmp_path / "people", range(3))


def refused(out: Path, model: Path, *paths: Path, **options: object) -> str:
    """The sentence with which a request is refused."""
    with pytest.raises(DamnatioError) as caught:
        erase(model, *paths, out=out, overrides=["threads=1"], say=lambda line: None, **options)  # type: ignore[arg-type]
    assert not out.exists()
    return str(caught.value)


def test_folder_with_no_face_like_the_others(tmp_path: Path, model: Path, people: Path) -> None:
    for number in range(6):
        write_person(people / "mixed", pattern(60 + number), [number])
    told = refused(tmp_path / "out", model, people)
    assert "The photographs of mixed do not show one person" in told


def test_two_people_who_are_one(tmp_path: Path, model: Path, people: Path) -> None:
    write_person(people / "again", pattern(1), range(100, 108))  # the very photographs
    told = refused(tmp_path / "out", model, people)
    assert "again and person001 seem to be one person" in told
    other = write_people(tmp_path / "other", range(2))
    write_person(other / "again", pattern(1), range(5_000, 5_008))  # other ones
    told = refused(tmp_path / "out", model, other)
    assert "again and person001 seem to be one person" in told


def test_person_whom_the_model_hides_already(tmp_path: Path, model: Path, people: Path) -> None:
    done = erase(model, people, out=tmp_path / "first", overrides=["threads=1"], say=lambda line: None)
    again = tmp_path / "again"
    write_person(again / "known", pattern(1), range(5_000, 5_004))
    told = refused(tmp_path / "out", done.files[0], again)
    assert f"The model hides known already, as {done.people[1].pseudonym}" in told


def test_model_that_does_not_know_people(tmp_path: Path, model: Path) -> None:
    """Each photograph shows another person, so that nobody's are alike."""
    people = tmp_path / "people"
    for number in range(24):
        write_person(people / f"person{number // 6}", pattern(600 + number), [number])
    told = refused(tmp_path / "out", model, people)
    assert "not compared by the cosine" in told
    assert "damnatio check" in told


def test_scores_that_spread_wider_than_assumed(tmp_path: Path) -> None:
    model = write_model(tmp_path / "narrow", dim=24)  # strangers' scores have a deviation of 0.2
    people = write_people(tmp_path / "people", range(5))
    told = refused(tmp_path / "out", model, people)
    assert "0.074 is assumed (defaults for cosine models)" in told
    assert "Give RETAIN" in told


def test_dimension_that_is_too_small(tmp_path: Path, people: Path) -> None:
    model = write_model(tmp_path / "tiny", dim=12)
    assert "have 12 dimensions" in refused(tmp_path / "out", model, people)


def test_gate_that_somebody_changed(tmp_path: Path, model: Path, people: Path) -> None:
    done = erase(model, people, out=tmp_path / "first", overrides=["threads=1"], say=lambda line: None)
    tensors = load_file(done.files[0])
    tensors["gate.offsets"] = tensors["gate.offsets"] + np.float32(0.1)
    changed = tmp_path / "changed.safetensors"
    save_file(tensors, changed)
    card = Card(backbone="blocks", dim=DIM, size=SIZE, sha256=digest_of(changed), map="GS")
    write_card(card, changed.with_name(f"{changed.name}.{CARD}"))
    told = refused(tmp_path / "out", changed, write_people(tmp_path / "more", [8]))
    assert "changed since" in told


def test_people_of_whom_nothing_can_be_used(tmp_path: Path, model: Path) -> None:
    people = tmp_path / "people"
    (people / "large").mkdir(parents=True)
    Image.new("RGB", (48, 48)).save(people / "large/0.png")
    (people / "empty").mkdir()
    told = refused(tmp_path / "out", model, people)
    assert "Nobody can be hidden, so nothing is written" in told
    assert "empty: no image in the folder" in told
    assert "48x48 is not 32x32" in told


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"embeddings": np.ones((2, DIM), np.float32)}, "has no array `names`"),
        ({"embeddings": np.ones((2, 7), np.float32), "names": np.array(["a", "b"])}, "vectors of 7 values"),
        ({"embeddings": np.ones((3, DIM), np.float32), "names": np.array(["a", "b"])}, "do not fit each other"),
        ({"embeddings": np.zeros((2, DIM), np.float32), "names": np.array(["a", "b"])}, "of a is zero or not finite"),
        ({"embeddings": np.ones((1, DIM), np.float32), "names": np.array([{}], dtype=object)}, "is no readable .npz"),
    ],
)
def test_gallery_that_is_none(
    tmp_path: Path, model: Path, people: Path, content: dict[str, NDArray[Any]], words: str
) -> None:
    gallery = tmp_path / "gallery.npz"
    np.savez(gallery, **content)  # type: ignore[arg-type]
    assert words in refused(tmp_path / "out", model, people, gallery=gallery)
    gallery.write_bytes(b"nothing")
    assert "is of no known kind" in refused(tmp_path / "out", model, people, gallery=gallery)


def test_words_that_contradict_each_other(tmp_path: Path, model: Path, people: Path) -> None:
    out = tmp_path / "out"
    assert "Say whom to forget" in refused(out, model)
    assert "give MODEL and --out alone" in refused(out, model, people, restore=["p-x"])
    assert "hides nobody" in refused(out, model, restore=["p-x"])
    assert "--goal 2" in refused(out, model, people, goal=2.0)
    assert "--strangers 0.7" in refused(out, model, people, strangers=0.7)
    assert "needs RETAIN" in refused(out, model, people, test=people)
    assert "There is no method 'XY'" in refused(out, model, people, method="XY")


def test_scores_that_spread_a_little_wider_than_assumed_are_a_warning(tmp_path: Path) -> None:
    model = write_model(tmp_path / "rather-narrow", dim=64)  # a deviation of 0.125
    people = write_people(tmp_path / "people", range(5))
    out = tmp_path / "out"
    done = erase(model, people, out=out, overrides=["threads=1"])
    assert done.record.exit_code == 3
    assert any("0.074 is assumed (defaults for cosine models)" in words for words in done.record.warnings)
