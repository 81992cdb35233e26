"""The layouts of pickled galleries: where the rows are in the object, and the object without some of them.

{"encodings": [...], "names": [...], ...}     parallel lists                  (face_recognition's examples)
[[...], [...]]                                two of them, in either order
[{"identity": path, "embedding": [...]}]      one dict per photograph         (deepface)
[[path, [...]], ...]                          one pair per photograph         (deepface before 0.0.84)
{"Ann": [...], "Bob": [[...], [...]]}         vectors by name
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from damnatio.galleries.items import Vectors
from damnatio.galleries.path_names import is_image

VECTORS = ("encodings", "embeddings", "vectors", "features")
NAMES = ("names", "labels", "ids", "identities")
VECTOR, NAME = ("embedding", "encoding", "vector", "feature"), ("name", "label", "identity", "path", "file")
SHORTEST = 8
"""values of the shortest list of numbers that is taken for a vector"""


class UnknownLayoutError(Exception):
    """The object is no gallery of a known layout."""


@dataclass(frozen=True)
class Row:
    name: str
    vector: Vectors
    rest: bytes = b""
    """what else belongs to the row, as text"""


class Layout(ABC):
    """Rows in the order of the object."""

    rows: list[Row]

    @abstractmethod
    def without(self, gone: set[int]) -> Any:
        """The object without these rows."""

    @abstractmethod
    def with_more(self, name: str, vectors: Vectors) -> Any:
        """The object with more rows, in the types that its own rows have."""


def layout_of(content: Any, vectors: str = "", names: str = "") -> Layout:
    """The layout of an object; `vectors` and `names` are the keys that a user named. A row whose name is the path of a
    photograph goes by its folders and by its file's name."""
    if isinstance(content, dict | list | tuple) and not content:
        return Empty(content)
    if isinstance(content, dict):
        lists = _key(content, vectors, VECTORS), _key(content, names, NAMES)
        if lists[0] is not None and lists[1] is not None:
            return Parallel(content, lists[0], lists[1])
        if content and not vectors and all(isinstance(name, str) for name in content):
            return ByName(content)
    if isinstance(content, list | tuple) and content:
        if all(isinstance(row, dict) for row in content):
            return Dicts(content, vectors, names)
        if len(content) == 2 and all(_is_list(half) and not len(half) for half in content):
            return Empty(content)
        if len(content) == 2 and any(_texts(half) for half in content):
            return Parallel(dict(enumerate(content)), *((1, 0) if _texts(content[0]) else (0, 1)), type(content))
        if all(isinstance(row, list | tuple) and len(row) == 2 and isinstance(row[0], str) for row in content):
            return Tuples(content)
    raise UnknownLayoutError("it is neither lists of vectors and names, nor vectors by name, nor a list of rows")


class Empty(Layout):
    """A list or dict from which all rows are gone."""

    def __init__(self, content: Any) -> None:
        self._content, self.rows = content, []

    def without(self, gone: set[int]) -> Any:
        return self._content

    def with_more(self, name: str, vectors: Vectors) -> Any:
        raise UnknownLayoutError("it is empty, so its layout is not known")


class Parallel(Layout):
    """A list of vectors and one of names; other lists as long go with them."""

    def __init__(self, content: Mapping[Any, Any], vectors: Any, names: Any, outer: type = dict) -> None:
        self._content, self._vectors, self._names, self._outer = content, vectors, names, outer
        count = len(content[vectors])
        if len(content[names]) != count:
            raise UnknownLayoutError(f"it has {count} vectors and {len(content[names])} names")
        self._along = [key for key, value in content.items() if _is_list(value) and len(value) == count]
        others = [key for key in self._along if key not in (vectors, names)]
        labels = [str(name) for name in content[names]]
        self.rows = [
            Row(label, vector_of(vector), repr([content[key][row] for key in others]).encode() if others else b"")
            for row, (label, vector) in enumerate(zip(labels, content[vectors], strict=True))
        ]

    def without(self, gone: set[int]) -> Any:
        return self._made({key: _without(self._content[key], gone) for key in self._along})

    def with_more(self, name: str, vectors: Vectors) -> Any:
        if len(self._along) > 2:
            raise UnknownLayoutError("its other lists have a value per row, and none is known")
        names = self._content[self._names]
        more = {self._vectors: _with(self._content[self._vectors], vectors)}
        wide = np.append(names, [name] * len(vectors)) if isinstance(names, np.ndarray) else None
        more[self._names] = wide if wide is not None else type(names)([*names, *[name] * len(vectors)])
        return self._made(more)

    def _made(self, changed: Mapping[Any, Any]) -> Any:
        content = {**self._content, **changed}
        return content if self._outer is dict else self._outer(content.values())


class Dicts(Layout):
    """One dict per row. deepface writes an empty vector where it saw no face."""

    def __init__(self, content: Sequence[dict[str, Any]], vectors: str, names: str) -> None:
        first = content[0]
        vector, name = _key(first, vectors, VECTOR), _key(first, names, NAME)
        if vector is None or name is None or any(vector not in row or name not in row for row in content):
            raise UnknownLayoutError("its rows have no vector and name")
        self._content, self._vector, self._name = content, vector, name
        rest = [{key: value for key, value in row.items() if key != vector} for row in content]
        labels = [str(row[name]) for row in content]
        self.rows = [
            Row(label, vector_of(row[vector]), repr(sorted(other.items())).encode())
            for label, row, other in zip(labels, content, rest, strict=True)
        ]

    def without(self, gone: set[int]) -> Any:
        return _without(self._content, gone)

    def with_more(self, name: str, vectors: Vectors) -> Any:
        like = next((row for row in self._content if len(row[self._vector] or ())), self._content[0])
        path = f"{name}/enrolled.jpg" if is_image(str(like[self._name])) else name
        rows = [{**like, self._name: path, self._vector: _as(like[self._vector], vector)} for vector in vectors]
        return [*self._content, *rows]


class Tuples(Layout):
    """One pair of a path and a vector per row."""

    def __init__(self, content: list[Any] | tuple[Any, ...]) -> None:
        self._content = content
        self.rows = [Row(path, vector_of(vector)) for path, vector in content]

    def without(self, gone: set[int]) -> Any:
        return _without(self._content, gone)

    def with_more(self, name: str, vectors: Vectors) -> Any:
        like = self._content[0]
        path = f"{name}/enrolled.jpg" if is_image(like[0]) else name
        return type(self._content)([*self._content, *(type(like)([path, _as(like[1], one)]) for one in vectors)])


class ByName(Layout):
    """The vectors of each person under the name."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content
        self._places: list[tuple[str, int | None]] = []
        self.rows = []
        for name, held in content.items():
            if _is_vector(held):
                self._places.append((name, None))
                self.rows.append(Row(name, vector_of(held)))
                continue
            if not _is_list(held):
                raise UnknownLayoutError(f"under {name[:40]!r} is no vector")
            for place, vector in enumerate(held):
                self._places.append((name, place))
                self.rows.append(Row(name, vector_of(vector)))

    def without(self, gone: set[int]) -> Any:
        places: dict[str, set[int | None]] = {}
        for row in gone:
            name, place = self._places[row]
            places.setdefault(name, set()).add(place)
        kept = {}
        for name, held in self._content.items():
            lost = places.get(name, set())
            if not lost:
                kept[name] = held
            elif None not in lost and len(lost) < len(held):
                kept[name] = _without(held, {place for place in lost if place is not None})
        return kept

    def with_more(self, name: str, vectors: Vectors) -> Any:
        held = next(iter(self._content.values()))
        alone = _is_vector(held) and len(vectors) == 1 and name not in self._content
        if alone:
            return {**self._content, name: _as(held, vectors[0])}
        before = self._content.get(name, [])
        rows = [before] if _is_vector(before) else list(before)
        like = held if _is_vector(held) else held[0]
        return {**self._content, name: [*rows, *(_as(like, vector) for vector in vectors)]}


# --- values ----------------------------------------------------------------------------------------------------------


def vector_of(value: Any) -> Vectors:
    """A vector as it is stored; of length 0 where there is none."""
    try:
        found = np.asarray([] if value is None else value)
        if found.dtype.kind in "iu":
            found = found.astype(np.float64)
    except (ValueError, TypeError):
        raise UnknownLayoutError("a vector is no list of numbers") from None
    found = found.reshape(-1) if found.ndim == 2 and 1 in found.shape else found
    if found.ndim != 1 or found.dtype.kind != "f":
        raise UnknownLayoutError("a vector is no list of numbers")
    return found


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray)


def _is_vector(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    plain = isinstance(value, list | tuple) and len(value) >= SHORTEST
    return plain and all(isinstance(one, int | float | np.number) for one in value)


def _texts(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "US"
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(one, str) for one in value)


def _key(content: Mapping[Any, Any], chosen: str, usual: Sequence[str]) -> Any:
    if chosen:
        return chosen if chosen in content else None
    return next((key for key in usual if key in content), None)


def _without(values: Any, gone: set[int]) -> Any:
    if isinstance(values, np.ndarray):
        return np.delete(values, sorted(gone), axis=0)
    return type(values)(value for place, value in enumerate(values) if place not in gone)


def _with(values: Any, more: Vectors) -> Any:
    if isinstance(values, np.ndarray):
        return np.concatenate([values, more.astype(values.dtype)])
    like = values[0] if len(values) else more[0]
    return type(values)([*values, *(_as(like, vector) for vector in more)])


def _as(like: Any, vector: Any) -> Any:
    """A vector in the type of another."""
    if isinstance(like, np.ndarray):
        return np.asarray(vector, dtype=like.dtype).reshape(like.shape if like.ndim == 2 else -1)
    return [float(value) for value in vector]
