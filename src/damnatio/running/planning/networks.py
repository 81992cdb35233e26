"""What one step of a network costs: operations and memory, counted without computing anything.

The network, its head and the batch are fake tensors, which have shapes and no values. Every operation of the forward
and the backward pass is seen: its multiplications are counted, and so are the bytes that are alive after it.
"""

import weakref
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from damnatio.backbones import BACKBONES
from damnatio.backbones.cutting import cut
from damnatio.models.importing import import_model
from damnatio.models.store import ONNX, new_head
from damnatio.recipe.schema import ModelSettings


@dataclass(frozen=True)
class Network:
    """The part of a network that is trained, at one batch."""

    parameters: int
    forward: float
    """floating-point operations of one image; a multiplication and its addition are two"""
    gradient: float
    """of one image, forward and backward"""
    activations: int
    """most bytes that are alive in a step beside weights, gradients and the optimiser's state"""
    cut: tuple[int, ...]
    """shape of what a frozen trunk passes on for one image; empty without one"""


@cache
def network_of(
    backbone: str, dim: int, size: int, *, batch: int, precision: str, freeze: str | None, weights: str = ""
) -> Network:
    """The cost of the recipe's network. A frozen trunk is left out: its activations are read from the disk."""
    whole = _built(backbone, dim, size, weights)
    with FakeTensorMode(allow_non_fake_inputs=True):
        x: Tensor = torch.empty(batch, 3, size, size, device="cpu")
        network = whole
        shape: tuple[int, ...] = ()
        if freeze is not None:
            trunk, network = cut(whole, freeze)
            with torch.no_grad():
                x = _faked(trunk).eval()(x)
            shape = tuple(x.shape[1:])
        _faked(network).train()
        half = precision == "bf16"
        with _Live() as live, torch.autocast("cpu", torch.bfloat16, enabled=half):
            with FlopCounterMode(display=False) as counter:
                out = network(x)
            loss = out.float().sum()
            del out
            loss.backward()
        forward = counter.get_total_flops() / batch
    again = any(getattr(module, "checkpointing", False) for module in network.modules())
    return Network(
        parameters=sum(p.numel() for p in network.parameters()),
        forward=forward,
        gradient=(4 if again else 3) * forward,  # the backward pass is two products where the forward pass is one
        activations=live.peak,
        cut=shape,
    )


@cache
def logits_bytes(model: str, rows: int, batch: int) -> int:
    """Most bytes that are alive in the head beside its matrix and the gradient of it. `model` is the section in JSON:
    so a call can be kept."""
    settings = ModelSettings.model_validate_json(model)
    with torch.device("meta"):
        head = new_head(settings, rows)
    with FakeTensorMode(allow_non_fake_inputs=True):
        _faked(head)
        raw = torch.empty(batch, settings.dim, device="cpu", requires_grad=True)
        labels = torch.empty(batch, dtype=torch.long, device="cpu")
        with _Live() as live:
            head(raw, labels).backward()
    return max(int(live.peak) - 4 * rows * settings.dim, 0)


def _built(backbone: str, dim: int, size: int, weights: str) -> nn.Module:
    if backbone == ONNX:  # a graph has no code to build it from
        return import_model(ModelSettings(backbone=backbone, dim=dim, weights=weights or None), size)[0]
    with torch.device("meta"):
        network: nn.Module = BACKBONES.get(backbone)(size, dim)
    return network


def _faked(module: nn.Module) -> nn.Module:
    """The module with fake tensors on a processor: autocast knows no device `meta`."""
    for part in module.modules():
        for name, parameter in list(part.named_parameters(recurse=False)):
            fake = torch.empty(parameter.shape, dtype=parameter.dtype, device="cpu")
            setattr(part, name, nn.Parameter(fake, requires_grad=parameter.requires_grad))
        for name, buffer in list(part.named_buffers(recurse=False)):
            setattr(part, name, torch.empty(buffer.shape, dtype=buffer.dtype, device="cpu"))
    return module


class _Live(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of tensors that operations made and nobody has dropped yet."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = {id(leaf.untyped_storage()) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self._count(leaf.untyped_storage(), given)
        return out

    def _count(self, storage: torch.UntypedStorage, given: set[int]) -> None:
        if id(storage) in given or storage in self._known:  # a view, or a value written in place
            return
        size = storage.nbytes()
        self._known.add(storage)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._drop, size)

    def _drop(self, size: int) -> None:
        self.now -= size
