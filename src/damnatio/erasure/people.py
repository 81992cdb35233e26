"""The people of a request, from their sources: who is there, on which photographs, and what had to be left out.

Everybody whom PEOPLE names is accounted for, also those of whom no photograph can be used.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from damnatio.captures import instances_of, medoids
from damnatio.erasure.embedder import Embedder, units_of
from damnatio.erasure.request import BYSTANDERS, RETAIN, Request
from damnatio.faces import SOURCES, detect
from damnatio.faces.base import FaceSource, Images, UnreadableError
from damnatio.faces.distances import pixel_distances
from damnatio.methods.strangers import EACH, MOST, Strangers, Units, evenly
from damnatio.recipe.schema import CaptureSettings
from damnatio.support.errors import DamnatioError
from damnatio.support.progress import progress
from damnatio.support.tables import Table, codes_of, groups_of

CHUNK = 256
"""photographs of strangers that are read at once"""
NAMED = 10
"""files that one sentence names"""


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

    def names(self) -> list[str]:
        """Of everybody whom the source names, even of somebody of whom nothing can be read."""
        return sorted({*map(str, self.table["identity"]), *(identity for _, identity, _ in self.skipped if identity)})

    def left_out(self, of_people: bool) -> list[LeftOut]:
        """What the source holds beside people and, if asked for, what of people's files is no photograph."""
        return [LeftOut(image, reason) for image, identity, reason in self.skipped if of_people or not identity]

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


def unused(path: Path, left_out: Sequence[LeftOut]) -> list[str]:
    """The sentence that names what of a source is not used; none if all of it is."""
    if not left_out:
        return []
    named = ", ".join(f"{each.image} ({each.reason})" for each in left_out[:NAMED])
    more = f" and {len(left_out) - NAMED} more, which `damnatio faces {path}` names" if len(left_out) > NAMED else ""
    return [f"Of {path}, this is not used: {named}{more}."]


def read_people(faces: FacesOf, embedder: Embedder, captures: CaptureSettings) -> list[Person]:
    """Everybody whom the source names. A person of whom nothing can be read has no kept image."""
    found: dict[str, Person] = {}
    with progress("people", len(faces.table), "photographs") as advance:
        for name, rows in faces.people():
            images, pixels, left_out = faces.read(rows)
            found[name] = _person(name, images, pixels, left_out, embedder, captures)
            advance(len(rows))
    for image, identity, reason in faces.skipped:
        if identity:
            known = found.setdefault(identity, _nobody(identity, embedder.card.dim, []))
            if image != identity:  # else it is the folder itself
                known.left_out.append(LeftOut(image, reason))
    return [found[name] for name in sorted(found)]


def _person(
    name: str, images: list[str], pixels: Images, left_out: list[LeftOut], embedder: Embedder, captures: CaptureSettings
) -> Person:
    if not images:
        return _nobody(name, embedder.card.dim, left_out)
    distances = pixel_distances(pixels, captures.scale)
    instances = instances_of(distances, captures.threshold)
    units = units_of(embedder.raw(pixels), lambda place: images[place])
    return Person(name, images, instances, np.unique(medoids(distances, instances)), units, left_out)


def _nobody(name: str, dim: int, left_out: list[LeftOut]) -> Person:
    return Person(name, [], np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, dim)), left_out)


# --- strangers -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Crowd:
    """Photographs of people who are not to be forgotten, of one source."""

    faces: FacesOf
    pool: str
    rows: NDArray[np.int64]
    """the row of each photograph in the table of the source, ascending"""
    units: Units
    cut: list[str]
    """what was not looked at: to save time, or because it is no photograph"""

    @property
    def strangers(self) -> Strangers:
        """The people by the name `pool/person`."""
        owners = [f"{self.pool}/{name}" for name in self.faces.table["identity"][self.rows]]
        codes, names = codes_of(np.array(owners, dtype=object))
        return Strangers(self.units, codes, [str(name) for name in names])

    def completed(self, names: Sequence[str], embedder: Embedder) -> "Crowd":
        """With all photographs of the people of these names. Those that are there already stay as they are, and each
        person's others are embedded by themselves: nobody's vectors depend on who else is asked for."""
        rows, parts = [self.rows], [self.units]
        identities = self.faces.table["identity"]
        for name in names:
            if name.startswith(f"{self.pool}/"):
                mine = np.flatnonzero(identities == name.removeprefix(f"{self.pool}/"))
                found, units = _embedded(self.faces, np.setdiff1d(mine, self.rows), embedder)
                rows.append(found)
                parts.append(units)
        together = np.concatenate(rows)
        order = np.argsort(together, kind="stable")
        return replace(self, rows=together[order], units=np.concatenate(parts)[order])


def read_strangers(faces: FacesOf, pool: str, embedder: Embedder) -> Crowd:
    """Some photographs of the people of a source: at most `EACH` of each of at most `MOST`, taken evenly."""
    everyone = list(groups_of(codes_of(faces.table["identity"])[0]))
    chosen = [everyone[place] for place in evenly(len(everyone), MOST)]
    rows = np.sort(np.concatenate([group[evenly(len(group), EACH)] for group in chosen]))
    kept, units = _embedded(faces, rows, embedder, pool)
    if not len(kept):
        raise DamnatioError(f"No photograph in {faces.path} can be used: `damnatio faces {faces.path}` says why.")
    cut = unused(faces.path, faces.left_out(of_people=True))
    if len(rows) < len(faces.table):
        cut.append(
            f"Of {faces.path}, {len(rows):,} of {len(faces.table):,} photographs were looked at, to save time: at most "
            f"{EACH} of each of at most {MOST:,} people, taken evenly, and all of those who look alike."
        )
    return Crowd(faces, pool, kept, units, cut)


def read_others(request: Request, size: int, embedder: Embedder, people: FacesOf) -> tuple[FacesOf | None, list[Crowd]]:
    """The source of RETAIN, and the photographs of strangers that are looked at: of RETAIN and of the bystanders."""
    found = {
        pool: FacesOf(path, size, request.resize)
        for pool, path in request.sources().items()
        if pool in (RETAIN, BYSTANDERS)
    }
    for pool, faces in found.items():
        for name in sorted({*map(str, faces.table["identity"])} & {*map(str, people.table["identity"])}):
            if not name.isdigit():  # sources that number people have the same names for different ones
                raise kept_and_forgotten(pool, name, name, "the folders have one name")
    return found.get(RETAIN), [read_strangers(faces, pool, embedder) for pool, faces in found.items()]


def kept_and_forgotten(pool: str, folder: str, person: str, how: str) -> DamnatioError:
    option = "RETAIN" if pool == RETAIN else f"--{pool}"
    return DamnatioError(
        f"{pool}/{folder} is {person} ({how}), and a person cannot be forgotten and kept at once: take the folder "
        f"{folder} out of {option}."
    )


def _embedded(
    faces: FacesOf, rows: NDArray[np.int64], embedder: Embedder, title: str = ""
) -> tuple[NDArray[np.int64], Units]:
    """The rows of the photographs that can be read, and their unit vectors."""
    kept: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    parts: list[Units] = [np.zeros((0, embedder.card.dim))]
    with progress(title, len(rows) if title else 0, "photographs") as advance:
        for start in range(0, len(rows), CHUNK):
            block = rows[start : start + CHUNK]
            table = faces.table.where(block)
            names, pixels, _ = faces.read(table)
            if names:
                parts.append(units_of(embedder.raw(pixels), names.__getitem__))
                kept.append(block[np.isin(table["image"].astype(str), names)])
            advance(len(block))
    return np.concatenate(kept), np.concatenate(parts)


def together(crowds: list[Strangers]) -> Strangers | None:
    """The people of several sources as one; None if there are none."""
    if not crowds:
        return None
    owners = np.concatenate([np.array(crowd.names, dtype=object)[crowd.codes] for crowd in crowds])
    codes, names = codes_of(owners)
    return Strangers(np.concatenate([crowd.units for crowd in crowds]), codes, [str(name) for name in names])
