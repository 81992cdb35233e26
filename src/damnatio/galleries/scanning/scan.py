"""The scan of a store: every class of its files, for a person who went and for people who stay."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from damnatio.galleries.items import Key
from damnatio.galleries.scanning.needles import Needles
from damnatio.galleries.scanning.verdicts import Scan

if TYPE_CHECKING:
    from damnatio.galleries.base import Store


def needles_of(store: "Store", keys: Iterable[Key]) -> Needles:
    """What to look for later: to be taken before the rows are deleted."""
    raise NotImplementedError


def scan_store(store: "Store", person: Needles, keys: Iterable[Key]) -> Scan:
    """Look for the person in all files of an open store, and for people who stay: all rows but `keys`. Before the
    delete it counts the fragments that are there, after it those that are left."""
    raise NotImplementedError
