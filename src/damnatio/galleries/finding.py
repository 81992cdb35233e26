"""Which items of a store hold a person: by name, by similarity, attached to those, or orphaned."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from damnatio.galleries.items import GROUP, SPELLING, UNLIKE, Block, Found, Item, Key, Place, Sought, Units, Vectors
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
    return Found(list(items.values()), list(finder.notes))


class _Finder:
    def __init__(self, store: "Store", sought: Sought) -> None:
        self._store, self._sought, self._names = store, sought, Names(sought.names)
        self.items: dict[Key, Item] = {}
        self.notes: dict[str, None] = {}

    def see(self, place: Place, block: Block) -> None:
        for item in _of_block(self._store, place, block, self._sought, self._names, self.notes):
            known = self.items.get(item.key)
            self.items[item.key] = item if known is None else known.model_copy(update={"copies": known.copies + 1})


def _add(items: dict[Key, Item], more: Iterable[Item]) -> None:
    for item in list(more):
        items.setdefault(item.key, item)


def _of_block(
    store: "Store", place: Place, block: Block, sought: Sought, names: Names, notes: dict[str, None]
) -> Iterable[Item]:
    named = [names.match(name) for name in block.names]
    scores, group = _scores(store, place, block, sought, notes)
    for row, id in enumerate(block.ids):
        score = float(scores[row])
        alike = score >= sought.threshold  # NaN: not comparable
        if named[row] is None and not alike:
            continue
        flags = list(block.flags[row] if block.flags else ())
        if named[row] == SPELLING:
            flags.append(SPELLING)
        if named[row] is not None and score < sought.threshold:
            flags.append(UNLIKE)
        if row in group:
            flags.append(GROUP)
        yield store.item(
            place=place.name,
            id=id,
            kind=place.kind,
            how="name" if named[row] is not None else "similarity",
            name=block.names[row],
            score=None if np.isnan(score) else score,
            flags=tuple(dict.fromkeys(flags)),
        )


def _folded(name: str) -> str:
    return SEPARATORS.sub(" ", unicodedata.normalize("NFKC", name).casefold()).strip()


def _scores(
    store: "Store", place: Place, block: Block, sought: Sought, notes: dict[str, None]
) -> tuple[NDArray[np.float64], set[int]]:
    """The highest cosine of each row to the templates, NaN where there is none; and the rows that are photographs of
    several people."""
    scores, group = np.full(len(block.ids), np.nan), set[int]()
    templates = sought.templates
    if templates is None or not len(templates):
        return scores, group
    if block.vectors is not None:
        if block.vectors.shape[1] == templates.shape[1]:
            return best_cosines(block.vectors, templates), group
        notes[
            f"{place.name} holds vectors of {block.vectors.shape[1]} values, and the model makes {templates.shape[1]}: "
            "they were compared by name only."
        ] = None
    elif place.kind in ("photograph", "thumbnail"):
        if sought.faces is None:
            notes[f"{place.name}: photographs were compared by name only, since no model looked at them."] = None
            return scores, group
        for row, id in enumerate(block.ids):
            score, faces = _looked_at(store, Key(place.name, id), sought.faces, templates, notes)
            scores[row] = score
            if faces > 1:
                group.add(row)
    return scores, group


def _looked_at(
    store: "Store", key: Key, look: Callable[[bytes], Units | str], templates: Units, notes: dict[str, None]
) -> tuple[float, int]:
    content = store.photograph(key)
    faces = look(content) if content is not None else np.empty((0, templates.shape[1]), np.float32)
    if isinstance(faces, str):
        notes[f"Not looked at: {key.place}/{key.id} ({faces})."] = None
        return float("nan"), 0
    return (float((faces @ templates.T).max()), len(faces)) if len(faces) else (float("nan"), 0)


def _orphans(store: "Store", sought: Sought, notes: dict[str, None]) -> Iterable[Item]:
    """Orphans that show the person, or that nobody can look at."""
    for item in store.orphans():
        if sought.templates is None or sought.faces is None:
            yield item
            continue
        score, faces = _looked_at(store, item.key, sought.faces, sought.templates, notes)
        if np.isnan(score) or score >= sought.threshold:
            seen = {"score": None if np.isnan(score) else score, "flags": (*item.flags, *([GROUP] * (faces > 1)))}
            yield item.model_copy(update=seen)


def best_cosines(vectors: Vectors, templates: Units) -> NDArray[np.float64]:
    """The highest cosine of each row to the templates. A row without a direction has none: NaN."""
    rows = vectors.astype(np.float32, copy=False)
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    usable = np.isfinite(lengths) & (lengths > 0)
    found = np.full(len(rows), np.nan)
    found[usable] = (rows[usable] @ templates.T).max(axis=1) / lengths[usable]
    return np.asarray(found.clip(-1.0, 1.0))
