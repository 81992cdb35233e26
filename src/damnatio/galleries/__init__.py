"""Stores of templates and photographs, by the scheme of their address. One store is one file; `base.Store` is the
contract, and `opening.open_store` opens what an address names."""

from typing import TYPE_CHECKING

from damnatio.support.registry import Registry

if TYPE_CHECKING:
    from damnatio.galleries.base import Store

STORES: Registry[type["Store"]] = Registry("kind of gallery", __name__)
