"""ONNX operators in torch: those that exporters use for face recognition networks and for the shapes in them.

Each operator takes its input tensors, None for one that is left out, and its attributes. The attributes also hold
`opset`, since several operators took their axes as an attribute before they took them as an input, and `one_by_one`:
whether the graph was traced with a batch of one, which its shapes then state. Shapes are int64 on the CPU.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Inputs = list[Any]
Attributes = dict[str, Any]
Operator = Callable[[Inputs, Attributes], Tensor | Sequence[Tensor]]

OPERATORS: dict[str, Operator] = {
    "Add": lambda i, a: i[0] + i[1],
    "Sub": lambda i, a: i[0] - i[1],
    "Mul": lambda i, a: i[0] * i[1],
    "Div": lambda i, a: _divided(i[0], i[1]),
    "Pow": lambda i, a: i[0] ** i[1],
    "Sqrt": lambda i, a: i[0].sqrt(),
    "Erf": lambda i, a: i[0].erf(),
    "Relu": lambda i, a: i[0].relu(),
    "Sigmoid": lambda i, a: i[0].sigmoid(),
    "Tanh": lambda i, a: i[0].tanh(),
    "Gelu": lambda i, a: F.gelu(i[0], approximate=a.get("approximate", "none")),
    "LeakyRelu": lambda i, a: F.leaky_relu(i[0], a.get("alpha", 0.01)),
    "Identity": lambda i, a: i[0],
    "Dropout": lambda i, a: i[0],  # exported for inference, where it does nothing
    "CastLike": lambda i, a: i[0].to(i[1].dtype),
    "MatMul": lambda i, a: i[0] @ i[1],
    "GlobalAveragePool": lambda i, a: i[0].mean(tuple(range(2, i[0].ndim)), keepdim=True),
    "Concat": lambda i, a: torch.cat(i, a["axis"]),
    "Transpose": lambda i, a: i[0].permute(a.get("perm", tuple(reversed(range(i[0].ndim))))),
    "Shape": lambda i, a: torch.tensor(i[0].shape)[a.get("start", 0) : a.get("end")],
    "Expand": lambda i, a: i[0] * torch.ones(i[1].tolist(), dtype=i[0].dtype, device=i[0].device),
}
"""name -> operator; the longer ones below register themselves"""


def operator(function: Operator) -> Operator:
    """Register a function under its name in ONNX: batch_normalization would be BatchNormalization."""
    OPERATORS["".join(word.capitalize() for word in function.__name__.split("_"))] = function
    return function


def _divided(a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.is_floating_point() or b.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def _axes(i: Inputs, a: Attributes, place: int = 1) -> list[int]:
    """The axes of an operator, from an attribute or an input; an empty list if it has none."""
    if len(i) > place and i[place] is not None:
        return [int(axis) for axis in i[place].tolist()]
    return list(a.get("axes", []))


def _padded(x: Tensor, a: Attributes, value: float = 0.0) -> Tensor:
    """ONNX pads the beginnings and then the ends: [top, left, bottom, right]."""
    if a.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise NotImplementedError(f"auto_pad={a['auto_pad']}")
    top, left, bottom, right = a.get("pads", (0, 0, 0, 0))
    return F.pad(x, (left, right, top, bottom), value=value) if any((top, left, bottom, right)) else x


@operator
def conv(i: Inputs, a: Attributes) -> Tensor:
    x, weight, bias = (*i, None)[:3]
    pads = tuple(a.get("pads", (0, 0, 0, 0)))
    if pads[:2] == pads[2:] and a.get("auto_pad", "NOTSET") == "NOTSET":
        padding = pads[:2]
    else:
        x, padding = _padded(x, a), (0, 0)
    strides, dilations = a.get("strides", (1, 1)), a.get("dilations", (1, 1))
    return F.conv2d(x, weight, bias, stride=strides, padding=padding, dilation=dilations, groups=a.get("group", 1))


@operator
def average_pool(i: Inputs, a: Attributes) -> Tensor:
    if (any(a.get("pads", ())) and not a.get("count_include_pad", 0)) or a.get("ceil_mode", 0):
        raise NotImplementedError("a pooling that counts some cells of its window")
    return F.avg_pool2d(_padded(i[0], a), a["kernel_shape"], a.get("strides", (1, 1)))


@operator
def max_pool(i: Inputs, a: Attributes) -> Tensor:
    if a.get("ceil_mode", 0):
        raise NotImplementedError("ceil_mode")
    x = _padded(i[0], a, value=-torch.inf)
    return F.max_pool2d(x, a["kernel_shape"], a.get("strides", (1, 1)), dilation=a.get("dilations", (1, 1)))


@operator
def p_relu(i: Inputs, a: Attributes) -> Tensor:
    x, slope = i[0], i[1]
    if slope.numel() == 1 or (x.ndim - slope.ndim == 1 and slope.numel() == len(slope) == x.shape[1]):
        return F.prelu(x, slope.flatten())  # one slope per channel, which torch computes without copies
    return torch.where(x >= 0, x, x * slope)


@operator
def clip(i: Inputs, a: Attributes) -> Tensor:
    low, high = (*i, None, None)[1:3]
    x: Tensor = i[0]
    return x.clamp(a.get("min") if low is None else low, a.get("max") if high is None else high)


@operator
def gemm(i: Inputs, a: Attributes) -> Tensor:
    x, y, bias = (*i, None)[:3]
    product: Tensor = (x.T if a.get("transA", 0) else x) @ (y.T if a.get("transB", 0) else y) * a.get("alpha", 1.0)
    return product if bias is None else product + bias * a.get("beta", 1.0)


@operator
def layer_normalization(i: Inputs, a: Attributes) -> Tensor:
    x, weight, bias = (*i, None)[:3]
    shape = x.shape[a.get("axis", -1) :]
    return F.layer_norm(x, shape, weight=weight, bias=bias, eps=a.get("epsilon", 1e-5))


@operator
def softmax(i: Inputs, a: Attributes) -> Tensor:
    x: Tensor = i[0]
    axis = a.get("axis", -1 if a["opset"] >= 13 else 1)
    if a["opset"] >= 13:
        return x.softmax(axis)
    return x.flatten(axis % x.ndim).softmax(-1).reshape(x.shape)  # one softmax over all axes from this one on


@operator
def flatten(i: Inputs, a: Attributes) -> Tensor:
    x: Tensor = i[0]
    axis = a.get("axis", 1)
    return x.flatten(1) if axis == 1 else x.reshape(x.shape[:axis].numel(), -1)


@operator
def reshape(i: Inputs, a: Attributes) -> Tensor:
    x: Tensor = i[0]
    shape = i[1].tolist() if len(i) > 1 else list(a["shape"])
    if not a.get("allowzero", 0):
        shape = [x.shape[place] if side == 0 else side for place, side in enumerate(shape)]
    if a["one_by_one"] and shape[0] == 1:
        shape[0] = len(x)
    return x.reshape(shape)


@operator
def squeeze(i: Inputs, a: Attributes) -> Tensor:
    x: Tensor = i[0]
    axes = _axes(i, a) or [axis for axis, side in enumerate(x.shape) if side == 1 and axis > 0]
    return x.squeeze(tuple(axes))


@operator
def unsqueeze(i: Inputs, a: Attributes) -> Tensor:
    x: Tensor = i[0]
    axes = _axes(i, a)
    for axis in sorted(axis % (x.ndim + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x


@operator
def reduce_mean(i: Inputs, a: Attributes) -> Tensor:
    x: Tensor = i[0]
    return x.mean(_axes(i, a) or list(range(x.ndim)), keepdim=bool(a.get("keepdims", 1)))


@operator
def reduce_sum(i: Inputs, a: Attributes) -> Tensor:
    x: Tensor = i[0]
    return x.sum(_axes(i, a) or list(range(x.ndim)), keepdim=bool(a.get("keepdims", 1)))


@operator
def reduce_l2(i: Inputs, a: Attributes) -> Tensor:
    x: Tensor = i[0]
    return x.square().sum(_axes(i, a) or list(range(x.ndim)), keepdim=bool(a.get("keepdims", 1))).sqrt()


@operator
def lp_normalization(i: Inputs, a: Attributes) -> Tensor:
    return F.normalize(i[0], p=a.get("p", 2), dim=a.get("axis", -1))


@operator
def gather(i: Inputs, a: Attributes) -> Tensor:
    x, index = i[0], i[1]
    axis = a.get("axis", 0) % x.ndim
    places = index.flatten().to(x.device) % x.shape[axis]
    picked: Tensor = x.index_select(axis, places)
    return picked.reshape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


@operator
def slice_(i: Inputs, a: Attributes) -> Tensor:
    x: Tensor = i[0]
    if "starts" in a:
        starts, ends, axes, steps = a["starts"], a["ends"], a.get("axes"), None
    else:
        starts, ends, axes, steps = (None if t is None else t.tolist() for t in (*i[1:], None, None)[:4])
    places = range(len(starts)) if axes is None else axes
    for start, end, axis, step in zip(starts, ends, places, steps or [1] * len(starts), strict=True):
        if step < 1:
            raise NotImplementedError("a slice that runs backwards")
        x = x[(*[slice(None)] * (axis % x.ndim), slice(start, end, step))]
    return x


@operator
def split(i: Inputs, a: Attributes) -> Sequence[Tensor]:
    x: Tensor = i[0]
    axis = a.get("axis", 0)
    sizes = i[1].tolist() if len(i) > 1 and i[1] is not None else a.get("split")
    if sizes is None:
        sizes = -(-x.shape[axis] // a["outputs"])
    return torch.split(x, sizes, axis)


@operator
def cast(i: Inputs, a: Attributes) -> Tensor:
    x: Tensor = i[0]
    if a["to"] not in TYPES:
        raise NotImplementedError(f"to={a['to']}")
    return x.to(TYPES[a["to"]])


TYPES = {1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool}
"""the numbers of ONNX's TensorProto.DataType"""
