"""The free disk that a delete takes."""

from damnatio.galleries.base import Store
from damnatio.galleries.files import FileStore


def room_for_delete(store: Store) -> int:
    """The bytes that the delete writes before it frees any: a store of files is written anew."""
    return sum(path.stat().st_size for path in store.files()) if isinstance(store, FileStore) else 0
