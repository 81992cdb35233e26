"""Heads: margin-softmax losses over one row per training identity, by name."""

from typing import TYPE_CHECKING

from damnatio.support.registry import Registry

if TYPE_CHECKING:
    from damnatio.heads.base import Head

HEADS: Registry[type["Head"]] = Registry("head", __name__)
