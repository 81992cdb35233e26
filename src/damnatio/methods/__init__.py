"""Forgetting methods, by the paper's abbreviation. Each method is one file."""

from typing import TYPE_CHECKING

from damnatio.support.registry import Registry

if TYPE_CHECKING:
    from damnatio.methods.base import Method

METHODS: Registry[type["Method"]] = Registry("method", __name__)
