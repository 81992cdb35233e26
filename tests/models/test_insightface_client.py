"""The files that we write, in the hands of a real client: `make test-insightface`."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from damnatio.embedding import embed
from damnatio.evaluation.checking import Held
from damnatio.models.card import Card
from damnatio.models.exporting import export
from damnatio.models.gate import Gated
from damnatio.models.importing import import_model
from damnatio.recipe.schema import ModelSettings
from tests.models.gates import gate_around
from tests.models.onnx.world import exported, nudge, settled

PYTHON = os.environ.get("DAMNATIO_INSIGHTFACE_PYTHON", "")
CLIENT = Path(__file__).with_name("insightface_client.py")
pytestmark = pytest.mark.skipif(not PYTHON, reason="DAMNATIO_INSIGHTFACE_PYTHON names no interpreter with insightface")


def worst(backbone: nn.Module, card: Card, path: Path, folder: Path) -> float:
    """The largest difference between our unit embeddings and the client's."""
    images = np.random.default_rng(0).integers(0, 256, (4, card.size, card.size, 3), dtype=np.uint8)
    np.save(folder / "images.npy", images)
    command = [PYTHON, "-P", str(CLIENT), str(path), str(folder / "images.npy"), str(folder / "theirs.npy")]
    # -P: the script's folder, which has a package `onnx` of tests, is no place to import from
    alone = {**os.environ, "PYTHONPATH": ""}
    said = subprocess.run(command, capture_output=True, text=True, env=alone, check=False)
    assert said.returncode == 0, said.stderr
    ours = embed(backbone, card, Held(images), np.arange(4), 4)
    found = []
    for name in ("theirs.npy", "theirs-batch.npy"):
        theirs = np.load(folder / name)
        found.append(np.abs(ours - theirs / np.linalg.norm(theirs, axis=1, keepdims=True)).max())
    print(f"{said.stdout.strip().splitlines()[-1]}: largest difference {max(found):.1e}")
    return float(max(found))


@pytest.mark.parametrize("name", ["iresnet-tiny", "mbf"])
def test_exported_network_is_loaded_and_gives_our_embeddings(name: str, tmp_path: Path) -> None:
    network = settled(name, 112, 512)
    card = export(network, Card(backbone=name, dim=512, size=112), tmp_path / "f.onnx")
    assert worst(network, card, tmp_path / "f.onnx", tmp_path) < 1e-4


def test_altered_graph_takes_the_place_of_the_one_it_came_from(tmp_path: Path) -> None:
    exported("iresnet-tiny", 112, 512, tmp_path / "w600k.onnx", traced=True)
    network, card = import_model(ModelSettings(weights=tmp_path / "w600k.onnx"))
    before = worst(network, card, tmp_path / "w600k.onnx", tmp_path)
    nudge(network, 112, steps=3)
    apart = worst(network, card, tmp_path / "w600k.onnx", tmp_path)
    export(network, card, tmp_path / "altered.onnx")
    after = worst(network, card, tmp_path / "altered.onnx", tmp_path)
    assert before < 1e-4
    assert apart > 1e-3
    assert after < 1e-4


@pytest.mark.parametrize("traced", [True, False])
def test_graph_with_a_gate_is_loaded_and_hides_whom_it_holds(traced: bool, tmp_path: Path) -> None:
    """`traced` is InsightFace's own way to export, with operators of version 11. The first of the images is of a person
    in the gate."""
    exported("iresnet-tiny", 112, 512, tmp_path / "f.onnx", traced=traced)
    network, card = import_model(ModelSettings(weights=tmp_path / "f.onnx"))
    images = np.random.default_rng(0).integers(0, 256, (4, 112, 112, 3), dtype=np.uint8)
    units = torch.from_numpy(embed(network, card, Held(images), np.arange(4), 4))
    nearest = float((units @ units.T - 2 * torch.eye(4)).max())
    model = Gated(network, gate_around(units[:1], waves=2048, least=(1 + nearest) / 2))
    export(model, card, tmp_path / "altered.onnx")
    assert worst(model, card, tmp_path / "altered.onnx", tmp_path) < 1e-3
    found = torch.from_numpy(embed(model, card, Held(images), np.arange(4), 4))
    moved = F.cosine_similarity(found, units) < 0.9
    assert moved.tolist() == [True, False, False, False]
    theirs = np.load(tmp_path / "theirs.npy")
    worst(network, card, tmp_path / "f.onnx", tmp_path)
    before = np.load(tmp_path / "theirs.npy")
    assert np.array_equal(theirs[1:], before[1:])  # everybody else, bit for bit
