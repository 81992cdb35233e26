"""Which items of a store hold a person: by name, by similarity, attached to those, or orphaned."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from damnatio.galleries.items import (
    GROUP,
    PICTURES,
    SPELLING,
    UNLIKE,
    Block,
    Found,
    Item,
    Key,
    Place,
    Sought,
    Units,
    Vectors,
)
from damnatio.galleries.path_names import names_in
from damnatio.galleries.walking import walk

if TYPE_CHECKING:
    from damnatio.galleries.base import Store

SEPARATORS = re.compile(r"[\s_.-]+")
REMEMBERED = 1 << 16
"""names whose match is remembered"""


class Names:
    """The names of a person, as rows are compared with them."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self._exact = {unicodedata.normalize("NFC", one) for one in wanted}
        self._folded = {_folded(one) for one in wanted}
        self._known: dict[str, str | None] = {}

    def match(self, name: str) -> str | None:
        """ "": one of these names; SPELLING: one of them but for capitals and separators; None: another."""
        if name not in self._known:
            if len(self._known) > REMEMBERED:
                self._known.clear()
            self._known[name] = self._matched(name)
        return self._known[name]

    def _matched(self, name: str) -> str | None:
        given = names_in(name)
        if any(unicodedata.normalize("NFC", one) in self._exact for one in given):
            return ""
        return SPELLING if any(one and _folded(one) in self._folded for one in given) else None


def find(store: "Store", sought: Sought) -> Found:
    """See `Store.find`. A row that is found in several ways is one item; the first of name, similarity, attached and
    orphan says how."""
    finder = _Finder(store, sought)
    walk(store, finder, title="search")
    items = finder.items
    _add(items, store.attached(list(items)))
    _add(items, _orphans(store, sought, finder.notes))
    return Found(list(items.values()), list(finder.notes), finder.vectors, finder.rows, finder.compared)


def find_all(stores: Sequence["Store"], sought: Sought) -> list[Found]:
    """What `find` finds in each store, and what goes with it: rows of any store that equal one that was found, and rows
    under the names of candidates, until there are no more."""
    found = [store.find(sought) for store in stores]
    seen: tuple[set[str], set[str]] = set(), set()
    while True:
        candidates = [item for one in found for item in one.items if item.how in ("similarity", "equal")]
        names = {item.name for item in candidates if item.kind not in PICTURES}  # a folder's name may be nobody's
        vectors = {
            f"{key.place}/{key.id} of store {number}": vector
            for number, one in enumerate(found, 1)
            for key, vector in one.vectors.items()
        }
        if names <= seen[0] and vectors.keys() <= seen[1]:
            return found
        seen = names, set(vectors)
        found = [_with_more(store, one, names, vectors) for store, one in zip(stores, found, strict=True)]


def _with_more(store: "Store", found: Found, names: Iterable[str], vectors: Mapping[str, Vectors]) -> Found:
    following = Following(store, [item.key for item in found.items], names, vectors)
    walk(store, following, title="search")
    items = {item.key: item for item in [*found.items, *following.items]}
    _add(items, store.attached([item.key for item in following.items]))
    rows = {key: vector for key, vector in following.vectors.items() if key in items}
    notes = list(dict.fromkeys([*found.notes, *following.notes]))
    return Found(list(items.values()), notes, {**found.vectors, **rows}, found.rows, found.compared)


class _Finder:
    def __init__(self, store: "Store", sought: Sought) -> None:
        self._store, self._sought, self._names = store, sought, Names(sought.names)
        self._besides = Names(sought.besides)
        self.items: dict[Key, Item] = {}
        self.vectors: dict[Key, Vectors] = {}
        self.notes: dict[str, None] = {}
        self.rows = self.compared = 0

    def see(self, place: Place, block: Block) -> None:
        seen = _seen(self._store, place, block, self._sought, self.notes)
        self.rows += len(block.ids)
        self.compared += int(np.count_nonzero(~np.isnan(seen.scores)))
        for row, item in _of_block(self._store, place, block, seen, self._names, self._besides):
            known = self.items.get(item.key)
            self.items[item.key] = item if known is None else known.model_copy(update={"copies": known.copies + 1})
            if block.vectors is not None:
                self.vectors[item.key] = np.array(block.vectors[row])


def _add(items: dict[Key, Item], more: Iterable[Item]) -> None:
    for item in list(more):
        items.setdefault(item.key, item)


def _of_block(
    store: "Store", place: Place, block: Block, seen: "_Seen", names: Names, besides: Names
) -> Iterable[tuple[int, Item]]:
    named = [names.match(name) for name in block.names]
    for row, id in enumerate(block.ids):
        alike = bool(seen.alike[row])
        if named[row] is None and (not alike or besides.match(block.names[row]) is not None):
            continue
        flags = list(block.flags[row] if block.flags else ())
        if named[row] == SPELLING:
            flags.append(SPELLING)
        if named[row] is not None and not alike and not np.isnan(seen.scores[row]):
            flags.append(UNLIKE)
        if row in seen.group:
            flags.append(GROUP)
        yield (
            row,
            store.item(
                place=place.name,
                id=id,
                kind=place.kind,
                how="name" if named[row] is not None else "similarity",
                name=block.names[row],
                score=None if np.isnan(seen.scores[row]) else float(seen.scores[row]),
                like=seen.like[row],
                flags=tuple(dict.fromkeys(flags)),
            ),
        )


EQUAL = 0.9995
"""Two vectors of this cosine are one template, stored twice."""
SHARED_BY = 100
"""rows of one name from which on the name is nobody's: visitors, unknown, unsorted"""


class Following:
    """In a walk: rows that equal a row that was found, and rows under the names of candidates."""

    def __init__(
        self, store: "Store", known: Iterable[Key], names: Iterable[str], vectors: Mapping[str, Vectors]
    ) -> None:
        self._store, self._known = store, set(known)
        self._names = {unicodedata.normalize("NFC", name) for name in names if name}
        by_dim: dict[int, list[str]] = {}
        for label, vector in vectors.items():
            by_dim.setdefault(len(vector), []).append(label)
        self._equal = {
            dim: Sought(templates=units_of(np.stack([vectors[one] for one in some])), threshold=EQUAL, labels=some)
            for dim, some in by_dim.items()
        }
        self._under: dict[str, list[Item]] = {}
        self._twins: dict[Key, Item] = {}
        self.vectors: dict[Key, Vectors] = {}

    def see(self, place: Place, block: Block) -> None:
        sought = self._equal.get(block.vectors.shape[1]) if block.vectors is not None else None
        compared = compared_with(block.vectors, sought) if block.vectors is not None and sought else None
        for row, id in enumerate(block.ids):
            key, name = Key(place.name, id), block.names[row]
            equal = compared is not None and bool(compared[1][row])
            if key in self._known or not (equal or unicodedata.normalize("NFC", name) in self._names):
                continue
            item = self._store.item(
                place=place.name, id=id, kind=place.kind, how="equal" if equal else "together", name=name,
                score=float(compared[0][row]) if compared and equal else None,
                like=compared[2][row] if compared and equal else "",
                flags=(UNLIKE,) if not equal and place.kind in PICTURES else (),
            )  # fmt: skip
            if equal:
                self._twins[key] = item
            elif len(some := self._under.setdefault(name, [])) <= SHARED_BY:
                some.append(item)
            if block.vectors is not None:
                self.vectors[key] = np.array(block.vectors[row])

    @property
    def items(self) -> list[Item]:
        under = {item.key: item for some in self._under.values() if len(some) <= SHARED_BY for item in some}
        return list({**under, **self._twins}.values())

    @property
    def notes(self) -> list[str]:
        return [
            f"More than {SHARED_BY} rows are stored under the name of a candidate, {name}: only those that resemble "
            "the person are in the plan."
            for name, some in self._under.items()
            if len(some) > SHARED_BY
        ]


def units_of(vectors: Vectors) -> Units:
    rows = vectors.astype(np.float64)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), dtype=np.float32)


def _folded(name: str) -> str:
    return SEPARATORS.sub(" ", unicodedata.normalize("NFKC", name).casefold()).strip()


@dataclass(frozen=True)
class _Seen:
    """What a search sees of the rows of a block."""

    scores: NDArray[np.float64]
    """the cosine to the template that a row resembles; NaN: it cannot be compared"""
    alike: NDArray[np.bool_]
    """whether it reaches that template's bar"""
    like: list[str]
    group: set[int]
    """photographs of several people"""


def _seen(store: "Store", place: Place, block: Block, sought: Sought, notes: dict[str, None]) -> _Seen:
    count, templates = len(block.ids), sought.templates
    seen = _Seen(np.full(count, np.nan), np.zeros(count, bool), [""] * count, set())
    if templates is None or not len(templates) or not count:
        return seen
    if block.vectors is not None:
        if block.vectors.shape[1] == templates.shape[1]:
            scores, alike, which = compared_with(block.vectors, sought)
            return _Seen(scores, alike, which, set())
        notes[
            f"{place.name} holds vectors of {block.vectors.shape[1]} values, and the model makes {templates.shape[1]}: "
            "they were compared by name only."
        ] = None
    elif place.kind in PICTURES:
        if sought.faces is None:
            notes[f"{place.name}: photographs were compared by name only, since no model looked at them."] = None
            return seen
        for row, id in enumerate(block.ids):
            score, alike_row, like, faces = _looked_at(store, Key(place.name, id), sought, notes)
            seen.scores[row], seen.alike[row], seen.like[row] = score, alike_row, like
            if faces > 1:
                seen.group.add(row)
    return seen


def _looked_at(store: "Store", key: Key, sought: Sought, notes: dict[str, None]) -> tuple[float, bool, str, int]:
    """The score of the face that resembles the person most, whether it is alike, to what, and how many faces."""
    content = store.photograph(key)
    faces = sought.faces(content) if content is not None and sought.faces is not None else ()
    if isinstance(faces, str):
        notes[f"Not looked at: {key.place}/{key.id} ({faces})."] = None
    if isinstance(faces, str) or not len(faces):
        return float("nan"), False, "", 0
    scores, alike, like = compared_with(np.asarray(faces), sought)
    best = int(np.lexsort((scores, alike))[-1])
    return float(scores[best]), bool(alike[best]), like[best], len(faces)


def _orphans(store: "Store", sought: Sought, notes: dict[str, None]) -> Iterable[Item]:
    """Orphans that show the person, or that nobody can look at."""
    for item in store.orphans():
        if sought.templates is None or sought.faces is None:
            yield item
            continue
        score, alike, like, faces = _looked_at(store, item.key, sought, notes)
        if np.isnan(score) or alike:
            seen = {"score": None if np.isnan(score) else score, "flags": (*item.flags, *([GROUP] * (faces > 1)))}
            yield item.model_copy(update={**seen, "like": like})


def compared_with(vectors: Vectors, sought: Sought) -> tuple[NDArray[np.float64], NDArray[np.bool_], list[str]]:
    """Of each row: the cosine to the template whose bar it exceeds most, or misses least; whether it reaches the bar;
    and which template it is. A row without a direction has none: NaN."""
    assert sought.templates is not None
    cosines = cosines_of(vectors, sought.templates)
    above = cosines - sought.threshold
    which = np.where(np.isnan(above), -np.inf, above).argmax(axis=1)
    rows = np.arange(len(cosines))
    labels = [sought.labels[place] if sought.labels else "" for place in which]
    return cosines[rows, which], above[rows, which] >= 0, labels


def cosines_of(vectors: Vectors, templates: Units) -> NDArray[np.float64]:
    """The cosine of each row to each template. A row without a direction has none: NaN."""
    rows = vectors.astype(np.float32, copy=False)
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    usable = np.isfinite(lengths) & (lengths > 0)
    found = np.full((len(rows), len(templates)), np.nan)
    found[usable] = (rows[usable] @ templates.T) / lengths[usable, None]
    return np.asarray(found.clip(-1.0, 1.0))
