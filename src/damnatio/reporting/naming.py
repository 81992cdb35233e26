"""Pseudonyms: a page names people by number unless the recipe asks for their names (`report.names`).

The numbers are those of the sorted names in the table of partitions, so every page on one collection has the same.
"""

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from damnatio.partitions import Partitions
from damnatio.support.tables import codes_of


class Naming:
    """What a page calls the people of these partitions and their images. An image that is compared is known by the
    number that it has among those of its person."""

    def __init__(self, partitions: Partitions, *, names: bool) -> None:
        self.partitions, self.names = partitions, names

    def person(self, identity: str) -> str:
        return identity if self.names else self._people[identity]

    def image(self, image: str) -> str:
        """A template has the name of its identity."""
        return image if self.names else self._images.get(image) or self._people[image]

    def forgotten(self, scale: str) -> list[str]:
        """The identities that are to be forgotten, by the names of the table."""
        return sorted(set(self.partitions.table["identity"][self.partitions.in_forget_set(scale)].tolist()))

    @cached_property
    def _people(self) -> Mapping[str, str]:
        people = codes_of(self.partitions.table["identity"])[1].tolist()
        width = len(str(len(people)))
        return {name: f"person {number:0{width}d}" for number, name in enumerate(people, start=1)}

    @cached_property
    def _images(self) -> Mapping[str, str]:
        table = self.partitions.table.where(np.isin(self.partitions.table["row"], self.partitions.evaluated()))
        found: dict[str, str] = {}
        counts: dict[str, int] = {}
        for image, identity in sorted(zip(table["image"].tolist(), table["identity"].tolist(), strict=True)):
            counts[identity] = counts.get(identity, 0) + 1
            found[image] = f"{self._people[identity]}, photo {counts[identity]}"
        return found
