"""A gate as nodes of an ONNX graph, behind the network's own ones.

The graph keeps its inputs, its outputs and its version of the operators. The value that was the embedding gets a name
of the gate, and the last node of the gate makes the output. A second output, as a rule the length of the raw vector,
stays as it is: a gate keeps the length. All names of the gate begin with `damnatio.gate.`, and its record is text in
the metadata of the file. So a reader finds the gate, takes it off, and has the old graph again.

The nodes are plain arithmetic, which every runtime has. The last one selects, row by row, the altered vector or the raw
one: a sum with a factor of zero would not keep every bit. Files of earlier versions have the scatter in the branch of
an `If`. They are read, and written in the present form.

Exporters note the shapes of inner values for the one image that they traced, and a runtime believes them. So the gate
takes these notes out of the graph, and they come back when it is taken off.

A gate in a file is accepted only if it is what would be written for it, node for node. Whatever another tool did to it
is then refused, and not taken for a gate.
"""

from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from damnatio.models.gate import PREFIX, RECORD, TENSORS, Gate
from damnatio.models.onnx.graph import FLOAT, inputs_of
from damnatio.support.errors import DamnatioError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

NAME = "damnatio.gate"
OWN = f"{NAME}."
"""begins every name of the gate in a graph"""
RAW = f"{OWN}raw"
"""the value that was the output"""
SHAPES = f"{OWN}shapes"
"""in the metadata: the shapes that the graph stated before it had the gate"""
OLDEST = 9
"""the first version of ONNX's operators that has `Where`"""
CLIP_TAKES_INPUTS, REDUCTIONS_TAKE_AXES = 11, 18
"""the versions from which these operators take as inputs what were attributes before"""
CHANGED = "holds a gate that damnatio did not write, or that was changed since"


def opset_of(model: "ModelProto") -> int:
    return int(next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")))


def append_gate(model: "ModelProto", gate: Gate) -> None:
    """Put the gate behind the graph, which has none yet."""
    output = model.graph.output[0].name
    version = opset_of(model)
    if version < OLDEST:
        raise DamnatioError(
            f"The ONNX graph uses version {version} of the operators, and a gate needs {OLDEST} or later: convert it "
            "with onnx.version_converter first."
        )
    if not any(output in node.output for node in model.graph.node):
        raise DamnatioError(f"The ONNX graph has no node that makes its output {output}.")
    _rename(model, output, RAW)
    nodes, stored = _nodes(gate, version, output)
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(stored)
    entry = model.metadata_props.add()
    entry.key, entry.value = NAME, bytes(gate.tensors()[f"{PREFIX}{RECORD}"].numpy()).decode()
    _free_batch(model)


def _free_batch(model: "ModelProto") -> None:
    """Leave no shape in the graph that states another batch than its input does."""
    from onnx import GraphProto

    graph = model.graph
    stated = GraphProto(value_info=graph.value_info, output=graph.output)
    del graph.value_info[:]
    batch = inputs_of(model)[0].type.tensor_type.shape.dim[0]
    for entry in graph.output:
        sides = entry.type.tensor_type.shape.dim
        if sides and sides[0].HasField("dim_value") and not batch.HasField("dim_value"):
            sides[0].CopyFrom(batch)
    if stated.value_info or stated.output != graph.output:
        entry = model.metadata_props.add()
        entry.key, entry.value = SHAPES, b64encode(stated.SerializeToString()).decode()


def _state_shapes(model: "ModelProto", path: Path) -> None:
    """Put the shapes back that the graph stated before it had the gate."""
    from google.protobuf.message import DecodeError
    from onnx import GraphProto

    for entry in [entry for entry in model.metadata_props if entry.key == SHAPES]:
        try:
            stated = GraphProto.FromString(b64decode(entry.value, validate=True))
        except (DecodeError, ValueError) as error:
            raise DamnatioError(f"{path} {CHANGED}: the shapes in its metadata cannot be read.") from error
        if [value.name for value in stated.output] != [value.name for value in model.graph.output]:
            raise DamnatioError(f"{path} {CHANGED}: the shapes in its metadata are those of other outputs.")
        model.graph.value_info.extend(stated.value_info)
        for ours, theirs in zip(model.graph.output, stated.output, strict=True):
            ours.CopyFrom(theirs)
        model.metadata_props.remove(entry)


def take_gate(model: "ModelProto", path: Path) -> Gate | None:
    """Take the gate off the graph; None if it has none. A gate that was changed is an error."""
    texts = [entry.value for entry in model.metadata_props if entry.key == NAME]
    nodes = [node for node in model.graph.node if _is_own(node)]
    stored = {tensor.name: tensor for tensor in model.graph.initializer if _is_own_name(tensor.name)}
    if not texts and not nodes and not stored:
        return None
    if not model.graph.output or not any(entry.domain in ("", "ai.onnx") for entry in model.opset_import):
        raise DamnatioError(f"{path} {CHANGED}: it has no output, or no version of the operators.")
    gate = _gate_in(texts, stored, path)
    version, output = opset_of(model), model.graph.output[0].name
    written = [node.SerializeToString(deterministic=True) for node in nodes]
    for branching in (False, True):
        wanted, tensors = _nodes(gate, version, output, branching=branching)
        alike = written == [node.SerializeToString(deterministic=True) for node in wanted]
        if alike:
            break
    if not alike or not _equal(stored, {tensor.name: tensor for tensor in tensors}):
        raise DamnatioError(f"{path} {CHANGED}: its nodes are not those of its record.")
    for node in nodes:
        model.graph.node.remove(node)
    for tensor in stored.values():
        model.graph.initializer.remove(tensor)
    for entry in [entry for entry in model.metadata_props if entry.key == NAME]:
        model.metadata_props.remove(entry)
    for entry in [entry for entry in model.graph.value_info if _is_own_name(entry.name)]:
        model.graph.value_info.remove(entry)
    _state_shapes(model, path)
    makers = [name for node in model.graph.node for name in node.output]
    read = [name for node in model.graph.node for name in node.input]
    shown = [entry.name for entry in model.graph.output]
    odd = [name for name in read if _is_own_name(name) and name != RAW] + [name for name in shown if _is_own_name(name)]
    if RAW not in makers or output in makers or odd or len(set(shown)) < len(shown):
        raise DamnatioError(f"{path} {CHANGED}: the gate is not the end of the graph.")
    _rename(model, RAW, output)
    return gate


def gate_alone(gate: Gate, version: int) -> "ModelProto":
    """A graph of the gate alone: raw vectors in, altered ones out."""
    from onnx import helper

    nodes, stored = _nodes(gate, version, "out")
    sides: list[str | int | None] = ["n", gate.directions.shape[1]]
    ends = [helper.make_tensor_value_info(name, FLOAT, sides) for name in (RAW, "out")]
    graph = helper.make_graph(nodes, NAME, ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)


def probes(gate: Gate, most: int = 32) -> Tensor:
    """Raw vectors beside the gate, on its ramp and within it, for some of its people. Images of noise never come near
    anybody."""
    random = torch.Generator().manual_seed(0)
    places = torch.linspace(0, len(gate.directions) - 1, min(most, len(gate.directions))).long()
    centres, offsets = gate.directions[places].cpu(), gate.offsets[places].cpu()
    across = torch.randn(centres.shape, generator=random)
    across = F.normalize(across - (across * centres).sum(1, keepdim=True) * centres, dim=1)
    found = []
    for share in (-1.0, 0.3, 0.7, 1.5):
        cosine = (offsets + share * gate.ramp.cpu()).clamp(-1, 1)[:, None]
        found.append(cosine * centres + (1 - cosine.square()).sqrt() * across)
    lengths = 1 + 20 * torch.rand(len(found) * len(places), 1, generator=random)
    return torch.cat(found) * lengths


def _nodes(
    gate: Gate, version: int, output: str, *, branching: bool = False
) -> "tuple[list[NodeProto], list[TensorProto]]":
    """The equations of `models/gate.py`, line by line, and the tensors that they read. `branching`: as earlier versions
    wrote them, with the scatter in the branch of an `If`."""
    made = _Nodes(version)
    for name, tensor in gate.tensors().items():
        if name != f"{PREFIX}{RECORD}":
            made.store(name.removeprefix(PREFIX), -tensor if name == f"{PREFIX}offsets" else tensor)
    made.store("zero", torch.tensor(0.0))
    made.store("one", torch.tensor(1.0))
    if version >= REDUCTIONS_TAKE_AXES:
        made.store("axis", torch.tensor([1]))
    made.reduce("ReduceL2", "raw", "length")
    made.add("Div", "raw length", "unit")
    made.add("Gemm", "unit directions offsets", "heights", transB=1)
    made.reduce("ReduceMax", "heights", "height")
    made.add("Div", "height ramp", "slope")
    made.clip("slope", "opening")
    made.add("Greater", "opening zero", "inside")
    hiding = _Nodes(version) if branching else made
    hiding.add("Gemm", "unit frequencies phases", "angles", transB=1)
    hiding.add("Cos", "angles", "waves")
    hiding.add("Gemm", "waves spread mean", "drawn", transB=1)
    hiding.reduce("ReduceL2", "drawn", "drawn_length")
    hiding.add("Div", "drawn drawn_length", "stranger")
    hiding.add("Sub", "one opening", "rest")
    hiding.add("Mul", "rest unit", "kept")
    hiding.add("Mul", "opening stranger", "hidden")
    hiding.add("Add", "kept hidden", "mixed")
    hiding.reduce("ReduceL2", "mixed", "mixed_length")
    hiding.add("Div", "mixed mixed_length", "mixed_unit")
    hiding.add("Mul", "mixed_unit length", "altered")
    if branching:
        hiding.add("Where", "inside altered raw", "some_hidden")
        made.branch(hiding, output, gate.directions.shape[1])
    else:
        made.add("Where", "inside altered raw", "out", output)
    return made.nodes, made.stored


class _Nodes:
    """Nodes and stored tensors under the names of the gate, for a version of ONNX's operators."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.nodes: list[NodeProto] = []
        self.stored: list[TensorProto] = []

    def store(self, name: str, tensor: Tensor) -> None:
        from onnx import numpy_helper

        self.stored.append(numpy_helper.from_array(tensor.detach().cpu().contiguous().numpy(), f"{OWN}{name}"))

    def add(self, kind: str, inputs: str, name: str, output: str = "", **attributes: Any) -> None:
        """Add a node. `output` is the name of what it makes, if that is not the gate's."""
        from onnx import helper

        own = f"{OWN}{name}"
        read = [f"{OWN}{value}" for value in inputs.split()]
        self.nodes.append(helper.make_node(kind, read, [output or own], name=own, **attributes))

    def branch(self, hiding: "_Nodes", output: str, dim: int) -> None:
        """The end of a gate as earlier versions wrote it: `hiding` runs only if somebody is in the gate."""
        from onnx import helper

        self.add("Cast", "inside", "marks", to=FLOAT)
        self.add("ReduceSum", "marks", "people_inside", keepdims=0)
        self.add("Greater", "people_inside zero", "anybody")
        passing = _Nodes(self.version)
        passing.add("Identity", "raw", "all_passed")
        graphs = {}
        for branch, part, value in (("then", hiding, "some_hidden"), ("else", passing, "all_passed")):
            entry = helper.make_tensor_value_info(f"{OWN}{value}", FLOAT, [None, dim])
            graphs[f"{branch}_branch"] = helper.make_graph(part.nodes, f"{OWN}{value}", [], [entry])
        self.add("If", "anybody", "out", output, **graphs)

    def reduce(self, kind: str, value: str, name: str) -> None:
        """Reduce the second axis to one place."""
        if self.version < REDUCTIONS_TAKE_AXES:
            self.add(kind, value, name, axes=[1], keepdims=1)
            return
        self.add(kind, f"{value} axis", name, keepdims=1)

    def clip(self, value: str, name: str) -> None:
        if self.version < CLIP_TAKES_INPUTS:
            self.add("Clip", value, name, min=0.0, max=1.0)
        else:
            self.add("Clip", f"{value} zero one", name)


def _gate_in(texts: list[str | bytes], stored: "dict[str, TensorProto]", path: Path) -> Gate:
    """The gate of the stored tensors and the record of a file."""
    from onnx import numpy_helper

    if len(texts) != 1:
        raise DamnatioError(f"{path} {CHANGED}: it has {len(texts)} records in its metadata, where one is expected.")
    text = texts[0] if isinstance(texts[0], bytes) else texts[0].encode()
    tensors = {f"{PREFIX}{RECORD}": torch.tensor(list(text), dtype=torch.uint8)}
    for name in [name for name in TENSORS if name != RECORD]:
        if (tensor := stored.get(f"{OWN}{name}")) is not None:
            try:
                values = torch.from_numpy(numpy_helper.to_array(tensor).copy())
            except (ValueError, TypeError) as error:
                raise DamnatioError(f"{path} {CHANGED}: its tensor {name} cannot be read.") from error
            tensors[f"{PREFIX}{name}"] = -values if name == "offsets" and values.is_floating_point() else values
    return Gate.read(tensors, path)


def _is_own(node: "NodeProto") -> bool:
    return any(_is_own_name(name) for name in (node.name, *node.output) if name != RAW)


def _is_own_name(name: str | bytes) -> bool:
    """Whether a name is one of the gate. A damaged one, which is not UTF-8, comes as bytes."""
    return isinstance(name, str) and name.startswith(OWN)


def _equal(stored: "dict[str, TensorProto]", wanted: "dict[str, TensorProto]") -> bool:
    from onnx import numpy_helper

    if stored.keys() != wanted.keys():
        return False
    for name, tensor in stored.items():
        try:
            ours, theirs = numpy_helper.to_array(wanted[name]), numpy_helper.to_array(tensor)
        except (ValueError, TypeError):
            return False
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape or ours.tobytes() != theirs.tobytes():
            return False
    return True


def _rename(model: "ModelProto", old: str, new: str) -> None:
    """Give a value that nodes make another name, wherever it is made or read."""
    for node in model.graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name == old:
                    names[place] = new
