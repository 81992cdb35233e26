"""The written file is looked at as its users will use it: are the people still linked, is everybody else unchanged?"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from damnatio.erasure.embedder import Embedder, units_of
from damnatio.erasure.gating import Plan
from damnatio.erasure.people import CHUNK, FacesOf, Person
from damnatio.erasure.record import Searches
from damnatio.erasure.request import GALLERY
from damnatio.erasure.verdict import LINKED, chance
from damnatio.faces.base import Images
from damnatio.methods.strangers import Strangers, Units
from damnatio.models.gate import Gate
from damnatio.support.errors import DamnatioError

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
        """So many linked pairs may be chance."""
        return chance(self.pairs)


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
    gallery: Searches | None


@dataclass(frozen=True)
class _Seen:
    """A person's photographs by the old model and by the new file."""

    name: str
    instances: NDArray[np.int64]
    before: Units
    after: Units


def verify(
    file: Path,
    old: Embedder,
    plan: Plan,
    people: FacesOf,
    others: FacesOf | None,
    gallery: Strangers | None,
    threads: int,
) -> Verified:
    """Embed everybody's photographs through the written file."""
    new = Embedder.of_file(file, threads)
    level = plan.hidden.statistics.level(LINKED)
    seen = []
    for person in plan.people:
        chosen = plan.chosen(person.name)
        if chosen is not None and chosen.member is not None:
            seen.append(_seen(person, chosen.suspects, people, new))
    count, inside = _unchanged(_some_others(others, old), old, new, plan.gate)
    return Verified(
        level=level,
        links={each.name: links_of(each.instances, each.before, each.after, level) for each in seen},
        strangers=count,
        inside=inside,
        gallery=_searched(seen, gallery, plan.gate, level) if gallery is not None else None,
    )


def _seen(person: Person, suspects: list[str], faces: FacesOf, new: Embedder) -> _Seen:
    places = shown(person, suspects)
    pixels = faces.photographs(person.name, [person.images[place] for place in places])
    after = units_of(new.raw(pixels), lambda place: person.images[places[place]])
    return _Seen(person.name, person.instances[places], person.every[places], after)


def shown(person: Person, suspects: list[str]) -> list[int]:
    """The places of all photographs but those that seem to show somebody else, and copies of these."""
    wrong = {int(person.instances[person.images.index(image)]) for image in suspects}
    return [place for place, instance in enumerate(person.instances) if int(instance) not in wrong]


def links_of(instances: NDArray[np.int64], before: Units, after: Units, level: float) -> Links:
    """Pairs of different moments."""
    rows, columns = np.triu_indices(len(instances), 1)
    apart = instances[rows] != instances[columns]
    linked = (int(((units @ units.T)[rows, columns][apart] >= level).sum()) for units in (before, after))
    return Links(int(apart.sum()), *linked)


def _searched(seen: list[_Seen], gallery: Strangers, gate: Gate, level: float) -> Searches:
    owners = np.array(gallery.names, dtype=object)[gallery.codes]
    forgotten = np.isin(owners.astype(str), [f"{GALLERY}/{each.name}" for each in seen])
    found, mistaken = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for each in seen:
        own = owners == f"{GALLERY}/{each.name}"
        for time, units in enumerate((each.before, each.after)):
            matched = units @ gallery.units.T >= level
            found[time] += int(matched[:, own].any(axis=1).sum())
            mistaken[time] += int(matched[:, ~own].any(axis=1).sum())
    return Searches(
        templates=len(owners),
        inside=int(_inside(gallery.units[~forgotten], gate).sum()),
        photographs=sum(len(each.instances) for each in seen),
        found_before=int(found[0]),
        found_after=int(found[1]),
        mistaken_before=int(mistaken[0]),
        mistaken_after=int(mistaken[1]),
    )


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


def _inside(raw: NDArray[Any], gate: Gate) -> NDArray[np.bool_]:
    """Which vectors lie in a cone, or so near to one that rounding decides."""
    if not len(raw):
        return np.zeros(0, bool)
    units = raw.astype(np.float64) / np.linalg.norm(raw.astype(np.float64), axis=1, keepdims=True)
    heights = units @ gate.directions.numpy().astype(np.float64).T - gate.offsets.numpy().astype(np.float64)
    found: NDArray[np.bool_] = heights.max(axis=1) > -1e-5
    return found
