"""The contract of a method in closed form: embeddings under f* in, a map of embeddings out. Nothing is trained.

The altered model is the network as it was and the map behind it, `f(x) = map(f*(x))`, in one file.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from damnatio.methods.base import AnySettings
from damnatio.methods.gate_widths import Photographs
from damnatio.methods.strangers import Strangers
from damnatio.models.gate import EmbeddingMap


@dataclass(frozen=True)
class Known:
    """What a closed form may use: unit vectors under f*."""

    people: Sequence[Photographs]
    """the people to forget, by their forget-train images"""
    strangers: Strangers | None
    """people who are not to be forgotten, to learn from how strangers' scores lie; None if there are none at hand"""
    dim: int
    seed: int
    spared: Strangers | None = None
    """whom the map must not change if it can be helped; None: the strangers above"""


class ClosedForm(ABC):
    """One way to forget without training. `Map` is the class of the map that `alter` makes: a module whose buffers are
    its whole state, and whose `read` makes it of them again when the model is loaded."""

    Settings: ClassVar[type[AnySettings]]
    Map: ClassVar[type[EmbeddingMap]]
    title: ClassVar[str]
    reference: ClassVar[str]
    kind: ClassVar[str] = "outside"
    reconstruction: ClassVar[bool] = False
    behind: ClassVar[bool] = True

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @abstractmethod
    def alter(self, known: Known) -> EmbeddingMap:
        """The map that follows the network."""
