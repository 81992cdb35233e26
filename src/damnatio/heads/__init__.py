"""Heads: margin-softmax losses over one class vector per retain identity, by name."""

from typing import TYPE_CHECKING

from damnatio.support.registry import Registry

if TYPE_CHECKING:
    from damnatio.heads.base import Head

HEADS: Registry[type["Head"]] = Registry("head", __name__)
