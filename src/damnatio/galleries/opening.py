"""Opening a store by its address."""

from damnatio.galleries.address import Address, parse, store_of
from damnatio.galleries.base import Store


def open_store(address: str | Address, write: bool = False) -> Store:
    """The store, open, as a context manager."""
    found = parse(address) if isinstance(address, str) else address
    store = store_of(found.scheme, found.shown)(found)
    try:
        store.open(write)
    except BaseException:
        store.close()
        raise
    return store
