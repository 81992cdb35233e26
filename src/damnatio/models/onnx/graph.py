"""An ONNX recognition model as a network that can be trained, and written back into the same graph.

The graph is interpreted node by node, so nothing of its structure is guessed. The float weights of a layer become
parameters; a BatchNormalization becomes a real one, which follows its batches in training. The nodes at the beginning
of the graph that normalise the input stay as they are. Writing puts the parameters back where they were read: inputs,
outputs, operators and names do not change, so the new file can replace the old one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from damnatio.backbones.cutting import Cuttable, place_of
from damnatio.models.onnx.operators import OPERATORS

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

FLOAT = 1
"""float32, in the numbers of ONNX's TensorProto.DataType"""

_WEIGHTS = {
    "BatchNormalization": (1, 2, 3, 4),
    "Conv": (1, 2),
    "Gemm": (0, 1, 2),
    "MatMul": (0, 1),
    "PRelu": (1,),
    "LayerNormalization": (1, 2),
    "Add": (0, 1),  # a bias, or positions
    "Mul": (0, 1),  # the factor of a normalisation that the exporter took apart
}
"""operator -> the places of its inputs that can be weights"""
_ELEMENTWISE = {"Sub", "Add", "Mul", "Div", "Identity", "Cast"}
_VIEWS = {"Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Cast", "CastLike"}


class Interpreter(nn.Module):
    """The steps from the value `input` to the value `output`, with the tensors that they read."""

    one_by_one = False
    """whether the graph was traced with a batch of one, which its shapes then state"""

    def __init__(self, source: str, output: str) -> None:
        super().__init__()
        self.input, self.output = source, output
        self.tensors, self.norms = _Named(), nn.ModuleDict()
        self._shapes: dict[str, Tensor] = {}
        self._steps: list[_Step] = []

    def forward(self, x: Tensor) -> Tensor:
        values: dict[str, Any] = {self.input: x, "": None, **self._shapes, **dict(self.tensors.items())}
        for step in self._steps:
            inputs = [values[name] for name in step.inputs]
            if step.norm:
                outputs = self.norms[step.norm](inputs[0])
            else:
                outputs = OPERATORS[step.operator](inputs, {**step.attributes, "one_by_one": self.one_by_one})
            named = (outputs,) if isinstance(outputs, Tensor) else outputs
            values.update(zip(step.outputs, named, strict=False))  # nothing reads the mask of a Dropout
            for name in step.done:
                del values[name]
        out: Tensor = values[self.output]
        return out


class GraphNetwork(Interpreter, Cuttable):
    """The network of an ONNX model: N x 3 x size x size -> N x dim. It keeps the model that it is given as
    its skeleton, and changes it."""

    def __init__(self, model: "ModelProto") -> None:
        super().__init__(inputs_of(model)[0].name, model.graph.output[0].name)
        self.preprocesses = len(_raw(model, self.input)) > 1
        """whether the graph normalises its input itself, as graphs exported by MXNet do"""
        weights = _own_weights(model, self.input)
        values = _constants(model)
        self._norm_tensors: dict[str, tuple[str, str]] = {}
        opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
        for node in model.graph.node:
            if node.op_type == "Constant":
                continue
            step = _Step(node.op_type, list(node.input), list(node.output))
            step.attributes = {"opset": opset, "outputs": len(node.output), **_attributes(node)}
            if node.op_type == "BatchNormalization":
                step.norm = f"norm{len(self.norms)}"
                self.norms[step.norm] = _batch_norm([values[name] for name in step.inputs[1:]], step.attributes)
                places = ("weight", "bias", "running_mean", "running_var")
                names = zip(step.inputs[1:], places, strict=True)
                self._norm_tensors |= {name: (step.norm, place) for name, place in names}
                step.inputs = step.inputs[:1]
            self._steps.append(step)
        for name in sorted({name for step in self._steps for name in step.inputs} & set(values)):
            if values[name].is_floating_point():
                self.tensors.add(name, nn.Parameter(values[name]) if name in weights else values[name])
            else:
                self._shapes[name] = values[name]
        _mark_last_uses(self._steps, self.output)
        self.skeleton = model
        for tensor in model.graph.initializer:
            if tensor.name in weights or tensor.name in self._norm_tensors:
                _clear(tensor)  # it is a parameter now, and kept once

    def cut_points(self) -> list[str]:
        """The values, in order, such that everything after them is computed from that one value."""
        made, found = self._made(), []
        last = {name: place for place, step in enumerate(self._steps) for name in step.inputs if name in made}
        alive = {self.input}
        for place, step in enumerate(self._steps[:-1]):
            alive = {name for name in (*alive, *made.intersection(step.outputs)) if last.get(name, -1) > place}
            if alive == {step.outputs[0]}:
                found.append(step.outputs[0])
        return found

    def usual_cut(self) -> str | None:
        points = self.cut_points()
        return points[len(points) * 3 // 4] if points else None

    def cut(self, point: str) -> tuple[Interpreter, Interpreter]:
        place_of(point, self.cut_points())
        made = self._made()
        place = next(place for place, step in enumerate(self._steps) if point in step.outputs)
        after = [step for step in self._steps[place + 1 :] if made.intersection(step.outputs)]
        constant = [step for step in self._steps if not made.intersection(step.outputs)]
        before = [step for step in self._steps[: place + 1] if made.intersection(step.outputs)]
        return self._between(self.input, point, constant + before), self._between(point, self.output, constant + after)

    def _made(self) -> set[str]:
        """The values that depend on the image."""
        made = {self.input}
        for step in self._steps:
            if made.intersection(step.inputs):
                made.update(step.outputs)
        return made

    def _between(self, source: str, output: str, steps: "list[_Step]") -> Interpreter:
        """The network from one value to another, by these steps."""
        network = Interpreter(source, output)
        network.one_by_one = self.one_by_one
        network._steps = [replace(step, done=[]) for step in steps]
        _mark_last_uses(network._steps, output)
        read = {name for step in steps for name in step.inputs}
        network._shapes = {name: value for name, value in self._shapes.items() if name in read}
        for name, tensor in self.tensors.items():
            if name in read:
                network.tensors.add(name, tensor)
        for step in steps:
            if step.norm:
                network.norms[step.norm] = self.norms[step.norm]
        return network

    def to_model(self) -> "ModelProto":
        """The graph as it was read, with the present weights."""
        from onnx import ModelProto

        model = ModelProto()
        model.CopyFrom(self.skeleton)
        trained = dict(self.tensors.items())
        for tensor in model.graph.initializer:
            if tensor.name in self._norm_tensors:
                norm, place = self._norm_tensors[tensor.name]
                _fill(tensor, getattr(self.norms[norm], place))
            elif isinstance(trained.get(tensor.name), nn.Parameter):
                _fill(tensor, trained[tensor.name])
        return model


@dataclass
class _Step:
    operator: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    norm: str = ""
    done: list[str] = field(default_factory=list)
    """values that no later step reads"""


class BatchNorm(nn.modules.batchnorm._BatchNorm):
    """BatchNorm over the second axis, for any number of axes."""

    def _check_input_dim(self, input: Tensor) -> None:
        pass


class _Named(nn.Module):
    """Tensors by the names of a file, some of which torch would refuse as names."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: dict[str, str] = {}

    def add(self, name: str, tensor: Tensor) -> None:
        key = name.replace(".", "/")
        while hasattr(self, key):
            key += "_"
        if isinstance(tensor, nn.Parameter):
            self.register_parameter(key, tensor)
        else:
            self.register_buffer(key, tensor, persistent=False)
        self._keys[name] = key

    def items(self) -> Iterator[tuple[str, Tensor]]:
        for name, key in self._keys.items():
            yield name, getattr(self, key)


def inputs_of(model: "ModelProto") -> list[Any]:
    """The inputs that a caller gives. Old files list the weights among the inputs as well."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [entry for entry in model.graph.input if entry.name not in weights]


def _own_weights(model: "ModelProto", source: str) -> set[str]:
    """Give each layer tensors of its own, and return their names. Exporters store equal tensors once, and training must
    be free to make them differ."""
    graph = model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    raw, taken, found = _raw(model, source), {*tensors, *makers, source}, set()
    for node in graph.node:
        if node.op_type in ("Add", "Mul") and raw.intersection(node.output):
            continue  # it normalises the input
        for place in _WEIGHTS.get(node.op_type, ()):
            name = node.input[place] if place < len(node.input) else ""
            tensor = _behind(name, tensors, makers, {"Identity"})
            if tensor is None:
                tensor = _behind(name, tensors, makers, _VIEWS)
                if tensor is not None and tensor.data_type == FLOAT and tensor.name in tensors:
                    found.add(tensor.name)
                continue
            if tensor.data_type != FLOAT or (node.op_type in ("Add", "Mul") and _count(tensor) == 1):
                continue
            own = tensor.name if tensor.name in tensors and tensor.name not in found else ""
            if not own:
                own = name
                while own in taken:
                    own += "_"
                graph.initializer.add().CopyFrom(tensor)
                graph.initializer[-1].name = own
            node.input[place] = own
            found.add(own)
            taken.add(own)
    read = {name for node in graph.node for name in node.input} | {entry.name for entry in graph.output}
    for node in [node for node in graph.node if node.op_type == "Identity" and node.output[0] not in read]:
        graph.node.remove(node)
    return found


def _raw(model: "ModelProto", source: str) -> set[str]:
    """The input, and the values computed from it by arithmetic with constants only."""
    raw, constant = {source}, set(_constants(model))
    for node in model.graph.node:
        others = [name for name in node.input if name and name not in raw]
        if node.op_type in _ELEMENTWISE and len(others) < len(node.input) and constant.issuperset(others):
            raw.update(node.output)
    return raw


def _behind(
    name: str, tensors: dict[str, "TensorProto"], makers: dict[str, "NodeProto"], views: set[str]
) -> "TensorProto | None":
    """The stored tensor behind a name, through operators that only pass it on."""
    while name not in tensors:
        node = makers.get(name)
        if node is None:
            return None
        if node.op_type == "Constant":
            (attribute,) = node.attribute
            return attribute.t if attribute.name == "value" else None
        if node.op_type not in views:
            return None
        name = node.input[0]
    return tensors[name]


def _constants(model: "ModelProto") -> dict[str, Tensor]:
    """Initialisers and the values of Constant nodes."""
    from onnx import numpy_helper

    values = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            (value,) = _attributes(node).values()
            values[node.output[0]] = value if isinstance(value, Tensor) else torch.tensor(value)
    return values


def _attributes(node: "NodeProto") -> dict[str, Any]:
    from onnx import TensorProto, helper, numpy_helper

    values = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, TensorProto):
            value = torch.from_numpy(numpy_helper.to_array(value).copy())
        values[attribute.name] = value.decode() if isinstance(value, bytes) else value
    return values


def _batch_norm(tensors: list[Tensor], attributes: dict[str, Any]) -> BatchNorm:
    norm = BatchNorm(len(tensors[0]), attributes.get("epsilon", 1e-5), 1 - attributes.get("momentum", 0.9))
    for place, tensor in zip(("weight", "bias", "running_mean", "running_var"), tensors, strict=True):
        getattr(norm, place).data.copy_(tensor)
    return norm


def _mark_last_uses(steps: list[_Step], output: str) -> None:
    made = {name for step in steps for name in step.outputs}
    last = {name: step for step in steps for name in step.inputs if name in made and name != output}
    for name, step in last.items():
        step.done.append(name)


def _count(tensor: "TensorProto") -> int:
    return int(torch.Size(tensor.dims).numel())


def _clear(tensor: "TensorProto") -> None:
    tensor.ClearField("raw_data")
    tensor.ClearField("float_data")


def _fill(tensor: "TensorProto", values: Tensor) -> None:
    tensor.raw_data = values.detach().cpu().contiguous().numpy().astype("<f4").tobytes()
