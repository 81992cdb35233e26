"""Forgetting methods, by the paper's abbreviation. One method, one file."""

from typing import TYPE_CHECKING

from damnatio.support.registry import Registry

if TYPE_CHECKING:
    from damnatio.methods.base import Method

METHODS: Registry[type["Method"]] = Registry("method", __name__)
