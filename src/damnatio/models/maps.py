"""The map behind a network in its file: which tensors are the map's, and which class reads them.

The tensors of the network keep their names. Those of the map begin with `gate.`.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from torch import Tensor, nn

from damnatio.models.gate import PREFIX, EmbeddingMap, Gate, Gated, ungated
from damnatio.support.errors import DamnatioError

GATE_AND_SCATTER = "GS"
"""the method whose map is a `Gate`"""


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """All tensors of a model by their names in a file: those of the network, and those of its map if it has one."""
    network, behind = ungated(model)
    tensors: dict[str, Tensor] = dict(network.state_dict())
    if behind is None:
        return tensors
    taken = [name for name in tensors if name.startswith(PREFIX)]
    if taken:
        raise DamnatioError(
            f"The network has a tensor {taken[0]}, and names that begin with {PREFIX} belong to the gate: rename that "
            "layer of the backbone."
        )
    return tensors | behind.tensors()


def parted(tensors: Mapping[str, Tensor], own: Collection[str] = ()) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors of the network and those of the map. `own` are names that the network has itself."""
    behind = {name: tensor for name, tensor in tensors.items() if name.startswith(PREFIX) and name not in own}
    return {name: tensor for name, tensor in tensors.items() if name not in behind}, behind


def followed(network: nn.Module, tensors: Mapping[str, Tensor], method: str, path: Path) -> nn.Module:
    """The network with the map that these tensors hold; the network itself if they hold none. `method` is the one that
    the card names; empty: the card names none."""
    if not tensors and not method:
        return network
    return Gated(network, _reader(method, path).read(tensors, path))


def method_of(model: nn.Module, stated: str) -> str:
    """The method that the card of a model must name; `stated` is the one that it names already."""
    behind = ungated(model)[1]
    if behind is None:
        return ""
    if isinstance(behind, Gate):
        return GATE_AND_SCATTER
    assert stated, "the card names the method of every other map, or nothing could read it again"
    return stated


def need_no_map(model: nn.Module, purpose: str) -> None:
    """Refuse a model that has a map, since `purpose` concerns the network alone."""
    if ungated(model)[1] is not None:
        raise DamnatioError(
            f"The model has a gate behind its network already, and {purpose} would change the embeddings that the gate "
            "was made for: alter the model that it was made from, or add people to the gate with `damnatio erase`."
        )


def _reader(method: str, path: Path) -> type[EmbeddingMap]:
    if method in ("", GATE_AND_SCATTER):
        return Gate
    from damnatio.methods import METHODS

    kind = getattr(METHODS.get(method), "Map", None)
    if kind is None:
        raise DamnatioError(f"The card of {path} says that {method} altered the model, and {method} has no map.")
    found: type[EmbeddingMap] = kind
    return found
