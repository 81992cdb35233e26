"""A gate in an ONNX file: it computes what torch computes, leaves everybody else's bits alone, and comes off again."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper
from torch import Tensor
from torch.nn import functional as F

from damnatio.models.card import Card
from damnatio.models.exporting import export
from damnatio.models.gate import EmbeddingMap, Gate, Gated, ungated
from damnatio.models.importing import adopt, import_model
from damnatio.models.onnx import files
from damnatio.models.onnx.files import parity_of, read_graph, read_network, write_network
from damnatio.models.onnx.gate_nodes import OWN, append_gate, gate_alone, probes, take_gate
from damnatio.models.store import load_backbone, save_model
from damnatio.recipe.schema import ModelSettings
from damnatio.support.errors import DamnatioError
from tests.models.gates import gate_around, member, units
from tests.models.onnx.world import exported, settled, small_model

SIZE, DIM = 8, 6
RNG = np.random.default_rng(0)
OPSETS = [9, 10, 11, 12, 13, 15, 17, 18, 20, 21]


def network(opset: int, *, normalised: bool = False, batch: Any = "N", single: bool = False) -> onnx.ModelProto:
    """A graph by hand. `normalised`: it ends in unit vectors; `single`: its shapes state a batch of one."""
    nodes = [helper.make_node("Conv", ["x", "K"], ["a"]), helper.make_node("Identity", ["a"], ["b"])]
    flat = {"shape": np.array([1, -1], np.int64)} if single else {}
    nodes += [
        helper.make_node("Reshape", ["b", "shape"], ["c"]) if single else helper.make_node("Flatten", ["b"], ["c"])
    ]
    last = "raw" if normalised else "out"
    nodes += [helper.make_node("Gemm", ["c", "W", "C"], [last], transB=1)]
    if normalised:
        nodes += [helper.make_node("LpNormalization", ["raw"], ["out"], axis=1, p=2)]
    tensors = {
        "K": np.asarray(RNG.normal(size=(2, 3, 5, 5)), np.float32),
        "W": np.asarray(RNG.normal(size=(DIM, 32)), np.float32),
        "C": np.asarray(RNG.normal(size=DIM), np.float32),
    }
    return small_model(nodes, {**tensors, **flat}, shape=(batch, 3, SIZE, SIZE), opset=opset)


def images(count: int = 5) -> Tensor:
    return torch.rand(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1)) * 2 - 1


def run(model: onnx.ModelProto | Path, x: Tensor) -> Tensor:
    """onnxruntime's embeddings, one image at a time."""
    content = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return torch.cat([torch.from_numpy(session.run(None, {name: one[None].numpy()})[0]) for one in x])


def with_gate(model: onnx.ModelProto, gate: Gate) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    append_gate(copy, gate)
    return copy


def around_first(model: onnx.ModelProto | Path, x: Tensor) -> tuple[Gate, Tensor]:
    """A gate around the first image's embedding, and all embeddings before it."""
    before = run(model, x)
    return gate_around(F.normalize(before[:1], dim=1)), before


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("normalised", [False, True])
def test_gate_computes_what_torch_does_and_passes_everybody_else(opset: int, normalised: bool) -> None:
    model = network(opset, normalised=normalised)
    x = images()
    gate, before = around_first(model, x)
    altered = with_gate(model, gate)
    after = run(altered, x)
    assert (altered.graph.input, altered.graph.output) == (model.graph.input, model.graph.output)
    assert (altered.opset_import, altered.ir_version) == (model.opset_import, model.ir_version)
    inside = gate.opening(F.normalize(before, dim=1))[:, 0] > 0
    assert inside[0]
    assert not inside.all()
    assert torch.equal(after[~inside], before[~inside])  # bit for bit
    torch.testing.assert_close(after, gate(before), rtol=1e-4, atol=1e-4 * float(before.norm(dim=1).max()))
    torch.testing.assert_close(after.norm(dim=1), before.norm(dim=1), rtol=1e-4, atol=1e-5)
    assert F.cosine_similarity(after[:1], before[:1]) < 0.9


@pytest.mark.parametrize("opset", OPSETS)
def test_gate_alone_agrees_with_torch_on_its_ramp_and_within(opset: int) -> None:
    gate = gate_around(units(40, 32, 3), waves=512)
    raw = probes(gate)
    g = gate.opening(F.normalize(raw, dim=1))[:, 0]
    assert ((g > 0) & (g < 1)).sum() >= 32
    assert (g == 0).sum() >= 16
    assert (g == 1).sum() >= 16
    onnx.checker.check_model(gate_alone(gate, opset), full_check=True)
    session = onnxruntime.InferenceSession(gate_alone(gate, opset).SerializeToString())
    (theirs,) = session.run(None, {f"{OWN}raw": raw.numpy()})
    torch.testing.assert_close(torch.from_numpy(theirs), gate(raw), rtol=0, atol=1e-4 * float(raw.norm(dim=1).max()))
    assert np.array_equal(theirs[g.numpy() == 0], raw.numpy()[g.numpy() == 0])


def test_embeddings_of_no_length_pass() -> None:
    gate = gate_around(units(3, 8, 3))
    nothing = torch.zeros(2, 8)
    session = onnxruntime.InferenceSession(gate_alone(gate, 17).SerializeToString())
    assert torch.equal(gate(nothing), nothing)
    assert np.array_equal(session.run(None, {f"{OWN}raw": nothing.numpy()})[0], nothing.numpy())


def test_embeddings_that_are_no_numbers_open_the_gate_for_nobody_and_shut_it_for_nobody() -> None:
    gate = gate_around(units(3, 8, 3))
    raw = torch.cat([torch.full((1, 8), torch.nan), gate.directions[:1], torch.zeros(1, 8)])
    session = onnxruntime.InferenceSession(gate_alone(gate, 17).SerializeToString())
    for found in (gate(raw), torch.from_numpy(session.run(None, {f"{OWN}raw": raw.numpy()})[0])):
        assert found[0].isnan().all()
        assert F.cosine_similarity(found[1:2], raw[1:2]) < 0.9
        assert torch.equal(found[2], raw[2])
    assert session.run(None, {f"{OWN}raw": raw[:0].numpy()})[0].shape == (0, 8)
    assert gate(raw[:0]).shape == (0, 8)


@pytest.mark.parametrize("opset", [9, 11, 17, 18])
def test_gate_comes_off_and_leaves_the_old_file(opset: int) -> None:
    model = network(opset, normalised=True)
    gate, _ = around_first(model, images())
    altered = with_gate(model, gate)
    found = take_gate(altered, Path("f.onnx"))
    assert found is not None
    assert found.record == gate.record
    assert all(torch.equal(a, b) for a, b in zip(found.buffers(), gate.buffers(), strict=True))
    assert altered.SerializeToString(deterministic=True) == model.SerializeToString(deterministic=True)
    assert take_gate(altered, Path("f.onnx")) is None


@pytest.mark.parametrize("normalised", [False, True])
def test_shapes_of_the_one_image_that_was_traced_do_not_bind_the_altered_file(normalised: bool, tmp_path: Path) -> None:
    """InsightFace's files are so: any batch goes in, and every inner value and the output state a batch of one."""
    old, new, x = tmp_path / "old.onnx", tmp_path / "new.onnx", images(33)
    model = onnx.shape_inference.infer_shapes(network(11, normalised=normalised, batch=1))
    assert len(model.graph.value_info) >= 3
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_value == 1
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "None"
    onnx.save(model, old)
    gate, before = around_first(old, x)
    plain, card = import_model(ModelSettings(weights=old), SIZE)
    export(Gated(plain, gate), card, new)
    assert onnx.load(new).graph.output[0].type.tensor_type.shape.dim[0].dim_param == "None"
    levels = onnxruntime.GraphOptimizationLevel
    for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        session = onnxruntime.InferenceSession(new, options, providers=["CPUExecutionProvider"])
        for batch in (1, 4, 33):
            (found,) = session.run(None, {"x": x[:batch].numpy()})
            assert F.cosine_similarity(torch.from_numpy(found[:1]), before[:1]) < 0.9
            np.testing.assert_allclose(found[1:], before[1:batch], rtol=1e-4, atol=1e-4)
    export(plain, card, tmp_path / "again.onnx")
    altered = onnx.load(new)
    assert take_gate(altered, new) is not None
    assert altered == model == onnx.load(tmp_path / "again.onnx")


@pytest.mark.parametrize("sides", [["N"], ["N", 1]])
def test_a_second_output_says_what_it_said_before(sides: list[Any], tmp_path: Path) -> None:
    """As AdaFace's: the unit vector, and the length that the raw one had."""
    model, x = network(13, normalised=True), images()
    model.graph.node.append(helper.make_node("ReduceL2", ["raw"], ["length"], axes=[1], keepdims=len(sides) - 1))
    model.graph.output.append(helper.make_tensor_value_info("length", 1, sides))
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    onnx.save(model, old)
    gate, before = around_first(old, x)
    plain, card = import_model(ModelSettings(weights=old), SIZE)
    export(Gated(plain, gate), card, new)
    (hidden, length), (_, kept) = (
        onnxruntime.InferenceSession(path).run(None, {"x": x.numpy()}) for path in (new, old)
    )
    assert np.array_equal(length, kept)
    assert F.cosine_similarity(torch.from_numpy(hidden[:1]), before[:1]) < 0.9
    np.testing.assert_allclose(hidden[1:], before[1:], rtol=1e-5, atol=1e-6)
    again, card = import_model(ModelSettings(weights=new), SIZE)
    export(ungated(again)[0], card, tmp_path / "again.onnx")
    assert onnx.load(tmp_path / "again.onnx") == onnx.load(old)


def test_nothing_that_is_appended_needs_control_flow() -> None:
    for opset in OPSETS:
        altered = with_gate(network(opset), gate_around(units(2, DIM, 4)))
        assert {"If", "Loop", "Scan"}.isdisjoint(node.op_type for node in altered.graph.node)


def test_a_gate_in_a_branch_is_read_extended_and_taken_off(tmp_path: Path) -> None:
    """An earlier version wrote the file, with the scatter in the branch of an `If`."""
    old = Path(__file__).with_name("gate-in-a-branch.onnx")
    assert [node.op_type for node in onnx.load(old).graph.node].count("If") == 1
    model, card = import_model(ModelSettings(weights=old), SIZE)
    assert isinstance(model, Gated)
    assert isinstance(model.gate, Gate)
    export(model, card, tmp_path / "new.onnx")
    export(Gated(model.network, model.gate.extended([member(units(1, DIM, 5))])), card, tmp_path / "more.onnx")
    for name, people in (("new", 1), ("more", 2)):
        assert "If" not in [node.op_type for node in onnx.load(tmp_path / f"{name}.onnx").graph.node]
        assert len(read_graph(tmp_path / f"{name}.onnx").gate.record.people) == people  # type: ignore[union-attr]
    x = images()
    assert torch.equal(run(old, x), run(tmp_path / "new.onnx", x))
    export(model.network, card, tmp_path / "plain.onnx")
    shut = model.gate.opening(F.normalize(run(tmp_path / "plain.onnx", x), dim=1))[:, 0] == 0
    assert shut.tolist() == [False, True, True, True, True]
    assert torch.equal(run(old, x)[shut], run(tmp_path / "plain.onnx", x)[shut])


def test_a_written_file_that_takes_one_image_alone_is_no_written_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(network(13), tmp_path / "f.onnx")
    plain, card = import_model(ModelSettings(weights=tmp_path / "f.onnx"), SIZE)

    def for_one_image(model: onnx.ModelProto, gate: Gate) -> None:
        append_gate(model, gate)
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1

    monkeypatch.setattr(files, "append_gate", for_one_image)
    with pytest.raises(DamnatioError, match=r"onnxruntime cannot run it on 4 images at once"):
        export(Gated(plain, gate_around(units(1, DIM, 0))), card, tmp_path / "new.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["f.onnx"]


def test_graphs_traced_for_one_image_take_a_gate(tmp_path: Path) -> None:
    path, x = tmp_path / "f.onnx", images()
    model = network(11, single=True)
    gate, before = around_first(model, x)
    onnx.save(with_gate(model, gate), path)
    found = read_graph(path)
    assert found.network.one_by_one
    assert found.parity < 1e-4
    with torch.inference_mode():
        torch.testing.assert_close(found.model(x), run(path, x), rtol=1e-4, atol=1e-3)
    assert torch.equal(run(path, x[-1:]), before[-1:])


@pytest.mark.cli
@pytest.mark.parametrize("traced", [True, False])
def test_an_altered_file_is_read_changed_and_written_again_with_one_gate(traced: bool, tmp_path: Path) -> None:
    old, new, newer = (tmp_path / f"{name}.onnx" for name in ("old", "new", "newer"))
    exported("iresnet-tiny", 32, 16, old, traced=traced)
    x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(2)) * 2 - 1
    gate, before = around_first(old, x)
    plain, card = import_model(ModelSettings(weights=old), 32)
    written = export(Gated(plain, gate), card, new)
    assert (written.map, written.backbone) == ("GS", "onnx")
    assert written.parity is not None
    assert written.parity < 1e-4
    again, read = import_model(ModelSettings(weights=new), 32)
    assert read.map == "GS"
    assert isinstance(again, Gated)
    assert isinstance(again.gate, Gate)
    assert again.gate.record == gate.record
    more = again.gate.extended([member(F.normalize(before[1:2], dim=1))])
    export(Gated(again.network, more), read, newer)
    counts = [sum(node.name.startswith(OWN) for node in onnx.load(path).graph.node) for path in (old, new, newer)]
    assert counts == [0, 20, 20]
    assert len(read_graph(newer).gate.record.people) == 2  # type: ignore[union-attr]
    shut = more.opening(F.normalize(before, dim=1))[:, 0] == 0
    assert torch.equal(run(newer, x)[shut], before[shut])
    export(again.network, read, new)  # the gate is taken off: the old file is back
    assert torch.equal(run(new, x), before)
    assert import_model(ModelSettings(weights=new), 32)[1].map == ""


@pytest.mark.cli
def test_a_folder_of_a_graph_holds_the_gate_in_the_graph(tmp_path: Path) -> None:
    onnx.save(network(13), tmp_path / "f.onnx")
    plain, card = import_model(ModelSettings(weights=tmp_path / "f.onnx"), SIZE)
    gate, _ = around_first(tmp_path / "f.onnx", images())
    folder = tmp_path / "model"
    folder.mkdir()
    save_model(Gated(plain, gate), None, card, folder)
    assert sorted(path.name for path in folder.iterdir()) == ["card.json", "model.onnx"]
    again, read = load_backbone(folder)
    assert isinstance(again, Gated)
    assert read.map == "GS"
    with torch.inference_mode():
        torch.testing.assert_close(again(images()), run(folder / "model.onnx", images()), rtol=1e-4, atol=1e-3)


@pytest.mark.cli
def test_a_network_that_is_no_graph_goes_to_onnx_with_its_gate(tmp_path: Path) -> None:
    plain, path, x = settled("iresnet-tiny", 32, 16), tmp_path / "f.onnx", torch.rand(3, 3, 32, 32)
    with torch.inference_mode():
        before = plain(x)
    model = Gated(plain, gate_around(F.normalize(before[:1], dim=1)))
    card = export(model, Card(backbone="iresnet-tiny", dim=16, size=32), path)
    assert card.map == "GS"
    with torch.inference_mode():
        torch.testing.assert_close(run(path, x), model(x), rtol=1e-3, atol=1e-3)
    found = read_graph(path)
    assert found.gate is not None
    folder = tmp_path / "own"
    assert adopt(model, Card(backbone="", dim=16, size=32), folder).map == "GS"
    assert isinstance(load_backbone(folder)[0], Gated)


def test_parity_sees_what_happens_within_a_gate(tmp_path: Path) -> None:
    """A gate that would compute something else must not pass for equal, though no image of noise enters it."""

    class Wrong(Gate):
        def forward(self, raw: Tensor) -> Tensor:
            return torch.where(self.opening(F.normalize(raw, dim=1)) > 0, -raw, raw)

    path = tmp_path / "f.onnx"
    onnx.save(network(17), path)
    plain = read_network(path)[0]
    gate = gate_around(units(2, DIM, 8))
    wrong = Wrong(gate.directions, gate.offsets, gate.ramp, gate.scatter, gate.record)
    write_network(Gated(plain, gate), path)
    assert parity_of(Gated(plain, gate), path, SIZE) < 1e-4
    assert parity_of(Gated(plain, wrong), path, SIZE) > 0.1


def test_a_map_that_is_no_gate_has_no_form_in_onnx(tmp_path: Path) -> None:
    class Other(EmbeddingMap):
        def forward(self, raw: Tensor) -> Tensor:
            return raw

    onnx.save(network(17), tmp_path / "f.onnx")
    plain, card = import_model(ModelSettings(weights=tmp_path / "f.onnx"), SIZE)
    with pytest.raises(DamnatioError, match=r"A Other has no form in ONNX, only a gate has"):
        export(Gated(plain, Other()), card, tmp_path / "new.onnx")
    assert not (tmp_path / "new.onnx").exists()


def test_an_older_graph_than_the_operators_need_is_refused(tmp_path: Path) -> None:
    model = network(9)
    model.opset_import[0].version = 8
    with pytest.raises(DamnatioError, match=r"uses version 8 of the operators, and a gate needs 9 or later"):
        append_gate(model, gate_around(units(1, DIM, 0)))


# --- files that somebody else changed --------------------------------------------------------------------------------


def tensor_of(model: onnx.ModelProto, name: str) -> onnx.TensorProto:
    found: onnx.TensorProto = next(t for t in model.graph.initializer if t.name == f"{OWN}{name}")
    return found


def scaled(name: str, factor: float = 1.01) -> Any:
    def change(model: onnx.ModelProto) -> None:
        tensor = tensor_of(model, name)
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(factor), tensor.name))

    return change


def node_after(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("Relu", ["out"], ["positive"]))
    model.graph.output[0].name = "positive"


def another_reader(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("Relu", [f"{OWN}unit"], ["seen"]))


def another_operator(model: onnx.ModelProto) -> None:
    next(node for node in model.graph.node if node.op_type == "Cos").op_type = "Sin"


def a_node_less(model: onnx.ModelProto) -> None:
    model.graph.node.remove(next(node for node in model.graph.node if node.op_type == "Clip"))


def no_record(model: onnx.ModelProto) -> None:
    del model.metadata_props[:]


def two_records(model: onnx.ModelProto) -> None:
    model.metadata_props.add().CopyFrom(model.metadata_props[0])


def other_shapes(model: onnx.ModelProto) -> None:
    entry = model.metadata_props.add()
    entry.key, entry.value = f"{OWN}shapes", "no shapes"


def shapes_of_another_graph(model: onnx.ModelProto) -> None:
    other_shapes(model)
    shapes = onnx.GraphProto(output=[helper.make_tensor_value_info("other", 1, None)])
    model.metadata_props[-1].value = b64encode(shapes.SerializeToString()).decode()


def another_record(model: onnx.ModelProto) -> None:
    entry = model.metadata_props[0]
    entry.value = entry.value.replace('"photographs":3', '"photographs":4')


def a_tensor_less(model: onnx.ModelProto) -> None:
    model.graph.initializer.remove(tensor_of(model, "mean"))


def a_tensor_more(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(3, np.float32), f"{OWN}more"))


def a_broken_tensor(model: onnx.ModelProto) -> None:
    tensor_of(model, "mean").raw_data = b"123"


def bypassed(model: onnx.ModelProto) -> None:
    for node in [node for node in model.graph.node if node.name.startswith(OWN)]:
        model.graph.node.remove(node)
    model.graph.node.append(helper.make_node("Identity", [f"{OWN}raw"], ["out"]))


def another_output(model: onnx.ModelProto) -> None:
    model.graph.output.add().CopyFrom(model.graph.output[0])


def the_raw_vector_as_well(model: onnx.ModelProto) -> None:
    model.graph.output.append(helper.make_tensor_value_info(f"{OWN}raw", 1, ["N"]))


def no_version(model: onnx.ModelProto) -> None:
    del model.opset_import[:]


def halved(model: onnx.ModelProto) -> None:
    tensor = tensor_of(model, "spread")
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))


@pytest.mark.parametrize(
    "change",
    [
        scaled("directions"),
        scaled("offsets"),
        scaled("ramp"),
        scaled("frequencies"),
        scaled("spread"),
        scaled("mean"),
        scaled("phases"),
        scaled("one", 2.0),
        node_after,
        another_reader,
        another_operator,
        a_node_less,
        no_record,
        two_records,
        other_shapes,
        shapes_of_another_graph,
        another_record,
        a_tensor_less,
        a_tensor_more,
        a_broken_tensor,
        bypassed,
        another_output,
        the_raw_vector_as_well,
        no_version,
        halved,
    ],
)
def test_a_gate_that_somebody_else_changed_is_refused_in_one_sentence(change: Any, tmp_path: Path) -> None:
    path = tmp_path / "f.onnx"
    model = with_gate(network(17), gate_around(units(2, DIM, 4)))
    change(model)
    onnx.save(model, path)
    with pytest.raises(DamnatioError, match=r"f.onnx holds a gate that damnatio did not write, or that was changed"):
        import_model(ModelSettings(weights=path), SIZE)


def test_the_gate_of_another_model_is_refused(tmp_path: Path) -> None:
    onnx.save(with_gate(network(17), gate_around(units(2, DIM + 1, 4))), tmp_path / "f.onnx")
    with pytest.raises(DamnatioError, match=r"makes 6 values of an image, and its gate takes 7: the gate is that of"):
        import_model(ModelSettings(weights=tmp_path / "f.onnx"), SIZE)
