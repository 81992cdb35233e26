"""One pass over all rows of a store, for several who want to see them: a large store is read as seldom as possible."""

from itertools import chain
from typing import TYPE_CHECKING, Protocol

from damnatio.galleries.items import Block, Place
from damnatio.support.progress import progress

if TYPE_CHECKING:
    from damnatio.galleries.base import Store


NO_ROWS = Block([], [])


class Visitor(Protocol):
    def see(self, place: Place, block: Block) -> None:
        """The next rows. The first block of a place is empty: a place without rows is seen too."""


def walk(store: "Store", *visitors: Visitor, searched: bool = False, title: str = "read") -> None:
    """Show every block to every visitor; with `searched`, only of places that are searched. A live line on a terminal
    counts the rows."""
    with progress(title, None, "rows") as advance:
        for place in store.places():
            if searched and not place.searched:
                continue
            for block in chain([NO_ROWS], store.blocks(place.name)):
                for visitor in visitors:
                    visitor.see(place, block)
                advance(len(block.ids))
