"""`damnatio benchmark`: its numbers recomputed image by image, its score file, its sources and its sentences."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from damnatio.cli.main import main
from damnatio.evaluation.score_files import read_scores
from damnatio.metrics.benchmarks import ten_fold, ten_fold_on_grid
from damnatio.metrics.verification import acceptance_rate, threshold_at
from damnatio.models.card import Card
from damnatio.models.store import load_backbone, new_backbone, save_model

pytestmark = pytest.mark.cli


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that was never trained: colours alone tell the people of `face_folder` apart."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    save_model(new_backbone("iresnet-tiny", 32, 16), None, Card(backbone="iresnet-tiny", dim=16, size=32), folder)
    return folder


def run(words: list[str | Path], folder: Path) -> dict[str, Any]:
    assert main(["benchmark", *map(str, words), "--json", str(folder / "result.json")]) == 0
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def naive_unit(network: nn.Module, card: Card, path: Path, flip: bool = True) -> NDArray[np.float64]:
    pixels = np.asarray(Image.open(path).convert("RGB"))
    views = [pixels, pixels[:, ::-1]] if flip else [pixels]
    with torch.no_grad():
        raw = sum(network(card.prepare(view[None].copy(), torch.device("cpu")))[0] for view in views)
    unit: NDArray[np.float64] = np.asarray(raw, dtype=np.float64)
    return unit / np.linalg.norm(unit)


def test_a_folder_is_measured_as_image_by_image(tmp_path: Path, model: Path, face_folder: Path) -> None:
    Image.fromarray(np.full((32, 32, 3), 99, np.uint8)).save(face_folder / "alone.png")  # of nobody: left out, by name
    (face_folder / "single").mkdir()
    Image.fromarray(np.full((32, 32, 3), 99, np.uint8)).save(face_folder / "single/0.png")
    (face_folder / "single/1.png").write_bytes(b"no image")
    result = run([model, face_folder, "--draw-pairs", "200", "--batch", "50"], tmp_path)
    assert (result["images"], result["identities"]) == (281, 41)
    assert list(result["skipped"]) == ["alone.png", "single/1.png"]

    network, card = load_backbone(model)
    paths = sorted(set(face_folder.glob("*/*.png")) - {face_folder / "single/1.png"})
    units = np.stack([naive_unit(network, card, path) for path in paths])
    people = [path.parent.name for path in paths]
    scores = units @ units.T
    hits, precisions, ranks = [], [], []
    for query, person in enumerate(people):
        order = sorted((i for i in range(281) if i != query), key=lambda i: -scores[query, i])
        right = [place for place, i in enumerate(order, start=1) if people[i] == person]
        if right:
            hits.append(right[0] == 1)
            precisions.append(np.mean([(k + 1) / place for k, place in enumerate(right)]))
        first = {name: people.index(name) for name in people}
        if query != first[person]:
            ranks.append(1 + sum(scores[query, i] > scores[query, first[person]] for i in first.values()))
    found = result["retrieval"]
    assert found["recall_at_1"] == pytest.approx(np.mean(hits))
    assert found["mean_average_precision"] == pytest.approx(np.mean(precisions), abs=1e-4)
    assert (found["queries"], found["left_out"]) == (280, 1)
    assert (result["cmc"]["gallery"], result["cmc"]["probes"]) == (41, 240)
    for rank, share in result["cmc"]["ranks"].items():
        assert share == pytest.approx(np.mean([r <= int(rank) for r in ranks]))
    centroids = {name: units[[p == name for p in people]].mean(axis=0) for name in people if name != "single"}
    known = [(u, centroids[p]) for u, p in zip(units, people, strict=True) if p in centroids]
    cosines = [unit @ centroid / np.linalg.norm(centroid) for unit, centroid in known]
    assert found["compactness"] == pytest.approx(np.mean(cosines), abs=1e-6)


def test_the_score_file_holds_what_the_rates_come_from(
    tmp_path: Path, model: Path, face_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("scores.csv", "scores.txt"):
        result = run([model, face_folder, "--draw-pairs", "400", "--scores", tmp_path / name], tmp_path)
        file = read_scores(tmp_path / name)
        assert len(file.scores) == 400
        assert file.mated.sum() == result["pairs"]["same"] == 200
        exact = ten_fold(file.scores, file.mated)
        assert result["accuracy"]["folds"] == exact.accuracies.tolist()
        assert result["accuracy"]["mean"] == exact.mean
        assert result["accuracy_on_grid"]["mean"] == ten_fold_on_grid(file.scores, file.mated).mean
        point = result["verification"][0]
        threshold = threshold_at(file.scores[~file.mated], 1e-3)
        assert (point["target_fmr"], point["threshold"], point["errors"]) == (1e-3, threshold, 0)
        assert point["tmr"] == acceptance_rate(file.scores[file.mated], threshold)
    text = capsys.readouterr().out
    assert "200 same, 200 different, drawn with seed 1" in text
    assert "TMR@FMR=0.001" in text
    assert "0 errors in 200" in text
    assert "FMR = 0.0001" in text, "too few comparisons are told"


def test_pairs_of_a_csv_list(tmp_path: Path, model: Path, face_folder: Path) -> None:
    listed = [(f"person{i:02d}/0.png", f"person{i + (i % 2):02d}/1.png", 1 - i % 2) for i in range(20)]
    lines = ["image_a,image_b,same", *(f"{a},{b},{same}" for a, b, same in listed)]
    (tmp_path / "pairs.csv").write_text("\n".join(lines) + "\n")
    words: list[str | Path] = [model, face_folder, "--pairs", tmp_path / "pairs.csv", "--no-flip"]
    result = run([*words, "--scores", tmp_path / "s.csv"], tmp_path)
    network, card = load_backbone(model)
    naive = [
        naive_unit(network, card, face_folder / a, flip=False) @ naive_unit(network, card, face_folder / b, flip=False)
        for a, b, _ in listed
    ]
    file = read_scores(tmp_path / "s.csv")
    assert file.scores == pytest.approx(np.array(naive), abs=1e-5)
    assert file.mated.tolist() == [bool(same) for _, _, same in listed]
    assert file.probe_subjects[1] == "person02"
    assert "retrieval" not in result
    assert result["images"] == len({name for a, b, _ in listed for name in (a, b)})


def test_labels_that_folders_do_not_tell_are_kept_in_the_score_file(
    tmp_path: Path, model: Path, face_folder: Path
) -> None:
    """Two folders of one person, say: what the list says stands."""
    labels = [True, False] * 6
    lines = [f"person{i:02d}/0.png,person{i + 1:02d}/0.png,{int(same)}" for i, same in enumerate(labels)]
    (tmp_path / "pairs.csv").write_text("\n".join(["image_a,image_b,same", *lines]))
    run([model, face_folder, "--pairs", tmp_path / "pairs.csv", "--scores", tmp_path / "s.csv"], tmp_path)
    file = read_scores(tmp_path / "s.csv")
    assert file.mated.tolist() == labels
    assert file.probes is not None
    assert file.probes[3] == "person04/0.png"


def test_lfws_list_names_images_by_number(tmp_path: Path, model: Path, face_folder: Path) -> None:
    for image in face_folder.glob("*/*.png"):
        image.rename(image.with_name(f"{image.parent.name}_{int(image.stem) + 1:04d}.png"))
    lines = [f"person{i:02d}\t1\t7\nperson{i:02d}\t2\tperson{i + 1:02d}\t3" for i in range(12)]
    (tmp_path / "pairs.txt").write_text("\n".join(["12\t1", *lines]))
    result = run([model, face_folder, "--pairs", tmp_path / "pairs.txt"], tmp_path)
    assert len(result["accuracy"]["folds"]) == 12
    assert (result["pairs"]["same"], result["pairs"]["different"]) == (12, 12)


def stand_in(monkeypatch: pytest.MonkeyPatch, images: list[bytes], same: list[bool]) -> None:
    module = ModuleType("damnatio.faces.pairs_bin")
    module.read_pairs = lambda path: (images, same)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "damnatio.faces.pairs_bin", module)


def test_pairs_of_a_bin_file(tmp_path: Path, model: Path, face_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture and its mirror image are one: f(x) + f(x mirrored) does not know which is which."""
    (tmp_path / "mirrored").mkdir()
    contents = []
    for i in range(10):
        picture = Image.open(face_folder / f"person{i:02d}/0.png")
        other = picture if i % 2 else Image.open(face_folder / f"person{i + 20:02d}/1.png")
        for number, image in enumerate((picture, other.transpose(Image.Transpose.FLIP_LEFT_RIGHT))):
            path = tmp_path / f"mirrored/{i}-{number}.png"
            image.save(path)
            contents.append(path.read_bytes())
    labels = [bool(i % 2) for i in range(10)]
    stand_in(monkeypatch, contents, labels)
    (tmp_path / "pairs.bin").touch()
    result = run([model, tmp_path / "pairs.bin", "--scores", tmp_path / "s.csv"], tmp_path)
    file = read_scores(tmp_path / "s.csv")
    assert file.mated.tolist() == labels
    assert file.scores[file.mated] == pytest.approx(np.ones(5), abs=1e-6)
    assert result["accuracy"]["mean"] >= 0.9  # the strictest threshold of nine folds may miss a one by a last digit
    assert result["verification"][0]["tmr"] == 1

    stand_in(monkeypatch, [*contents[:-1], b"no image"], labels)
    assert main(["benchmark", str(model), str(tmp_path / "pairs.bin")]) == 2
    stand_in(monkeypatch, contents[:8], labels[:4])
    assert main(["benchmark", str(model), str(tmp_path / "pairs.bin")]) == 2


def test_a_folder_of_too_few_people_still_gives_retrieval(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for person in ("a", "b"):
        (tmp_path / "faces" / person).mkdir(parents=True)
        Image.fromarray(np.full((32, 32, 3), ord(person), np.uint8)).save(tmp_path / f"faces/{person}/0.png")
    result = run([model, tmp_path / "faces"], tmp_path)
    assert "accuracy" not in result
    assert result["retrieval"]["recall_at_1"] is None, "a rate of nothing is null"
    assert "10 folds need at least two people" in capsys.readouterr().out
    assert main(["benchmark", str(model), str(tmp_path / "faces"), "--scores", str(tmp_path / "s.csv")]) == 2
    assert "too few people" in capsys.readouterr().err


def test_mistakes_get_one_sentence(
    tmp_path: Path, model: Path, face_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "large/x").mkdir(parents=True)
    Image.fromarray(np.zeros((40, 40, 3), np.uint8)).save(tmp_path / "large/x/0.png")
    (tmp_path / "card").mkdir()
    (tmp_path / "card/card.json").write_text('{"backbone": "iresnet-tiny"}')
    lines = ["image_a,image_b,same", *["x/0.png,x/0.png,1"] * 10]
    (tmp_path / "large.csv").write_text("\n".join(lines))
    (tmp_path / "pairs.csv").write_text("image_a,image_b,same\nnobody/0.png,person01/0.png,1\n")
    mistakes: list[tuple[list[Path | str], str]] = [
        ([tmp_path, face_folder], "model.weights: there is no file"),
        ([tmp_path / "card", face_folder], "model.weights: there is no file"),
        ([model, tmp_path / "nothing"], "There is no folder or file"),
        ([model, tmp_path / "large"], "gave no readable image: 40x40, and the model takes 32x32"),
        (
            [model, tmp_path / "large", "--pairs", tmp_path / "large.csv"],
            "the image x/0.png cannot be used: 40x40, and",
        ),
        ([model, face_folder, "--pairs", tmp_path / "pairs.csv"], "line 2: there is no image nobody/0.png"),
        ([model, tmp_path / "pairs.csv", "--pairs", tmp_path / "pairs.csv"], "--pairs names images of a folder"),
    ]
    for words, sentence in mistakes:
        assert main(["benchmark", *map(str, words)]) == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert error.count("\n") == 1
