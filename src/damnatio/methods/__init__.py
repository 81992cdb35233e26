"""Forgetting methods, by the paper's abbreviation. Each method is one file."""

from typing import TYPE_CHECKING

from damnatio.support.registry import Registry

if TYPE_CHECKING:
    from damnatio.methods.base import Method
    from damnatio.methods.closed_form import ClosedForm

METHODS: Registry["type[Method] | type[ClosedForm]"] = Registry("method", __name__)
