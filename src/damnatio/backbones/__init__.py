"""Backbones: networks from normalised images to unnormalised embeddings, by name."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from damnatio.support.registry import Registry

if TYPE_CHECKING:
    from torch import nn

BACKBONES: Registry[Callable[[int, int], "nn.Module"]] = Registry("backbone", __name__)
"""name -> factory (input size in pixels, embedding dimension) -> module."""
