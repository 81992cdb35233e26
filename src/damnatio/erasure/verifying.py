"""The written file is looked at as its users will use it: are the people still linked, is everybody else unchanged?"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from damnatio.erasure.embedder import Embedder, units_of
from damnatio.erasure.gating import Plan
from damnatio.erasure.people import CHUNK, FacesOf, Person
from damnatio.faces.base import Images
from damnatio.methods.strangers import Units
from damnatio.models.gate import Gate
from damnatio.support.errors import DamnatioError

LINKED = 1e-4
"""Two photographs are linked if their score is one that this share of strangers exceeds."""
SURE = 0.99
"""More pairs are linked than chance explains if chance gives fewer with this probability."""
NOISE = 16
"""images of noise that stand in for strangers if there are none"""


@dataclass(frozen=True)
class Links:
    """Pairs of a person's photographs of different moments, and how many of them are linked."""

    pairs: int
    before: int
    after: int

    @property
    def allowed(self) -> int:
        """So many linked pairs may be chance: each pair is linked with the probability `LINKED`."""
        from scipy.stats import poisson

        return int(poisson.ppf(SURE, LINKED * self.pairs)) if self.pairs else 0


@dataclass(frozen=True)
class Verified:
    level: float
    """the score that the share `LINKED` of strangers exceeds"""
    links: dict[str, Links]
    """by the name of the person"""
    strangers: int
    """photographs of others that the old model and the new file both embedded"""
    inside: int
    """how many of them lie in a gate"""


def verify(file: Path, old: Embedder, plan: Plan, people: FacesOf, others: FacesOf | None, threads: int) -> Verified:
    """Embed everybody's photographs through the written file."""
    new = Embedder.of_file(file, threads)
    level = plan.hidden.statistics.level(LINKED)
    links = {}
    for person in plan.people:
        chosen = plan.chosen(person.name)
        if chosen is not None and chosen.member is not None:
            links[person.name] = _links(person, chosen.suspects, people, new, level)
    count, inside = _unchanged(_some_others(others, old), old, new, plan.gate)
    return Verified(level=level, links=links, strangers=count, inside=inside)


def _links(person: Person, suspects: list[str], faces: FacesOf, new: Embedder, level: float) -> Links:
    """Pairs of different moments. A photograph that seems to show somebody else is in none, nor are its copies."""
    wrong = {int(person.instances[person.images.index(image)]) for image in suspects}
    places = [place for place, instance in enumerate(person.instances) if int(instance) not in wrong]
    if len(places) < 2:
        return Links(0, 0, 0)
    pixels = faces.photographs(person.name, [person.images[place] for place in places])
    instances = person.instances[places]
    rows, columns = np.triu_indices(len(places), 1)
    apart = instances[rows] != instances[columns]

    def linked(units: Units) -> int:
        return int(((units @ units.T)[rows, columns][apart] >= level).sum())

    after = units_of(new.raw(pixels), lambda place: person.images[places[place]])
    return Links(int(apart.sum()), linked(person.every[places]), linked(after))


def _some_others(faces: FacesOf | None, old: Embedder) -> Callable[[], Images]:
    def read() -> Images:
        if faces is None:
            size = old.card.size
            return np.random.default_rng(0).integers(0, 256, (NOISE, size, size, 3), dtype=np.uint8)
        places = np.unique(np.linspace(0, len(faces.table) - 1, min(CHUNK, len(faces.table))).astype(np.int64))
        return faces.read(faces.table.where(places))[1]

    return read


def _unchanged(read: Callable[[], Images], old: Embedder, new: Embedder, gate: Gate) -> tuple[int, int]:
    """How many photographs of others were compared, and how many lie in a gate. All others must be as they were, bit
    for bit."""
    pixels = read()
    before, after = old.raw(pixels), new.raw(pixels)
    inside = _inside(before, gate)
    changed = ~(before == after).all(axis=1)
    if (changed & ~inside).any():
        raise DamnatioError(
            f"The written model changes {int((changed & ~inside).sum())} of {len(before)} photographs of people whom "
            "it does not hide: it was not delivered. Please report this."
        )
    return len(before), int(inside.sum())


def _inside(raw: NDArray[np.float32], gate: Gate) -> NDArray[np.bool_]:
    """Which vectors lie in a cone, or so near to one that rounding decides."""
    units = raw.astype(np.float64) / np.linalg.norm(raw.astype(np.float64), axis=1, keepdims=True)
    heights = units @ gate.directions.numpy().astype(np.float64).T - gate.offsets.numpy().astype(np.float64)
    found: NDArray[np.bool_] = heights.max(axis=1) > -1e-5
    return found
