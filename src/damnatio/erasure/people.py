"""The people of a request, from their sources: who is there, on which photographs, and what had to be left out.

Everybody whom PEOPLE names is accounted for, also those of whom no photograph can be used.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from damnatio.captures import instances_of, medoids, pixel_distances
from damnatio.erasure.embedder import Embedder, units_of
from damnatio.faces import SOURCES, detect
from damnatio.faces.base import FaceSource, Images, UnreadableError
from damnatio.methods.strangers import EACH, MOST, Strangers, Units
from damnatio.support.errors import DamnatioError
from damnatio.support.progress import progress
from damnatio.support.tables import Table, codes_of, groups_of

CHUNK = 256
"""photographs of strangers that are read at once"""


@dataclass(frozen=True)
class LeftOut:
    image: str
    reason: str


@dataclass(frozen=True)
class Person:
    """Somebody to forget: the photographs that can be read, and their unit vectors under f*."""

    name: str
    images: list[str]
    instances: NDArray[np.int64]
    """the capture instance of each image"""
    places: NDArray[np.int64]
    """the place of the image that is kept of each instance"""
    every: Units
    """f* of each image"""
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def kept(self) -> list[str]:
        return [self.images[place] for place in self.places]

    @property
    def units(self) -> Units:
        """f* of the kept images"""
        return self.every[self.places]

    @property
    def given(self) -> int:
        """files of the person, readable or not"""
        return len(self.images) + len(self.left_out)


class FacesOf:
    """A source of faces, read person by person; no pixel is kept."""

    def __init__(self, path: Path, size: int, resize: bool) -> None:
        settings = detect(path, size=size, resize=resize)
        self.path = path
        self._source: FaceSource = SOURCES.get(settings.source)(settings)
        self._resizes = resize
        self.table = self._source.index()
        self.skipped = list(self._source.skipped)

    def people(self) -> Iterator[tuple[str, Table]]:
        """The name of each person with the rows of their photographs, in the order of names."""
        codes, names = codes_of(self.table["identity"])
        for name, rows in zip(names, groups_of(codes), strict=True):
            yield str(name), self.table.where(rows)

    def read(self, rows: Table) -> tuple[list[str], Images, list[LeftOut]]:
        """The names and pixels of the images that can be read, and the others with the reasons."""
        images, pixels, left_out = [], [], []
        for name, image in zip(rows["image"], self._source.read(rows), strict=True):
            if isinstance(image, UnreadableError):
                left_out.append(LeftOut(str(name), self._reason(str(image))))
            else:
                images.append(str(name))
                pixels.append(image)
        size = self._source.settings.size
        return images, np.stack(pixels) if pixels else np.zeros((0, size, size, 3), np.uint8), left_out

    def photographs(self, person: str, images: list[str]) -> Images:
        """The pixels of some images of a person once more."""
        mine = self.table.where(self.table["identity"] == person)
        wanted = mine.where(np.isin(mine["image"].astype(str), images))
        names, pixels, _ = self.read(wanted)
        if sorted(names) != sorted(images):
            raise DamnatioError(f"Photographs of {person} in {self.path} changed while the erasure ran: run it again.")
        place = {name: i for i, name in enumerate(names)}
        return pixels[[place[name] for name in images]]

    def _reason(self, reason: str) -> str:
        head, found, _ = reason.partition(": set faces.")
        return f"{head}; --resize brings square faces to the model's size" if found and not self._resizes else head


def read_people(faces: FacesOf, embedder: Embedder, threshold: float) -> list[Person]:
    """Everybody whom the source names. A person of whom nothing can be read has no kept image."""
    found: dict[str, Person] = {}
    with progress("people", len(faces.table), "photographs") as advance:
        for name, rows in faces.people():
            images, pixels, left_out = faces.read(rows)
            found[name] = _person(name, images, pixels, left_out, embedder, threshold)
            advance(len(rows))
    for image, identity, reason in faces.skipped:
        if identity:
            known = found.setdefault(identity, _nobody(identity, embedder.card.dim, []))
            if image != identity:  # else it is the folder itself
                known.left_out.append(LeftOut(image, reason))
    return [found[name] for name in sorted(found)]


def _person(
    name: str, images: list[str], pixels: Images, left_out: list[LeftOut], embedder: Embedder, threshold: float
) -> Person:
    if not images:
        return _nobody(name, embedder.card.dim, left_out)
    distances = pixel_distances(pixels)
    instances = instances_of(distances, threshold)
    units = units_of(embedder.raw(pixels), lambda place: images[place])
    return Person(name, images, instances, np.unique(medoids(distances, instances)), units, left_out)


def _nobody(name: str, dim: int, left_out: list[LeftOut]) -> Person:
    return Person(name, [], np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, dim)), left_out)


# --- strangers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Crowd:
    """People who are not to be forgotten, of one source, by the name `pool/person`."""

    strangers: Strangers
    images: list[str]
    """the name of each image whose unit vector is at hand"""
    cut: str
    """what was left out to save time; empty: nothing"""


def read_strangers(faces: FacesOf, pool: str, embedder: Embedder) -> Crowd:
    """Some photographs of the people of a source: at most `EACH` of each of at most `MOST`, taken evenly."""
    everyone = list(groups_of(codes_of(faces.table["identity"])[0]))
    chosen = [everyone[place] for place in evenly(len(everyone), MOST)]
    rows = np.concatenate([group[evenly(len(group), EACH)] for group in chosen])
    images: list[str] = []
    owners: list[str] = []
    parts: list[Units] = []
    with progress(pool, len(rows), "photographs") as advance:
        for start in range(0, len(rows), CHUNK):
            block = faces.table.where(rows[start : start + CHUNK])
            names, pixels, _ = faces.read(block)
            if names:
                parts.append(units_of(embedder.raw(pixels), lambda place, names=names: names[place]))  # type: ignore[misc]
                owner = dict(zip(block["image"], block["identity"], strict=True))
                images += names
                owners += [f"{pool}/{owner[name]}" for name in names]
            advance(len(block))
    if not images:
        raise DamnatioError(f"No photograph in {faces.path} can be used: `damnatio faces {faces.path}` says why.")
    codes, people = codes_of(np.array(owners, dtype=object))
    cut = ""
    if len(chosen) < len(everyone) or len(rows) < len(faces.table):
        cut = (
            f"Of {faces.path}, {len(rows):,} of {len(faces.table):,} photographs were looked at, to save time: at most "
            f"{EACH} of each of at most {MOST:,} people, taken evenly."
        )
    return Crowd(Strangers(np.concatenate(parts), codes, [str(name) for name in people]), images, cut)


def evenly(count: int, most: int) -> NDArray[np.int64]:
    """At most so many places of 0 to count - 1, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def together(crowds: list[Strangers]) -> Strangers | None:
    """The people of several sources as one; None if there are none."""
    if not crowds:
        return None
    owners = np.concatenate([np.array(crowd.names, dtype=object)[crowd.codes] for crowd in crowds])
    codes, names = codes_of(owners)
    return Strangers(np.concatenate([crowd.units for crowd in crowds]), codes, [str(name) for name in names])
