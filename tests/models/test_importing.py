"""f* that comes from elsewhere: its weights as they are, fed as they were, with a head where there is none."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from damnatio.backbones.cutting import cut
from damnatio.embedding import embed
from damnatio.models.card import Card, load_card
from damnatio.models.exporting import export
from damnatio.models.importing import content_of, import_model, resolved
from damnatio.models.store import load_backbone, new_backbone, put_tensors, save_model
from damnatio.pipeline import Pipeline
from damnatio.recipe.files import load, model_settings
from damnatio.recipe.schema import ModelSettings
from damnatio.support.errors import DamnatioError
from damnatio.workspace import Workspace
from tests.assets import WEIGHTS, needs_weights
from tests.conftest import TINY


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run's folder and the folder of its f*."""
    run = tmp_path_factory.mktemp("trained")
    recipe = load("demo", [*TINY, "train.epochs=12"])
    with Workspace(run, say=lambda line: None) as workspace:
        return run, Pipeline(recipe, workspace).original().path


def imported(run: Path, *overrides: str) -> Path:
    """The f* of the same faces, imported."""
    recipe = load("demo", [*TINY, *overrides])
    with Workspace(run, say=lambda line: None) as workspace:
        return Pipeline(recipe, workspace).original().path


def tensors(backbone: str = "mobilefacenet", dim: int = 32) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    return {name: t.contiguous() for name, t in new_backbone(backbone, 32, dim).state_dict().items()}


def settings(path: Path, **more: object) -> ModelSettings:
    return ModelSettings.model_validate({"backbone": "mobilefacenet", "dim": 32, "weights": path, **more})


@pytest.mark.cli
def test_weights_are_taken_as_they_are_and_nothing_is_trained(trained: tuple[Path, Path], tmp_path: Path) -> None:
    run, _ = trained
    save_file(tensors(), tmp_path / "mine.safetensors")
    words = [f"model.weights={tmp_path / 'mine.safetensors'}", "model.backbone=mobilefacenet", "model.colour=BGR"]
    folder = imported(run, *words, "model.mean=100", "model.deviation=50")
    ours = load_file(folder / "model.safetensors")
    assert ours.keys() == tensors().keys()
    assert all(torch.equal(ours[name], tensor) for name, tensor in tensors().items())
    card = load_card(folder)
    assert (card.backbone, card.colour, card.mean, card.deviation) == ("mobilefacenet", "BGR", 100, 50)
    assert card.origin.startswith("mine.safetensors")
    assert not (folder / "metrics.jsonl").exists()


@pytest.mark.cli
def test_head_rows_are_the_normalised_means_of_the_retain_embeddings(
    trained: tuple[Path, Path], tmp_path: Path
) -> None:
    run, _ = trained
    save_file(tensors(), tmp_path / "mine.safetensors")
    folder = imported(run, f"model.weights={tmp_path / 'mine.safetensors'}", "model.backbone=mobilefacenet")
    with Workspace(run, say=lambda line: None) as workspace:
        pipeline = Pipeline(load("demo", TINY), workspace)
        faces, table = pipeline.images(pipeline.faces()), pipeline._table(pipeline.partitions()).table
    head = load_file(folder / "head.safetensors")["weight"]
    backbone, card = load_backbone(folder)
    for label in (0, 7, 23):
        rows = np.flatnonzero((table["partition"] == "R") & (table["label"] == label))
        units = torch.from_numpy(embed(backbone, card, faces, table["row"][rows].astype(np.int64), 16))
        torch.testing.assert_close(head[label], F.normalize(units.sum(dim=0), dim=0))
    assert len(head) == 24


@pytest.mark.cli
def test_model_folder_of_another_run_is_imported_with_its_card_and_its_head(
    trained: tuple[Path, Path], tmp_path: Path
) -> None:
    run, original = trained
    copy = shutil.copytree(original, tmp_path / "model", ignore=shutil.ignore_patterns("stage.json"))
    card = json.loads((copy / "card.json").read_text())
    (copy / "card.json").write_text(json.dumps({**card, "mean": 120.0}))
    folder = imported(run, f"model.weights={copy}")
    assert load_card(folder).mean == 120.0
    theirs, ours = (load_file(path / "head.safetensors")["weight"] for path in (original, folder))
    assert torch.equal(theirs, ours)


@pytest.mark.cli
def test_head_of_other_people_is_refused(trained: tuple[Path, Path], tmp_path: Path) -> None:
    run, original = trained
    copy = shutil.copytree(original, tmp_path / "model", ignore=shutil.ignore_patterns("stage.json"))
    head = load_file(copy / "head.safetensors")["weight"]
    for other in (head.roll(1, dims=0).contiguous(), head[:20].contiguous()):
        save_file({"weight": other}, copy / "head.safetensors")
        with pytest.raises(DamnatioError, match=r"not those of the 24 retain identities here: put"):
            imported(run, f"model.weights={copy}")


def test_another_file_is_another_output_and_another_place_is_not(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save_file(tensors(), tmp_path / name / "mine.safetensors")
    first, second = (settings(tmp_path / name / "mine.safetensors") for name in ("a", "b"))
    assert content_of(first) == content_of(second)
    changed = tensors() | {"bn.bias": torch.ones(32)}
    save_file(changed, tmp_path / "b" / "mine.safetensors")
    assert content_of(first) != content_of(second)
    before = content_of(first)
    save_file({"weight": torch.ones(3, 32)}, tmp_path / "a" / "head.safetensors")
    assert content_of(first) != before


def test_what_does_not_fit_is_reported_in_one_sentence(tmp_path: Path) -> None:
    given = tensors()
    for name in [name for name in given if name.startswith("conv_5.")]:
        given["module." + name] = given.pop(name)
    given["bn.weight"] = torch.ones(7)
    with pytest.raises(DamnatioError) as told:
        put_tensors(new_backbone("mobilefacenet", 32, 32), given, Path("x.safetensors"))
    text = str(told.value)
    assert text.startswith(
        "x.safetensors does not fit the network: 40 tensors are missing: conv_5.model.0.conv.conv.weight, "
    )
    assert "; 40 tensors are foreign: module.conv_5.model.0.conv.conv.weight, " in text
    assert text.count(", ...") == 2
    assert text.endswith("1 tensors are of another shape: bn.weight (7 for 32). Check model.backbone and model.dim.")


@pytest.mark.parametrize("name", ["absent.safetensors", "mine.tflite", "broken.safetensors"])
def test_file_that_is_no_model_is_reported(tmp_path: Path, name: str) -> None:
    for file in ("mine.tflite", "broken.safetensors"):
        (tmp_path / file).write_text("no model")
    with pytest.raises(DamnatioError, match=name):
        import_model(settings(tmp_path / name), 32)


@pytest.mark.cli
def test_card_that_contradicts_the_recipe_is_reported(trained: tuple[Path, Path]) -> None:
    _, original = trained
    with pytest.raises(DamnatioError, match=r"of backbone iresnet-tiny, and the recipe says mobilefacenet: set"):
        import_model(settings(original), 32)
    with pytest.raises(DamnatioError, match=r"takes images of 32 pixels, and the faces have 48: set faces.size=32"):
        import_model(ModelSettings(backbone="iresnet-tiny", dim=32, weights=original), 48)


@needs_weights
def test_recipe_for_real_faces_imports_the_published_network_and_cuts_it() -> None:
    recipe = load("lfw-mobilefacenet", [f"model.weights={WEIGHTS}"])
    network, card = import_model(recipe.model, recipe.faces.size)
    assert (card.colour, card.mean, card.deviation, card.size, card.dim) == ("BGR", 127.5, 128.0, 112, 512)
    pixels = np.random.default_rng(0).integers(0, 256, (2, 112, 112, 3), dtype=np.uint8)
    bgr = (torch.from_numpy(pixels[..., ::-1].copy()).permute(0, 3, 1, 2).float() - 127.5) / 128
    x = card.prepare(pixels, torch.device("cpu"))
    torch.testing.assert_close(x, bgr)
    assert recipe.forget.freeze is not None
    trunk, tail = cut(network, recipe.forget.freeze)
    with torch.no_grad():
        kept = trunk(x)
        assert kept.shape == (2, 128, 14, 14)
        rounded, whole = tail(kept.half().float()), network(x)
    assert F.cosine_similarity(rounded, whole).min() > 0.9999


@pytest.mark.parametrize("backbone", ["iresnet-tiny", "vit-tiny", "mobilefacenet"])
def test_weights_for_another_size_are_reported_with_both_sizes(tmp_path: Path, backbone: str) -> None:
    """Without a card the tensors alone say what the network takes."""
    torch.save(new_backbone(backbone, 112, 64).state_dict(), tmp_path / "f.pth")
    settings = ModelSettings(weights=tmp_path / "f.pth")
    with pytest.raises(DamnatioError) as told:
        import_model(settings, 64)
    assert "f.pth takes images of 112 pixels, and the faces have 64: set faces.size=112, and faces.resize=true" in str(
        told.value
    )
    _, card = import_model(settings)
    assert (card.backbone, card.dim, card.size) == (backbone, 64, 112)


def test_weights_for_an_unusual_size_are_taken_where_nothing_says_another(tmp_path: Path) -> None:
    torch.save(new_backbone("iresnet-tiny", 160, 64).state_dict(), tmp_path / "f.pth")
    assert import_model(ModelSettings(weights=tmp_path / "f.pth"))[1].size == 160


def test_onnx_model_of_another_size_is_reported_with_both_sizes(tmp_path: Path) -> None:
    from tests.models.onnx.world import exported

    exported("iresnet-tiny", 48, 16, tmp_path / "f.onnx", traced=False)
    with pytest.raises(DamnatioError, match=r"takes images of 48 pixels, and the faces have 32: set faces.size=48"):
        import_model(ModelSettings(weights=tmp_path / "f.onnx"), 32)


def test_exported_graph_is_imported_as_a_graph_whatever_its_card_says(tmp_path: Path) -> None:
    """The card of an exported network names the backbone that it was, and the file holds a graph."""
    backbone = new_backbone("iresnet-tiny", 32, 16).eval()
    export(backbone, Card(backbone="iresnet-tiny", dim=16, size=32), tmp_path / "tiny.onnx")
    settings = model_settings(tmp_path / "tiny.onnx")
    assert resolved(settings).backbone == "onnx"
    network, card = import_model(settings)
    assert card.backbone == "onnx"
    folder = tmp_path / "kept"
    folder.mkdir()
    save_model(network, None, card, folder)
    assert load_backbone(folder)[1].backbone == "onnx"
