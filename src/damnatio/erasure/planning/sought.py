"""The person as galleries are searched for them: names, templates under f*, and a look at photographs."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from damnatio.erasure.embedder import Embedder, units_of
from damnatio.erasure.gating import Plan as Gating
from damnatio.erasure.people import FacesOf, Person, read_people
from damnatio.erasure.planning.templates import Templates, templates_of
from damnatio.erasure.proving.masking import holds_name
from damnatio.erasure.record import Record
from damnatio.erasure.request import GALLERY, Request
from damnatio.erasure.verdict import LINKED
from damnatio.faces.base import Images, UnreadableError
from damnatio.faces.decoding import decode
from damnatio.galleries.items import Sought, Units
from damnatio.methods.strangers import COSINE
from damnatio.models.card import Card
from damnatio.models.gate import ungated
from damnatio.models.importing import import_model
from damnatio.recipe.files import model_settings
from damnatio.recipe.schema import CaptureSettings
from damnatio.support.errors import DamnatioError


@dataclass
class Looked:
    """f* of photographs, and how many of them were no aligned faces."""

    embedder: Embedder
    photographs: int = 0
    unfit: int = 0
    """not square: they show more than one aligned face, or it is not aligned"""

    def __call__(self, content: bytes) -> Units | str:
        """The unit vector of an aligned face, [1, d]; [0, d] if the photograph is none; or why it cannot be read."""
        self.photographs += 1
        card = self.embedder.card
        nobody = np.empty((0, card.dim), np.float32)
        try:
            image = decode(content)
        except UnreadableError as error:
            return str(error)
        if image.shape[0] != image.shape[1]:
            self.unfit += 1
            return nobody
        raw = self.embedder.raw(np.array(_fitted(image, card)[None]))
        length = float(np.linalg.norm(raw))
        return np.asarray(raw / length, dtype=np.float32) if np.isfinite(length) and length else nobody

    def notes(self) -> list[str]:
        found = []
        if self.unfit:
            found.append(
                f"{self.unfit} of {self.photographs} photographs are no aligned faces (not square): they were compared "
                "by name only. Look at them yourself."
            )
        return found


@dataclass(frozen=True)
class Wanted:
    """The people of a request."""

    people: list[Person]
    faces: FacesOf
    names: list[str]
    """theirs, and those of which the operator said that they are theirs"""
    besides: list[str]
    """names of which the operator said that they are somebody else's"""
    level: float
    """the score from which on two photographs are linked"""
    templates: Templates
    old: Embedder
    looked: Looked = field(repr=False)

    @property
    def sought(self) -> Sought:
        t = self.templates
        return Sought(self.names, t.units, t.bars, t.labels, self.besides, self.looked)


def wanted(request: Request, record: Record, gating: Gating) -> Wanted:
    """The people, from the same photographs as the alteration; images that seem to show somebody else are left out."""
    model, card = import_model(model_settings(request.model, own_settings(request)))
    embedder = Embedder.of(ungated(model)[0], card)
    assert request.people is not None
    assert request.case is not None
    faces = FacesOf(request.people, card.size, request.resize)
    suspects = {image for line in record.people for image in line.suspects}
    people = [_without(person, suspects) for person in read_people(faces, embedder, CaptureSettings())]
    level = min(record.level if record.level is not None else (card.scores or COSINE).level(LINKED), 1.0)
    names = [*(person.name for person in people), *request.case.aliases, *_in_galleries(record.same)]
    templates = templates_of(gating, request.case.likeness, card.dim)
    besides = _in_galleries(record.not_same)
    return Wanted(people, faces, list(dict.fromkeys(names)), besides, level, templates, embedder, Looked(embedder))


def _in_galleries(names: Iterable[str]) -> list[str]:
    return [name.removeprefix(f"{GALLERY}/") for name in names if name.startswith(f"{GALLERY}/")]


def own_settings(request: Request) -> list[str]:
    """The settings with which the model is read."""
    return [override for override in request.overrides if override.startswith(("model.", "plugins="))]


def need_no_name(case: str, names: list[str]) -> None:
    """Refuse a case that is called after the person: the record holds the case, and no name."""
    if holds_name(case, names):
        raise DamnatioError(
            f"--case {case} holds a name of the person, or a part of one: take the number of your register instead."
        )


def photographs_of(wanted: Wanted, embedder: Embedder, person: Person) -> Units:
    """f of the kept photographs of a person, as another model sees them."""
    pixels = wanted.faces.photographs(person.name, person.kept)
    return units_of(embedder.raw(pixels), lambda place: person.kept[place]).astype(np.float32)


def _without(person: Person, suspects: set[str]) -> Person:
    places = [place for place in person.places if person.images[place] not in suspects]
    return Person(
        person.name, person.images, person.instances, np.array(places, np.int64), person.every, person.left_out
    )


def _fitted(image: "np.typing.NDArray[np.uint8]", card: Card) -> Images:
    if image.shape[0] == card.size:
        return image
    way = Image.Resampling.BOX if image.shape[0] > card.size else Image.Resampling.BICUBIC
    return np.asarray(Image.fromarray(image).resize((card.size, card.size), way))
