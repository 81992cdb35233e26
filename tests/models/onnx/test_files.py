"""ONNX models in and out: what is read is what onnxruntime runs, it learns, and it goes back into its own graph."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from safetensors.torch import save_file
from torch import nn

from damnatio.backbones.cutting import cut
from damnatio.models.onnx.files import embedding_size, parity_of, read_network, write_network
from damnatio.models.onnx.operators import OPERATORS
from damnatio.support.errors import DamnatioError
from tests.models.onnx.world import exported, nudge, settled, small_model

RNG = np.random.default_rng(0)
NAMES = ["iresnet-tiny", "mobilefacenet", "mbf", "vit-tiny"]


def noise(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return RNG.normal(size=shape).astype(np.float32)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def end(last: str) -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    """From the map `last` of 4 channels to an embedding."""
    nodes = [node("GlobalAveragePool", last, "pooled"), node("Flatten", "pooled", "flat")]
    return [*nodes, node("Gemm", "flat W C", "out", transB=1)], {"W": noise(6, 4), "C": noise(6)}


def runtime(path: Path, x: torch.Tensor) -> torch.Tensor:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    singles = [session.run(None, {session.get_inputs()[0].name: one[None].numpy()})[0] for one in x]
    return torch.from_numpy(np.concatenate(singles))


@pytest.mark.cli
@pytest.mark.parametrize(
    ("name", "traced"), [*((name, True) for name in NAMES), ("iresnet-tiny", False), ("vit-tiny", False)]
)
def test_exported_networks_are_read_learn_and_go_back_into_their_graph(name: str, traced: bool, tmp_path: Path) -> None:
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    original = exported(name, 32, 16, old, traced=traced)
    network, size, dim, parity = read_network(old)
    assert (size, dim, embedding_size(old)) == (32, 16, 16)
    assert parity < 1e-5
    x = torch.rand(3, 3, 32, 32) * 2 - 1
    with torch.inference_mode():
        torch.testing.assert_close(network(x), original(x), rtol=1e-3, atol=1e-4 * float(original(x).norm(dim=1).max()))
    losses = nudge(network, 32, steps=4)
    assert losses[-1] < losses[0]
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
    write_network(network, new)
    with torch.inference_mode():
        ours = network(x)
    torch.testing.assert_close(runtime(new, x), ours, rtol=1e-3, atol=1e-4 * float(ours.norm(dim=1).max()))
    assert (runtime(old, x) - ours).abs().max() > 1e-3 * float(ours.norm(dim=1).max())
    assert parity_of(network, new, 32) < 1e-5
    before, after = onnx.load(old), onnx.load(new)
    assert (before.graph.input, before.graph.output) == (after.graph.input, after.graph.output)
    assert (before.opset_import, before.ir_version) == (after.opset_import, after.ir_version)
    kinds = [[n.op_type for n in model.graph.node if n.op_type != "Identity"] for model in (before, after)]
    assert kinds[0] == kinds[1]


@pytest.mark.cli
def test_every_weight_of_a_network_is_trained_and_its_normalisations_are_real(tmp_path: Path) -> None:
    """Exported without folding, parameter for parameter."""
    from damnatio.models.exporting import write_onnx

    original = settled("iresnet-tiny", 32, 16)
    write_onnx(original, 32, tmp_path / "f.onnx", fold=False)
    network = read_network(tmp_path / "f.onnx")[0]
    count = [sum(p.numel() for p in one.parameters()) for one in (network, original)]
    assert count[0] == count[1]
    x = torch.rand(8, 3, 32, 32)
    torch.testing.assert_close(network.train()(x), original.train()(x), rtol=1e-3, atol=1e-3)
    ours, theirs = (
        [m for m in one.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)] for one in (network, original)
    )
    assert len(ours) == len(theirs) == 19
    assert ours[-1].running_mean is not None
    torch.testing.assert_close(ours[-1].running_mean, theirs[-1].running_mean, rtol=1e-3, atol=1e-4)


def test_tensors_that_exporters_keep_once_part_in_training(tmp_path: Path) -> None:
    layer = [node("Conv", "x K", "a"), node("PRelu", "a slope", "b"), node("Identity", "slope", "again")]
    nodes, tensors = end("d")
    kept = {"K": noise(4, 3, 3, 3), "L": noise(4, 4, 3, 3), "slope": np.full((4, 1, 1), 0.2, np.float32)}
    path = tmp_path / "f.onnx"
    onnx.save(
        small_model([*layer, node("Conv", "b L", "c"), node("PRelu", "c again", "d"), *nodes], {**kept, **tensors}),
        path,
    )
    network = read_network(path)[0]
    assert sum(p.numel() == 4 for p in network.parameters()) == 2
    nudge(network, 8, steps=2)
    write_network(network, path)
    slopes = [t for t in onnx.load(path).graph.initializer if tuple(t.dims) == (4, 1, 1)]
    assert len({t.raw_data for t in slopes}) == 2
    assert read_network(path)[3] < 1e-5


def test_the_inputs_own_normalisation_is_found_and_stays(tmp_path: Path) -> None:
    """As MXNet exported them, weights listed among the inputs."""
    head = [node("Sub", "x mean", "s"), node("Mul", "s scale", "m"), node("Conv", "m K", "a")]
    nodes, tensors = end("a")
    kept: dict[str, Any] = {
        "mean": np.full((1, 3, 1, 1), 127.5, np.float32),
        "scale": np.float32(1 / 128),
        "K": noise(4, 3, 3, 3),
    }
    model = small_model([*head, *nodes], {**kept, **tensors}, opset=9)
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.dims))
    onnx.save(model, tmp_path / "f.onnx")
    network = read_network(tmp_path / "f.onnx")[0]
    assert network.preprocesses
    assert sorted(p.numel() for p in network.parameters()) == [6, 24, 108]
    nudge(network, 8, steps=2)
    after = {t.name: onnx.numpy_helper.to_array(t) for t in network.to_model().graph.initializer}
    assert np.array_equal(after["mean"], kept["mean"])
    assert not np.array_equal(after["K"], kept["K"])
    plain = small_model([node("Conv", "x K", "a"), *nodes], {"K": kept["K"], **tensors})
    onnx.save(plain, tmp_path / "plain.onnx")
    assert not read_network(tmp_path / "plain.onnx")[0].preprocesses


OPERATIONS: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], int]] = {
    "uneven pads": ([node("Conv", "a E", "b", pads=[1, 0, 0, 1])], {"E": noise(4, 4, 2, 2)}, 17),
    "groups, dilations": (
        [node("Conv", "a E B", "b", group=2, dilations=[2, 2], strides=[2, 1], pads=[2, 2, 2, 2])],
        {"E": noise(4, 2, 3, 3), "B": noise(4)},
        17,
    ),
    "Clip by attributes": ([node("Clip", "a", "b", min=0.0, max=6.0)], {}, 10),
    "Clip by inputs": ([node("Clip", "a low", "b")], {"low": np.float32(-0.3)}, 17),
    "Softmax of old": ([node("Softmax", "a", "b", axis=1)], {}, 11),
    "Softmax of new": ([node("Softmax", "a", "b", axis=1)], {}, 17),
    "Sigmoid, Mul": ([node("Sigmoid", "a", "s"), node("Mul", "a s", "b")], {}, 17),
    "AveragePool": ([node("AveragePool", "a", "b", kernel_shape=[2, 2], strides=[2, 2])], {}, 17),
    "AveragePool, padded": (
        [node("AveragePool", "a", "b", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)],
        {},
        17,
    ),
    "MaxPool": ([node("MaxPool", "a", "b", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])], {}, 17),
    "Concat, Slice, Add": (
        [node("Concat", "a a", "c", axis=1), node("Slice", "c two six one", "d"), node("Add", "d a", "b")],
        {"two": np.array([2]), "six": np.array([-2]), "one": np.array([1])},
        17,
    ),
    "Slice by attributes": ([node("Slice", "a", "b", starts=[1], ends=[5], axes=[2])], {}, 9),
    "Split": ([node("Split", "a", "c d", axis=2), node("Sub", "c d", "b")], {}, 17),
    "Unsqueeze, Squeeze": (
        [node("Unsqueeze", "a", "c", axes=[0, 3]), node("Squeeze", "c", "b", axes=[0, 3])],
        {},
        11,
    ),
    "Shape, Gather, Reshape": (
        [
            node("Shape", "a", "shape"),
            node("Gather", "shape zero", "n", axis=0),
            node("Concat", "n rest", "target", axis=0),
            node("Reshape", "a target", "c"),
            node("Gather", "c last", "b", axis=2),
        ],
        {"zero": np.array([0]), "rest": np.array([4, 6, 6]), "last": np.array([-1, 0])},
        17,
    ),
    "a normalisation taken apart": (
        [
            node("ReduceMean", "a", "mean", axes=[1]),
            node("Sub", "a mean", "c"),
            node("Pow", "c two", "squares"),
            node("ReduceMean", "squares", "var", axes=[1]),
            node("Add", "var eps", "safe"),
            node("Sqrt", "safe", "deviation"),
            node("Div", "c deviation", "unit"),
            node("Mul", "unit gamma", "scaled"),
            node("Add", "scaled beta", "b"),
        ],
        {"two": np.float32(2), "eps": np.float32(1e-5), "gamma": noise(4, 1, 1), "beta": noise(4, 1, 1)},
        17,
    ),
    "Gelu by Erf": (
        [
            node("Div", "a root", "c"),
            node("Erf", "c", "d"),
            node("Add", "d unit", "e"),
            node("Mul", "a e", "f"),
            node("Mul", "f half", "b"),
        ],
        {"root": np.float32(2**0.5), "unit": np.float32(1), "half": np.float32(0.5)},
        17,
    ),
    "Gelu": ([node("Gelu", "a", "b", approximate="tanh")], {}, 20),
    "LayerNormalization": ([node("LayerNormalization", "a g h", "b", axis=-1)], {"g": noise(6), "h": noise(6)}, 17),
    "Transpose, MatMul": (
        [
            node("Transpose", "a", "c", perm=[0, 2, 3, 1]),
            node("MatMul", "c M", "d"),
            node("Transpose", "d", "b", perm=[0, 3, 1, 2]),
        ],
        {"M": noise(4, 4)},
        17,
    ),
    "Dropout, Relu, LeakyRelu": (
        [node("Dropout", "a", "c"), node("LeakyRelu", "c", "d"), node("Relu", "d", "b")],
        {},
        12,
    ),
    "L2 normalised": (
        [
            node("ReduceL2", "a", "length", axes=[1]),
            node("Div", "a length", "c"),
            node("LpNormalization", "c", "b", axis=2),
        ],
        {},
        17,
    ),
    "a constant": ([helper.make_node("Constant", [], ["c"], value_float=2.0), node("Mul", "a c", "b")], {}, 17),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operators_agree_with_onnxruntime(name: str, tmp_path: Path) -> None:
    between, more, opset = OPERATIONS[name]
    nodes, tensors = end("b")
    model = small_model(
        [node("Conv", "x K", "a"), *between, *nodes], {"K": noise(4, 3, 3, 3), **more, **tensors}, opset=opset
    )
    onnx.save(model, tmp_path / "f.onnx")
    network, _, dim, parity = read_network(tmp_path / "f.onnx")
    assert dim == 6
    assert parity < 1e-5
    assert all(n.op_type in OPERATORS or n.op_type == "Constant" for n in model.graph.node)
    nudge(network, 8, steps=2)
    write_network(network, tmp_path / "f.onnx")
    assert parity_of(network, tmp_path / "f.onnx", 8) < 1e-5


def test_a_network_can_be_copied_and_resumed(tmp_path: Path) -> None:
    exported("iresnet-tiny", 32, 16, tmp_path / "f.onnx", traced=True)
    network = read_network(tmp_path / "f.onnx")[0]
    other = copy.deepcopy(network)
    nudge(network, 32, steps=2)
    save_file(network.state_dict(), tmp_path / "checkpoint.safetensors")
    x = torch.rand(2, 3, 32, 32)
    assert not torch.allclose(other(x), network(x))
    other.load_state_dict(network.state_dict())
    assert torch.equal(other(x), network(x))


@pytest.mark.parametrize("name", ["iresnet-tiny", "vit-tiny"])
def test_half_precision_changes_nothing_but_rounding(name: str, tmp_path: Path) -> None:
    exported(name, 32, 16, tmp_path / "f.onnx", traced=True)
    network, x = read_network(tmp_path / "f.onnx")[0], torch.rand(4, 3, 32, 32)
    with torch.autocast("cpu", torch.bfloat16):
        half = network(x)
    assert nn.functional.cosine_similarity(half.float(), network(x)).min() > 0.99


def refusal(model: onnx.ModelProto, folder: Path) -> str:
    onnx.save(model, folder / "f.onnx")
    with pytest.raises(DamnatioError) as told:
        read_network(folder / "f.onnx")
    return str(told.value).removeprefix(f"{folder / 'f.onnx'}")


def test_what_is_no_face_embedder_is_reported_in_a_sentence(tmp_path: Path) -> None:
    nodes, tensors = end("a")
    conv, kept = node("Conv", "x K", "a"), {"K": noise(4, 3, 3, 3), **tensors}
    several = small_model([conv, *nodes], kept, outputs=("out", "pooled", "flat"))
    assert refusal(several, tmp_path).startswith(
        " is not a face embedder: it has 3 outputs (out, pooled, flat) where one embedding is expected, or an embedding"
    )
    two = small_model([conv, *nodes], kept, outputs=("out", "flat"))
    several_shapes: list[list[str | int | None] | None] = [["N", 4], [], None]
    for sides in several_shapes:
        two.graph.output[1].CopyFrom(helper.make_tensor_value_info("flat", TensorProto.FLOAT, sides))
        assert "it has 2 outputs (out, flat) where" in refusal(two, tmp_path)
    said = r"in {}, and a model is altered in float32 only: alter the float32 file that it was made of, and convert"
    half = small_model([conv, *nodes], {name: v.astype(np.float16) for name, v in kept.items()}, kind=10)
    half.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    assert said.format("float16") in refusal(half, tmp_path)
    within = [node("Cast", "x", "h", to=10), node("Conv", "h K", "p"), node("Cast", "p", "a", to=1)]
    assert said.format("float16") in refusal(
        small_model([*within, *nodes], {**kept, "K": kept["K"].astype(np.float16)}), tmp_path
    )
    pair = [node("QuantizeLinear", "a s z", "q"), node("DequantizeLinear", "q s z", "b")]
    scale = {"s": np.float32(0.1), "z": np.int8(0)}
    quantised = small_model([conv, *pair, *end("b")[0]], {**kept, **scale})
    assert said.format("int8") in refusal(quantised, tmp_path)
    grey = small_model([conv, *nodes], {**kept, "K": noise(4, 1, 3, 3)}, shape=("N", 1, 8, 8))
    expected = "where one float N x 3 x size x size is expected."
    assert refusal(grey, tmp_path) == f" is not a face embedder: its input is x: float N x 1 x 8 x 8, {expected}"
    free = small_model([conv, *nodes], kept, shape=("N", 3, "H", "W"))
    assert "its input is x: float N x 3 x H x W" in refusal(free, tmp_path)
    tokens = small_model([conv, *nodes], kept, kind=TensorProto.INT64, shape=("N", 77))
    assert "its input is x: int64 N x 77" in refusal(tokens, tmp_path)
    flat = small_model([conv], {"K": kept["K"]}, outputs=("a",))
    assert (
        refusal(flat, tmp_path) == " is not a face embedder: for two images its output is 2 x 4 x 6 x 6, not 2 x dim."
    )
    unknown = small_model([conv, node("Softplus", "a", "s"), node("Hardmax", "s", "b"), *end("b")[0]], kept)
    assert refusal(unknown, tmp_path).startswith(" holds operators that are not known here: Hardmax, Softplus. ")
    foreign = small_model([conv, helper.make_node("Run", ["a"], ["b"], domain="com.evil"), *end("b")[0]], kept)
    assert "not known here: com.evil.Run." in refusal(foreign, tmp_path)
    fancy = small_model([node("Conv", "x K", "a", auto_pad="SAME_UPPER"), *nodes], kept)
    assert "used in a way that is not known here (auto_pad=SAME_UPPER)" in refusal(fancy, tmp_path)
    circle = small_model([node("Identity", "i", "i"), node("Conv", "x i", "a"), *nodes], kept)
    assert "onnxruntime cannot run it" in refusal(circle, tmp_path)
    unsaid = small_model([conv, *nodes], kept)
    del unsaid.opset_import[:]
    assert refusal(unsaid, tmp_path) == " does not say which version of ONNX's operators it uses."
    elsewhere = small_model([conv, *nodes], kept)
    elsewhere.opset_import[0].domain = "somewhere"
    assert refusal(elsewhere, tmp_path) == " does not say which version of ONNX's operators it uses."
    huge = small_model([conv, *nodes], kept, shape=("N", 3, 2**20, 2**20))
    assert refusal(huge, tmp_path) == " takes images of 1048576 pixels, and faces here have at most 512."
    (tmp_path / "text.onnx").write_text("this is no model")
    (tmp_path / "empty.onnx").write_bytes(b"")
    for name in ("text.onnx", "empty.onnx"):
        with pytest.raises(DamnatioError, match=rf"{name} is not an ONNX file"):
            read_network(tmp_path / name)


def test_operators_that_differ_from_onnxruntime_are_not_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported("mobilefacenet", 32, 16, tmp_path / "f.onnx", traced=True)
    monkeypatch.setitem(OPERATORS, "PRelu", lambda i, a: torch.where(i[0] >= 0, i[0], i[0] * i[1] * 1.1))
    with pytest.raises(DamnatioError, match=r"torch and onnxruntime differ by .* cannot be trained"):
        read_network(tmp_path / "f.onnx")


def test_tensors_are_read_from_the_files_own_folder_alone(tmp_path: Path) -> None:
    nodes, tensors = end("a")
    (tmp_path / "model").mkdir()
    path = tmp_path / "model" / "f.onnx"
    model = small_model([node("Conv", "x K", "a"), *nodes], {"K": noise(4, 3, 3, 3), **tensors})
    onnx.save(model, path, save_as_external_data=True, location="f.data", size_threshold=0)
    network = read_network(path)[0]
    write_network(network, tmp_path / "one.onnx")
    assert read_network(tmp_path / "one.onnx")[3] < 1e-5
    (tmp_path / "model" / "f.data").rename(tmp_path / "secret")
    for location in ("../secret", str(tmp_path / "secret"), "link"):
        stored = onnx.load(path, load_external_data=False)
        (tmp_path / "model" / "link").unlink(missing_ok=True)
        (tmp_path / "model" / "link").symlink_to(tmp_path / "secret")
        for tensor in stored.graph.initializer:
            for entry in tensor.external_data:
                entry.value = location if entry.key == "location" else entry.value
        path.write_bytes(stored.SerializeToString())
        with pytest.raises(DamnatioError, match=r"which is no file in its own folder"):
            read_network(path)


@pytest.mark.parametrize(("key", "value"), [("offset", "-5"), ("length", "-5"), ("offset", "x"), ("offset", "9" * 30)])
def test_a_place_outside_of_the_file_is_one_sentence(tmp_path: Path, key: str, value: str) -> None:
    nodes, tensors = end("a")
    path = tmp_path / "f.onnx"
    model = small_model([node("Conv", "x K", "a"), *nodes], {"K": noise(4, 3, 3, 3), **tensors})
    onnx.save(model, path, save_as_external_data=True, location="f.data", size_threshold=0)
    stored = onnx.load(path, load_external_data=False)
    for tensor in stored.graph.initializer:
        for entry in tensor.external_data:
            entry.value = value if entry.key == key else entry.value
    path.write_bytes(stored.SerializeToString())
    with pytest.raises(DamnatioError, match=r"is kept nowhere|cannot be read from"):
        read_network(path)


@pytest.mark.cli
@pytest.mark.parametrize(("name", "traced"), [("iresnet-tiny", True), ("vit-tiny", True), ("vit-tiny", False)])
def test_a_graph_is_cut_where_all_that_follows_is_made_of_one_value(name: str, traced: bool, tmp_path: Path) -> None:
    exported(name, 32, 16, tmp_path / "f.onnx", traced=traced)
    network = read_network(tmp_path / "f.onnx")[0]
    x = torch.rand(3, 3, 32, 32)
    points = network.cut_points()
    assert len(points) > 5
    for stage in points:
        trunk, tail = cut(network, stage)
        torch.testing.assert_close(tail(trunk(x)), network(x))
        assert len([*trunk.parameters(), *tail.parameters()]) == len(list(network.parameters()))
        assert set(tail.state_dict()) <= set(network.state_dict())
    tail.train()
    assert all(parameter is dict(network.named_parameters())[key] for key, parameter in tail.named_parameters())
    with pytest.raises(DamnatioError, match=r"there is no cut point 'layer9'. This network has "):
        cut(network, "layer9")
