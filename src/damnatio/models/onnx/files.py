"""ONNX files: checked and compared with onnxruntime when they are read, and written atomically.

A file is parsed, and run only once it is known to hold nothing but operators of ONNX. Tensors that it keeps in other
files must lie in its own folder. A gate at the end of the graph is read as one: what is checked and can be trained is
the network before it.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from damnatio.models.gate import Gate, Gated, ungated
from damnatio.models.onnx.gate_nodes import append_gate, gate_alone, opset_of, probes, take_gate
from damnatio.models.onnx.graph import FLOAT, GraphNetwork, inputs_of
from damnatio.models.onnx.operators import OPERATORS
from damnatio.recipe.schema import MAX_SIDE
from damnatio.support.errors import DamnatioError
from damnatio.support.files import write_atomically

if TYPE_CHECKING:
    from onnx import ModelProto

TOLERANCE = 1e-4
"""the largest difference allowed between torch and onnxruntime, as a share of the embedding's length"""
BATCHES = (1, 4, 33)
"""the numbers of images at once that a file for service is tried with"""


def need_onnx() -> None:
    """ONNX is an extra: if it is not installed, say how to install it."""
    try:
        import onnx
        import onnxruntime  # noqa: F401

        assert onnx
    except ImportError:
        raise DamnatioError(
            "ONNX files need the packages onnx, onnxscript and onnxruntime: pip install 'damnatio[onnx]'."
        ) from None


@dataclass(frozen=True)
class Graph:
    """The content of an ONNX file."""

    network: GraphNetwork
    gate: Gate | None
    size: int
    """the side of the input"""
    dim: int
    parity: float
    """how far torch is from onnxruntime, as a share of the embedding's length"""

    @property
    def model(self) -> nn.Module:
        return self.network if self.gate is None else Gated(self.network, self.gate).eval()


def read_graph(path: Path) -> Graph:
    """The network of a file, with the gate behind it if there is one, compared with onnxruntime."""
    need_onnx()
    model, gate = _parse(path)
    size = _face_size(model, path)
    version = opset_of(model)
    session = _session(model.SerializeToString(), path)  # first, since it refuses invalid graphs
    network, dim, parity = _interpreted(model, session, size, path)
    if gate is not None:
        if gate.directions.shape[1] != dim:
            raise DamnatioError(
                f"{path} makes {dim} values of an image, and its gate takes {gate.directions.shape[1]}: the gate is "
                "that of another model."
            )
        parity = max(parity, _gate_parity(gate, version, path))
    if parity > TOLERANCE:
        raise DamnatioError(
            f"{path}: torch and onnxruntime differ by {parity:.1g} of the embedding's length, more than {TOLERANCE:g}: "
            "the model uses an operator in a way that is not known here, and cannot be trained."
        )
    return Graph(network, gate, size, dim, parity)


def read_network(path: Path) -> tuple[GraphNetwork, int, int, float]:
    """The network of a file without a gate, the side of its input, its dimension, and how far it is from
    onnxruntime."""
    found = read_graph(path)
    if found.gate is not None:
        raise DamnatioError(f"{path} has a gate behind its network, where the network alone is expected.")
    return found.network, found.size, found.dim, found.parity


def embedding_size(path: Path) -> int:
    """The dimension of the output, as the graph states it, or else as it is when the graph is run."""
    need_onnx()
    model, _ = _parse(path)
    _face_size(model, path)
    sides = _side(model.graph.output[0])
    return sides[1] if len(sides) == 2 and isinstance(sides[1], int) else read_graph(path).dim


def write_network(module: nn.Module, path: Path) -> None:
    """Write a graph, and the gate behind it, as one file."""
    network, behind = ungated(module)
    assert isinstance(network, GraphNetwork)
    model = network.to_model()
    if behind is not None:
        append_gate(model, _need_gate(behind))
    write_atomically(path, model.SerializeToString())


def add_gate(path: Path, behind: nn.Module) -> None:
    """Put a gate behind the graph of a file."""
    model, old = _parse(path)
    assert old is None
    append_gate(model, _need_gate(behind))
    write_atomically(path, model.SerializeToString())


def put_gate(gate: Gate, source: Path, target: Path) -> None:
    """Write the graph of one file with a gate behind it into another one, which must not exist. The new file is there
    only if onnxruntime runs it as torch does."""
    network, size, dim, _ = read_network(source)
    if dim != gate.directions.shape[1]:
        raise DamnatioError(f"{source} gives {dim} values per face, and the gate is for {gate.directions.shape[1]}.")
    if target.exists() or target.is_symlink():
        raise DamnatioError(f"{target} is there already, and nothing is overwritten.")
    altered, trial = Gated(network, gate), target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        write_network(altered, trial)
        parity = parity_of(altered, trial, size)
        if parity > TOLERANCE:
            raise DamnatioError(
                f"The file with the gate differs from torch by {parity:.1g} of the embedding's length, more than "
                f"{TOLERANCE:g}: {target} was not written."
            )
        trial.replace(target)
    finally:
        trial.unlink(missing_ok=True)


def _need_gate(behind: nn.Module) -> Gate:
    if not isinstance(behind, Gate):
        raise DamnatioError(
            f"A {type(behind).__name__} has no form in ONNX, only a gate has: export the model to .safetensors or .pth."
        )
    return behind


def parity_of(module: nn.Module, path: Path, size: int, batches: Sequence[int] = (2,)) -> float:
    """The largest difference between a network and its ONNX file, as a share of the embedding's length. The file runs
    on batches of these sizes, with and without onnxruntime's optimisations. A gate is compared on vectors within it
    too."""
    need_onnx()
    network, behind = ungated(module)
    x = _noise(network, size, max(batches))
    training, place = module.training, next(module.parameters()).device
    module.eval()
    with torch.inference_mode():
        ours = module(x.to(place)).float().cpu()
    module.train(training)
    content, found = path.read_bytes(), []
    for optimised in (False, True):
        session = _session(content, path, optimised=optimised)
        for batch in batches:
            step = 1 if getattr(network, "one_by_one", False) else batch
            parts = [x[i : i + step] for i in range(0, batch, step)]
            found.append(_distance(ours[:batch], torch.cat([_call(session, part, path) for part in parts])))
    if isinstance(behind, Gate):
        found.append(_gate_parity(behind, opset_of(_loaded(content, path)), path))
    return max(found)


def _gate_parity(gate: Gate, version: int, path: Path) -> float:
    """The distance between torch and onnxruntime for the gate alone, on vectors beside it, on its ramp and within."""
    raw = probes(gate)
    with torch.inference_mode():
        ours = gate(raw.to(gate.directions.device)).cpu()
    content = gate_alone(gate, version).SerializeToString()
    sessions = [_session(content, path, optimised=optimised) for optimised in (False, True)]
    return max(_distance(ours, _call(session, raw, path)) for session in sessions)


def _loaded(content: bytes, path: Path) -> "ModelProto":
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return onnx.load_model_from_string(content)
    except DecodeError:
        raise DamnatioError(f"{path} is not an ONNX file, or a damaged one.") from None


def _parse(path: Path) -> "tuple[ModelProto, Gate | None]":
    """The graph of a file without its gate, and the gate."""
    from onnx.external_data_helper import ExternalDataInfo, load_external_data_for_tensor, uses_external_data

    model = _loaded(path.read_bytes(), path)
    if not model.graph.node:
        raise DamnatioError(f"{path} is not an ONNX file, or one without a graph.")
    folder = path.resolve().parent
    constants = [attribute.t for node in model.graph.node for attribute in node.attribute]
    for tensor in [*model.graph.initializer, *constants]:
        if not uses_external_data(tensor):
            continue
        try:
            place = ExternalDataInfo(tensor).location
        except ValueError as error:
            raise DamnatioError(f"{path}: the tensor '{tensor.name}' is kept nowhere ({error}).") from error
        beside = (folder / place).resolve()
        if not beside.is_relative_to(folder) or not beside.is_file():
            raise DamnatioError(
                f"{path} keeps the tensor '{tensor.name}' in {place!r}, which is no file in its own folder: "
                "give the model as one file."
            )
        try:
            load_external_data_for_tensor(tensor, str(folder))
        except Exception as error:
            raise DamnatioError(f"{path}: the tensor '{tensor.name}' cannot be read from {place!r}.") from error
        tensor.data_location = tensor.DEFAULT
        tensor.ClearField("external_data")
    return model, take_gate(model, path)


def _face_size(model: "ModelProto", path: Path) -> int:
    """The side of the input. A graph that is not that of a face embedder is an error."""
    unknown = sorted(
        {
            f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)
            for node in model.graph.node
            if node.domain not in ("", "ai.onnx")
            or (node.op_type not in OPERATORS and node.op_type not in ("Constant", "BatchNormalization"))
        }
    )
    inputs, outputs = inputs_of(model), list(model.graph.output)
    others = [_side(entry) for entry in outputs[1:]]
    if not outputs or (others and not (len(others) == 1 and others[0] and others[0][1:] in ([], [1]))):
        raise DamnatioError(
            f"{path} is not a face embedder: it has {len(outputs)} outputs ({_few([o.name for o in outputs])}) where "
            "one embedding is expected, or an embedding and then one number for each image: keep these alone, with "
            "onnx.utils.extract_model."
        )
    if found := _reduced(model):
        raise DamnatioError(
            f"{path} computes in {found}, and a model is altered in float32 only: alter the float32 file that it was "
            "made of, and convert the altered file again, with the nodes damnatio.gate.* left in float32."
        )
    shape = [_side(entry) for entry in inputs] if len(inputs) == 1 else []
    sides = shape[0] if shape else []
    whole = len(sides) == 4 and sides[1] == 3 and sides[2] == sides[3] and isinstance(sides[2], int) and sides[2] > 0
    if not whole or inputs[0].type.tensor_type.elem_type != FLOAT:
        given = "; ".join(f"{entry.name}: {_text(entry)}" for entry in inputs) or "none"
        raise DamnatioError(
            f"{path} is not a face embedder: its input is {given}, where one float N x 3 x size x size is expected."
        )
    side = int(sides[2])
    if side > MAX_SIDE:
        raise DamnatioError(f"{path} takes images of {side} pixels, and faces here have at most {MAX_SIDE}.")
    if not any(entry.domain in ("", "ai.onnx") for entry in model.opset_import):
        raise DamnatioError(f"{path} does not say which version of ONNX's operators it uses.")
    if unknown:
        raise DamnatioError(
            f"{path} holds operators that are not known here: {_few(unknown)}. Export the model with plain ones, or "
            "register its network as a backbone (docs/bring-your-own-model.md)."
        )
    broken = [node.name or node.output[0] for node in model.graph.node if not _constant_norm(node, model)]
    if broken:
        raise DamnatioError(f"{path}: the BatchNormalization {broken[0]} has weights that are not stored float32.")
    return side


def _reduced(model: "ModelProto") -> str:
    """The smaller numbers that a file computes in; empty if it has float32 alone."""
    kinds = {16: "bfloat16", 10: "float16"}
    constants = [attribute.t for node in model.graph.node for attribute in node.attribute]
    used = {tensor.data_type for tensor in [*model.graph.initializer, *constants]}
    used |= {entry.type.tensor_type.elem_type for entry in [*model.graph.input, *model.graph.output]}
    operators = " ".join(node.op_type for node in model.graph.node)
    if any(word in operators for word in ("QuantizeLinear", "QLinear", "ConvInteger", "MatMulInteger")):
        return "int8"
    return next((name for kind, name in kinds.items() if kind in used), "")


def _constant_norm(node: Any, model: "ModelProto") -> bool:
    if node.op_type != "BatchNormalization":
        return True
    stored = {tensor.name for tensor in model.graph.initializer if tensor.data_type == FLOAT}
    passed = {name for other in model.graph.node if other.op_type in ("Identity", "Constant") for name in other.output}
    return len(node.input) == 5 and (stored | passed).issuperset(node.input[1:])


def _side(entry: Any) -> list[int | str]:
    return [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in entry.type.tensor_type.shape.dim]


def _text(entry: Any) -> str:
    import onnx

    number = entry.type.tensor_type.elem_type
    kind = {value: name.lower() for name, value in onnx.TensorProto.DataType.items()}.get(number, f"type {number}")
    return f"{kind} {' x '.join(str(side) for side in _side(entry)) or 'of no shape'}"


def _few(names: list[str], most: int = 5) -> str:
    return ", ".join(map(str, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def _interpreted(model: "ModelProto", session: Any, size: int, path: Path) -> tuple[GraphNetwork, int, float]:
    """The network, its dimension and its distance from onnxruntime on a batch of two."""
    try:
        network = GraphNetwork(model).eval()
        x = _noise(network, size)
        theirs, network.one_by_one = _run(session, x, path)
        if theirs.ndim != 2 or len(theirs) != 2:
            shape = " x ".join(str(side) for side in theirs.shape)
            raise DamnatioError(f"{path} is not a face embedder: for two images its output is {shape}, not 2 x dim.")
        with torch.inference_mode():
            ours = network(x)
    except DamnatioError:
        raise
    except (RuntimeError, NotImplementedError, LookupError, TypeError, ValueError) as error:
        raise DamnatioError(
            f"{path}: an operator is used in a way that is not known here ({' '.join(str(error).split())[:200]})."
        ) from error
    if ours.shape != theirs.shape:
        raise DamnatioError(f"{path}: torch makes {tuple(ours.shape)} of it, onnxruntime {tuple(theirs.shape)}.")
    if not any(p.requires_grad for p in network.parameters()):
        raise DamnatioError(f"{path} holds no weights that could be trained.")
    return network, theirs.shape[1], _distance(ours, theirs)


def _noise(network: nn.Module, size: int, count: int = 2) -> Tensor:
    """Images of noise, in the range of values that the network takes."""
    x = torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(0))
    return x * 255 if isinstance(network, GraphNetwork) and network.preprocesses else x * 2 - 1


def _session(content: bytes, path: Path, *, optimised: bool = True) -> Any:
    import onnxruntime

    options, levels = onnxruntime.SessionOptions(), onnxruntime.GraphOptimizationLevel
    options.log_severity_level = 4
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common class
        raise DamnatioError(f"{path}: onnxruntime cannot run it ({' '.join(str(error).split())[:200]}).") from error


def _call(session: Any, x: Tensor, path: Path) -> Tensor:
    """The embeddings of the images by onnxruntime, all at once."""
    try:
        return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])
    except Exception as error:
        images = "one image" if len(x) == 1 else f"{len(x)} images at once"
        raise DamnatioError(
            f"{path}: onnxruntime cannot run it on {images} ({' '.join(str(error).split())[:200]})."
        ) from error


def _run(session: Any, x: Tensor, path: Path) -> tuple[Tensor, bool]:
    """The embeddings of the images by onnxruntime, and whether it takes only one image at a time."""
    try:
        return _call(session, x, path), False
    except DamnatioError:  # the graph was traced with a batch of one
        return torch.cat([_call(session, x[i : i + 1], path) for i in range(len(x))]), True


def _distance(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference as a share of the length; infinite where one of the two is no number."""
    if ours.shape != theirs.shape:
        return torch.inf
    return float(((ours - theirs).abs().amax(1) / theirs.norm(dim=1)).nan_to_num(torch.inf).max())
