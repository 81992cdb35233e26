"""InsightFace's verification sets: a pickle of 2P encoded images and P booleans; pair i is images 2i and 2i+1.

An image is bytes, or the array of bytes that `cv2.imencode` makes (`build_eval_pack.py`).

The file names no identities; they follow from its pairs. Two images of a mated pair are one identity, and so are images
of the same bytes. Two identities may still be one person.
"""

import hashlib
import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from damnatio.faces import SOURCES
from damnatio.faces.base import UnreadableError
from damnatio.faces.decoding import FileSettings, FileSource, mapped, read_at, state
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table
from damnatio.support.unpickling import Machine, Span, UnpicklingError, unescaped


class Pairs(NamedTuple):
    """The places of the images, and for each pair whether it shows one person."""

    images: list[Span]
    same: list[bool]


@SOURCES.register("pairs_bin")
class PairsBin(FileSource):
    """InsightFace's verification .bin: pairs of images, and the identities that follow from them."""

    class Settings(FileSettings):
        source: Literal["pairs_bin"]

    def fingerprint(self) -> Any:
        return state(self._path)

    def index(self) -> Table:
        data, pairs = _opened(self._path)
        identity = np.array(_people(data, pairs))
        order = np.argsort(identity, kind="stable")
        return Table(
            {
                "image": [str(place) for place in order],
                "identity": [str(person) for person in identity[order]],
                "offset": [pairs.images[place].offset for place in order],
                "length": [pairs.images[place].length for place in order],
                "escaped": [pairs.images[place].escaped for place in order],
            }
        )

    def content(self, row: Mapping[str, Any]) -> bytes:
        content = read_at(str(self._path), row["offset"], row["length"])
        if len(content) < row["length"]:
            raise UnreadableError("the file ends inside the image")
        try:
            return unescaped(content) if row["escaped"] else content
        except UnpicklingError as error:
            raise UnreadableError(str(error)) from error


def read_pairs(path: Path) -> tuple[list[bytes], list[bool]]:
    """All encoded images of a .bin, and for each pair whether it shows one person."""
    path = path.expanduser()
    data, pairs = _opened(path)
    try:
        contents = {span: span.of(data) for span in dict.fromkeys(pairs.images)}  # one image may be in many pairs
    except UnpicklingError as error:
        raise _refused(path, error) from error
    return [contents[span] for span in pairs.images], pairs.same


def _opened(path: Path) -> tuple[mmap.mmap, Pairs]:
    try:
        data = mapped(path)
        return data, _checked(_WithArrays(data).run())
    except (UnreadableError, UnpicklingError) as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: Exception) -> DamnatioError:
    return DamnatioError(f"The pairs {path} cannot be read: {error}.")


def _checked(content: Any) -> Pairs:
    two = isinstance(content, list | tuple) and len(content) == 2  # a Span is a tuple too, but no list of images
    if not two or not all(type(half) in (list, tuple) for half in content):
        raise UnreadableError("not a list of images and a list of booleans")
    images: list[Any] = [each.span if isinstance(each, _Array) else each for each in content[0]]
    same: list[Any] = list(content[1])
    for what, kind, values in (("image", Span, images), ("label", bool, same)):
        for place, value in enumerate(values):
            if not isinstance(value, kind):
                raise UnreadableError(f"{what} {place} is no {'bytes' if kind is Span else 'boolean'}")
    if not same or len(images) != 2 * len(same):
        raise UnreadableError(f"{len(images)} images and {len(same)} labels are not pairs")
    return Pairs(images, same)


# --- arrays ----------------------------------------------------------------------------------------------------------


KNOWN = (
    "numpy._core.multiarray._reconstruct",
    "numpy._core.numeric._frombuffer",
    "numpy.ndarray",
    "numpy.dtype",
)
"""what a pickled array imports, and what is only named here; NumPy 1 says `numpy.core`"""


class _Bytes:
    """The type of an array of bytes."""


@dataclass
class _Array:
    span: Span | None = None
    """its content, as soon as it is known"""


class _WithArrays(Machine):
    """Admits arrays of bytes as NumPy pickles them, under Python 2 and 3. Nothing is imported or called: the place of
    the content is all that is kept."""

    only = "and only lists, tuples, bytes, booleans and arrays of bytes are admitted"

    def __init__(self, data: mmap.mmap | bytes) -> None:
        super().__init__(data)
        self._instructions |= {
            b"N": lambda: self._stack.append(None),
            b"K": lambda: self._stack.append(self._number(1)),
            b"M": lambda: self._stack.append(self._number(2)),
            b"J": lambda: self._stack.append(self._number(4)),
            b"\x96": lambda: self._push_bytes(8),
            b"c": lambda: self._push_known(*[self._line().decode(errors="replace") for _ in range(2)]),
            b"\x93": lambda: self._push_known(*[self._pop() for _ in range(2)][::-1]),
            b"R": self._make,
            b"b": self._fill,
        }

    def _push_known(self, module: Any, name: Any) -> None:
        full = f"{module}.{name}".replace("numpy.core.", "numpy._core.")
        if full not in KNOWN:
            self._import(module, name)
        self._stack.append(full)

    def _make(self) -> None:
        arguments, name = self._pop(), self._pop()
        match name, arguments:
            case "numpy._core.multiarray._reconstruct", _:
                self._stack.append(_Array())
            case "numpy.dtype", (kind, *_) if self._text(kind) == "u1":
                self._stack.append(_Bytes())
            case "numpy._core.numeric._frombuffer", (Span() as span, _Bytes(), tuple() as shape, *_):
                self._stack.append(_Array(_whole(span, shape)))
            case "numpy.dtype" | "numpy._core.numeric._frombuffer", _:
                raise UnpicklingError(f"it holds an array of another type, {self.only}")
            case _:
                self._refuse(b"R")

    def _fill(self) -> None:
        state, made = self._pop(), self._pop()
        match made, state:
            case _Bytes(), _:  # the byte order of single bytes
                pass
            case _Array(None), (_, tuple() as shape, _Bytes(), _, Span() as span):
                made.span = _whole(span, shape)
            case _:
                raise UnpicklingError(f"it gives a state to an object, {self.only}")
        self._stack.append(made)

    def _text(self, value: Any) -> str:
        """Text is bytes in Python 2."""
        return value.of(self._data).decode(errors="replace") if isinstance(value, Span) else str(value)


def _whole(span: Span, shape: tuple[Any, ...]) -> Span:
    if not all(type(side) is int for side in shape) or math.prod(shape) != span.length or span.escaped:
        raise UnpicklingError("an array whose shape is not that of its bytes")
    return span


def _people(data: mmap.mmap, pairs: Pairs) -> list[int]:
    """The identity of each image: the number of its first image. Mated pairs and equal bytes join identities."""
    person = list(range(len(pairs.images)))

    def first(image: int) -> int:
        while person[image] != image:
            person[image] = image = person[person[image]]
        return image

    def join(one: int, other: int) -> None:
        low, high = sorted((first(one), first(other)))
        person[high] = low

    digests = {span: _digest(data, span) for span in dict.fromkeys(pairs.images)}
    seen: dict[bytes, int] = {}
    for image, span in enumerate(pairs.images):
        join(image, seen.setdefault(digests[span], image))
    for pair, same in enumerate(pairs.same):
        if same:
            join(2 * pair, 2 * pair + 1)
    return [first(image) for image in person]


def _digest(data: mmap.mmap, span: Span) -> bytes:
    """Of the bytes as the pickle spells them; one file spells equal bytes alike."""
    return hashlib.sha256(data[span.offset : span.offset + span.length]).digest()
