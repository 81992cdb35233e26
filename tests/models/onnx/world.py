"""Small networks and their ONNX files."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.backbones import BACKBONES
from damnatio.models.exporting import write_onnx


def settled(name: str, size: int, dim: int) -> nn.Module:
    """An untrained network in evaluation, with statistics that are not those it started with."""
    torch.manual_seed(0)
    network = BACKBONES.get(name)(size, dim).train()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.rand_like(parameter), alpha=0.1)  # exporters keep equal ones once
        for _ in range(2):
            network(torch.rand(8, 3, size, size) * 2 - 1)
    return network.eval()


def exported(name: str, size: int, dim: int, path: Path, *, traced: bool) -> nn.Module:
    """The network and its file; `traced` as InsightFace's torch2onnx.py does it, for one image, batch left open."""
    network = settled(name, size, dim)
    if not traced:
        write_onnx(network, size, path)
        return network
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = torch.zeros(1, 3, size, size)
        torch.onnx.export(network, (one,), path, input_names=["input.1"], opset_version=11, dynamo=False)
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "None"
    onnx.save(model, path)
    return network


def nudge(network: nn.Module, size: int, steps: int) -> list[float]:
    """A few steps of training towards random embeddings; the loss before each."""
    torch.manual_seed(1)
    x, losses = torch.rand(8, 3, size, size) * 2 - 1, []
    network.train()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05)
    target = F.normalize(torch.randn(network(x).shape), dim=1)
    for _ in range(steps):
        loss: Tensor = (F.normalize(network(x), dim=1) - target).square().sum(1).mean()
        losses.append(float(loss.detach()))
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    network.eval()
    return losses


def small_model(
    nodes: Sequence[Any],
    tensors: dict[str, Any],
    *,
    shape: Sequence[Any] = ("N", 3, 8, 8),
    kind: int = TensorProto.FLOAT,
    outputs: Sequence[str] = ("out",),
    opset: int = 17,
) -> onnx.ModelProto:
    """A graph by hand from the input `x`."""
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()]
    graph = helper.make_graph(
        list(nodes),
        "small",
        [helper.make_tensor_value_info("x", kind, list(shape))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
