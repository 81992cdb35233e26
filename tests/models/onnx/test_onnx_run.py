"""A model that came as ONNX through the whole of a run, and out again in the place of the old one."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from damnatio.models.card import load_card
from damnatio.models.store import load_backbone
from damnatio.pipeline import Pipeline
from damnatio.recipe.files import load
from damnatio.workspace import Workspace
from tests.conftest import TINY
from tests.models.onnx.world import exported

pytestmark = pytest.mark.cli


def test_an_onnx_model_forgets_and_takes_its_old_place(tmp_path: Path) -> None:
    old = tmp_path / "w600k.onnx"
    exported("iresnet-tiny", 32, 32, old, traced=True)
    freeze = next(n.output[0] for n in onnx.load(old).graph.node if n.op_type == "Add" and "layer2" in n.output[0])
    altered = {}
    for part, words in {"whole": [], "tail": [f"forget.freeze={freeze}"]}.items():
        recipe = load("demo", [*TINY, f"model.weights={old}", "model.backbone=onnx", "forget.methods=[HD]", *words])
        assert (recipe.model.backbone, recipe.model.dim) == ("onnx", 32)
        with Workspace(tmp_path / "run", say=lambda line: None) as workspace:
            pipeline = Pipeline(recipe, workspace)
            original, altered[part] = pipeline.original().path, pipeline.altered("S1", "HD").path
            if part == "whole":
                pipeline.evaluation("S1", "HD")
    x = torch.rand(3, 3, 32, 32)
    ours = load_backbone(original)[0](x).detach()
    session = onnxruntime.InferenceSession(old, providers=["CPUExecutionProvider"])
    torch.testing.assert_close(
        torch.from_numpy(session.run(None, {"input.1": x.numpy()})[0]), ours, rtol=1e-3, atol=1e-3
    )
    before = {t.name: t for t in onnx.load(old).graph.initializer}
    for part, folder in altered.items():
        card, new = load_card(folder), onnx.load(folder / "model.onnx")
        assert card.parity is not None
        assert card.parity < 1e-5
        assert "w600k.onnx" in card.origin
        assert (new.graph.input, new.graph.output) == (onnx.load(old).graph.input, onnx.load(old).graph.output)
        session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
        (theirs,) = session.run(None, {"input.1": x.numpy()})
        assert np.abs(theirs - ours.numpy()).max() > 1e-3
        kept = [t.name for t in new.graph.initializer if t.name in before and _same(t, before[t.name])]
        assert bool(kept) == (part == "tail")


def _same(one: onnx.TensorProto, other: onnx.TensorProto) -> bool:
    return np.array_equal(onnx.numpy_helper.to_array(one), onnx.numpy_helper.to_array(other))
