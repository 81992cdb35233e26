"""A safe reader of pickled galleries: lists, tuples, dicts, text, numbers and numpy arrays.

The names that a pickle of an array imports are known and are not imported: the reader builds the array itself from its
type, shape and bytes. Every other name is refused, and nothing is called.
"""

import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from damnatio.galleries.npy_streams import with_characters
from damnatio.support.unpickling import Machine, UnpicklingError, unescaped, word

TYPE = re.compile(r"[<>|=]?([fiub][1248]|[US][0-9]{1,5}|b1)")
LONGEST = 1_000
"""digits of the longest number that is read"""


class Reader(Machine):
    """Builds the object of a pickled gallery."""

    only = "and only lists, tuples, dicts, text, numbers and numpy arrays are admitted"

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._places: dict[int, list[int]] = {}
        """where in the memo an unfinished array is, by its identity"""
        self._instructions |= {
            b"N": lambda: self._stack.append(None),
            b"G": lambda: self._stack.append(struct.unpack(">d", self._take(8))[0]),
            b"F": self._push_float,
            b"I": self._push_integer,
            b"L": self._push_integer,
            b"J": lambda: self._stack.append(int.from_bytes(self._take(4), "little", signed=True)),
            b"K": lambda: self._stack.append(self._number(1)),
            b"M": lambda: self._stack.append(self._number(2)),
            b"\x8a": lambda: self._stack.append(int.from_bytes(self._take(self._number(1)), "little", signed=True)),
            b"V": self._push_text,
            b"\x8d": lambda: self._push_name(8),
            b"\x96": lambda: self._push_bytes(8),
            b"}": lambda: self._stack.append({}),
            b"d": lambda: self._stack.append(_pairs(self._since_mark())),
            b"s": lambda: self._set([self._pop(), self._pop()][::-1]),
            b"u": lambda: self._set(self._since_mark()),
            b"0": self._drop,
            b"1": lambda: _nothing(self._since_mark()),
            b"c": self._push_global,
            b"\x93": self._push_stacked_global,
            b"R": self._call,
            b"b": self._build,
        }

    # --- plain values ------------------------------------------------------------------------------------------------

    def _push_bytes(self, width: int) -> None:
        self._stack.append(self._take(self._number(width)))

    def _push_escaped(self) -> None:
        super()._push_escaped()
        span = self._pop()
        self._stack.append(unescaped(self._data[span.offset : span.offset + span.length]))

    def _push_float(self) -> None:
        line = self._line()
        try:
            self._stack.append(float(line))
        except ValueError:
            raise UnpicklingError(f"{word(line)} is no number") from None

    def _push_integer(self) -> None:
        line = self._line()
        digits = line.removesuffix(b"L")
        if not re.fullmatch(rb"-?[0-9]+", digits) or len(digits) > LONGEST:
            raise UnpicklingError(f"{word(line)} is no number")
        self._stack.append(line == b"01" if line in (b"00", b"01") else int(digits))

    def _push_text(self) -> None:
        try:
            self._stack.append(self._line().decode("raw-unicode-escape"))
        except UnicodeDecodeError:
            raise UnpicklingError("text with an unknown escape") from None

    def _push_name(self, width: int) -> None:
        self._stack.append(self._take(self._number(width)).decode("utf-8", "surrogatepass"))

    def _drop(self) -> None:
        self._pop()

    def _set(self, flat: list[Any]) -> None:
        if not self._stack or not isinstance(self._stack[-1], dict):
            raise UnpicklingError("it sets a key of something that is no dict")
        self._stack[-1].update(_pairs(flat))

    # --- arrays ------------------------------------------------------------------------------------------------------

    def _push_global(self) -> None:
        module, name = self._line().decode(errors="replace"), self._line().decode(errors="replace")
        self._stack.append(self._known(module, name))

    def _push_stacked_global(self) -> None:
        name, module = self._pop(), self._pop()
        self._stack.append(self._known(module, name))

    def _known(self, module: Any, name: Any) -> "_Name":
        full = f"{module}.{name}".replace("numpy.core.", "numpy._core.")
        if full not in MAKERS:
            raise UnpicklingError(f"it would import {word(module)}.{word(name)}, {self.only}")
        return _Name(full)

    def _call(self) -> None:
        arguments, function = self._pop(), self._pop()
        if not isinstance(function, _Name) or not isinstance(arguments, tuple):
            raise UnpicklingError(f"it calls something that is no function, {self.only}")
        try:
            self._stack.append(MAKERS[function.full](*arguments))
        except (TypeError, ValueError, LookupError, OverflowError) as error:
            raise UnpicklingError(f"an array that cannot be: {error}") from error

    def _build(self) -> None:
        state, holder = self._pop(), self._pop()
        if not isinstance(holder, _Type | _Array):
            raise UnpicklingError(f"it gives a state to an object, {self.only}")
        try:
            built = holder.built(state)
        except (TypeError, ValueError, LookupError, OverflowError) as error:
            raise UnpicklingError(f"an array that cannot be: {error}") from error
        for place in self._places.pop(id(holder), []):
            self._memo[place] = built
        self._stack.append(built)

    def _remember(self, number: int) -> None:
        super()._remember(number)
        if isinstance(self._stack[-1], _Array):
            self._places.setdefault(id(self._stack[-1]), []).append(number)


class _Name:
    """The name of something that a pickled array imports. It is never imported."""

    def __init__(self, full: str) -> None:
        self.full = full


class _Type:
    """The type of an array; its byte order comes later."""

    def __init__(self, code: Any, *_: Any) -> None:
        if not isinstance(code, str) or not TYPE.fullmatch(code):
            raise ValueError(f"the type {code!r:.40} is none of numbers or text")
        self.dtype = np.dtype(code)

    def built(self, state: Any) -> "_Type":
        order = state[1]
        if order not in ("<", ">", "|", "="):
            raise ValueError("a byte order that is none")
        self.dtype = self.dtype.newbyteorder(order) if order in "<>" else self.dtype
        return self


class _Array:
    """An array before its content is known."""

    def __init__(self, *_: Any) -> None:
        pass

    def built(self, state: Any) -> Any:
        _, shape, kind, fortran, content = state
        return _array(content, kind, shape, "F" if fortran else "C")


def _array(content: Any, kind: Any, shape: Any, order: Any = "C") -> Any:
    if not isinstance(kind, _Type) or not isinstance(content, bytes):
        raise ValueError("an array of objects")
    if not isinstance(shape, tuple) or not all(type(one) is int and one >= 0 for one in shape) or len(shape) > 4:
        raise ValueError("a shape that is none")
    values = with_characters(np.frombuffer(content, kind.dtype))
    return values.reshape(shape, order="F" if order == "F" else "C").copy()


def _scalar(kind: Any, content: Any) -> Any:
    return _array(content, kind, (1,))[0]


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1") or not isinstance(text, str):
        raise ValueError("bytes in an unknown encoding")
    return text.encode("latin1")


MAKERS: dict[str, Callable[..., Any]] = {
    "numpy._core.multiarray._reconstruct": _Array,
    "numpy._core.numeric._frombuffer": _array,
    "numpy._core.multiarray.scalar": _scalar,
    "numpy.dtype": _Type,
    "numpy.ndarray": _Type,  # only named, as the argument of _reconstruct
    "_codecs.encode": _encoded,
    "__builtin__.bytes": lambda: b"",  # how protocols 0 to 2 write no bytes
    "builtins.bytes": lambda: b"",
}


def _pairs(flat: list[Any]) -> dict[Any, Any]:
    if len(flat) % 2:
        raise UnpicklingError("a key without a value")
    try:
        return dict(zip(flat[::2], flat[1::2], strict=True))
    except TypeError:
        raise UnpicklingError("a key of a dict that cannot be one") from None


def _nothing(_: Any) -> None:
    pass


def read_pickle(content: bytes) -> Any:
    """The object of a pickle. An UnpicklingError says what is refused."""
    try:
        found = Reader(content).run()
    except UnicodeDecodeError:
        raise UnpicklingError("text that is none") from None
    if isinstance(found, _Name | _Type | _Array):
        raise UnpicklingError("it holds nothing but a name")
    return found
