"""Cut points: where a network can be divided into a trunk, which is run once, and a tail, which is trained."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import ClassVar

from torch import nn

from damnatio.models.maps import need_no_map
from damnatio.support.errors import DamnatioError


class Cuttable(ABC):
    """A network f = tail ∘ trunk for every cut point. A backbone that does not implement this is trained whole."""

    @abstractmethod
    def cut_points(self) -> list[str]:
        """The names of the cut points, in the order of the forward pass."""

    @abstractmethod
    def usual_cut(self) -> str | None:
        """The cut point that leaves about the last quarter of the depth to the tail."""

    @abstractmethod
    def cut(self, point: str) -> tuple[nn.Module, nn.Module]:
        """(trunk, tail): the trunk ends at this point. Both hold parameters of this network under their names."""


def cut(network: nn.Module, point: str) -> tuple[nn.Module, nn.Module]:
    """(trunk, tail) of a network, in the mode that the network is in."""
    need_no_map(network, "training its tail (forget.freeze)")
    if not isinstance(network, Cuttable):
        raise DamnatioError(
            f"forget.freeze: a {type(network).__name__} has no cut points, so '{point}' cannot be one. Leave it "
            "unset, or give the backbone cut points with damnatio.backbones.cutting."
        )
    trunk, tail = network.cut(point)
    return trunk.train(network.training), tail.train(network.training)


def place_of(point: str, points: list[str]) -> int:
    """The place of a cut point in the list; an unknown name is an error."""
    if point not in points:
        raise DamnatioError(f"forget.freeze: there is no cut point '{point}'. This network has {', '.join(points)}.")
    return points.index(point)


class CuttableSequence(nn.Sequential, Cuttable):
    """A sequence of named layers. It can be cut after each layer but the last, and within a layer that is itself a
    sequence (`layer3.1`)."""

    USUAL: ClassVar[str]

    def cut_points(self) -> list[str]:
        return [name for name, _ in self.named_children()][:-1]

    def usual_cut(self) -> str:
        return self.USUAL

    def cut(self, point: str) -> tuple[nn.Module, nn.Module]:
        return _cut_sequence(self, point)


def _cut_sequence(sequence: nn.Sequential, point: str) -> tuple[nn.Sequential, nn.Sequential]:
    children = list(sequence.named_children())
    outer, _, inner = point.partition(".")
    if not inner:
        after = place_of(point, [name for name, _ in children[:-1]]) + 1
        return nn.Sequential(OrderedDict(children[:after])), nn.Sequential(OrderedDict(children[after:]))
    place = place_of(outer, [name for name, _ in children])
    layer = children[place][1]
    if not isinstance(layer, nn.Sequential):
        raise DamnatioError(f"forget.freeze: {outer} is one layer and cannot be cut at '{point}'.")
    first, second = _cut_sequence(layer, inner)
    return (
        nn.Sequential(OrderedDict([*children[:place], (outer, first)])),
        nn.Sequential(OrderedDict([(outer, second), *children[place + 1 :]])),
    )
