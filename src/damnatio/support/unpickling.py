"""A safe reader of pickles: it builds lists, tuples, bytes and booleans, and runs nothing.

A pickle is a program, and Python's unpickler executes it. This reader knows only the instructions that build these four
types: it cannot import, call or make anything else. It copies no bytes but keeps their places, so that its memory stays
small for a file of any size. A subclass may admit more instructions.
"""

import codecs
import mmap
import pickletools
import re
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn


class UnpicklingError(Exception):
    """The pickle is damaged, or asks for something that is not admitted; the text says what."""


class Span(NamedTuple):
    """The place of bytes in the file. Protocol 0 of Python 2 spells them as text with escapes."""

    offset: int
    length: int
    escaped: bool = False

    def of(self, data: mmap.mmap | bytes) -> bytes:
        content = data[self.offset : self.offset + self.length]
        return unescaped(content) if self.escaped else content


_ESCAPED = re.compile(rb"(?:[^\\]++|\\x[0-9a-fA-F]{2}|\\[\\'\"nrt])*+")
"""the escapes that Python 2's repr writes"""


def unescaped(content: bytes) -> bytes:
    if not _ESCAPED.fullmatch(content):
        raise UnpicklingError("bytes with an unknown escape")
    return bytes(codecs.escape_decode(content)[0])


class Machine:
    """The stack and the memo. No instruction takes more memory than its own bytes."""

    only = "and only lists, tuples, bytes and booleans are admitted"

    def __init__(self, data: mmap.mmap | bytes) -> None:
        self._data, self._place = data, 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._instructions: dict[bytes, Callable[[], None]] = {
            b"\x80": lambda: self._skip(1),  # the protocol
            b"\x95": lambda: self._skip(8),  # the length of a frame
            b"C": lambda: self._push_bytes(1),
            b"B": lambda: self._push_bytes(4),
            b"\x8e": lambda: self._push_bytes(8),
            b"U": lambda: self._push_bytes(1),  # U, T and S are the strings of Python 2
            b"T": lambda: self._push_bytes(4),
            b"S": self._push_escaped,
            b"\x88": lambda: self._stack.append(True),
            b"\x89": lambda: self._stack.append(False),
            b"I": self._push_old_boolean,
            b"(": lambda: self._stack.append(_MARK),
            b"]": lambda: self._stack.append([]),
            b"l": lambda: self._stack.append(self._since_mark()),
            b"a": lambda: self._extend([self._pop()]),
            b"e": lambda: self._extend(self._since_mark()),
            b")": lambda: self._stack.append(()),
            b"t": lambda: self._stack.append(tuple(self._since_mark())),
            b"\x85": lambda: self._push_tuple(1),
            b"\x86": lambda: self._push_tuple(2),
            b"\x87": lambda: self._push_tuple(3),
            b"\x94": lambda: self._remember(len(self._memo)),
            b"q": lambda: self._remember(self._number(1)),
            b"r": lambda: self._remember(self._number(4)),
            b"p": lambda: self._remember(self._decimal()),
            b"h": lambda: self._recall(self._number(1)),
            b"j": lambda: self._recall(self._number(4)),
            b"g": lambda: self._recall(self._decimal()),
            b"\x8c": lambda: self._push_name(1),
            b"X": lambda: self._push_name(4),
        }

    def run(self) -> Any:
        """The object that the pickle builds, with a Span in place of bytes."""
        while (code := self._take(1)) != b".":
            self._instructions.get(code, lambda: self._refuse(code))()
        return self._pop()

    def _refuse(self, code: bytes) -> None:
        if code in b"ci":
            self._import(self._line(), self._line())
        if code == b"\x93":
            name, module = self._pop(), self._pop()
            self._import(module, name)
        for known in pickletools.opcodes:
            if known.code == code.decode("latin-1"):
                raise UnpicklingError(f"it holds the instruction {known.name}, {self.only}")
        raise UnpicklingError(f"no pickle: byte {self._place - 1} is no instruction")

    def _import(self, module: Any, name: Any) -> NoReturn:
        raise UnpicklingError(f"it would import {word(module)}.{word(name)}, {self.only}")

    # --- the stack ---------------------------------------------------------------------------------------------------

    def _push_bytes(self, width: int) -> None:
        length = self._number(width)
        self._stack.append(Span(self._place, length))
        self._skip(length)

    def _push_escaped(self) -> None:
        start, line = self._place, self._line()
        if len(line) < 2 or line[:1] not in b"'\"" or line[:1] != line[-1:]:
            raise UnpicklingError("bytes without their quotes")
        self._stack.append(Span(start + 1, len(line) - 2, escaped=True))

    def _push_old_boolean(self) -> None:
        """Protocols 0 and 1 write booleans as the numbers 01 and 00."""
        line = self._line()
        if line not in (b"00", b"01"):
            raise UnpicklingError(f"it holds a number, {self.only}")
        self._stack.append(line == b"01")

    def _push_name(self, width: int) -> None:
        """Text names what a pickle would import, and the import is refused by that name. Other text is refused later:
        it is neither an image nor a label."""
        length = self._number(width)
        self._stack.append(self._take(length).decode(errors="replace"))

    def _push_tuple(self, count: int) -> None:
        self._stack.append(tuple([self._pop() for _ in range(count)][::-1]))

    def _since_mark(self) -> list[Any]:
        values: list[Any] = []
        while (value := self._pop(mark=True)) is not _MARK:
            values.append(value)
        return values[::-1]

    def _extend(self, values: list[Any]) -> None:
        if not self._stack or not isinstance(self._stack[-1], list):
            raise UnpicklingError("it appends to something that is no list")
        self._stack[-1].extend(values)

    def _remember(self, number: int) -> None:
        value = self._pop()
        self._memo[number] = value
        self._stack.append(value)

    def _recall(self, number: int) -> None:
        if number not in self._memo:
            raise UnpicklingError("it refers to an object that it never stored")
        self._stack.append(self._memo[number])

    def _pop(self, mark: bool = False) -> Any:
        if not self._stack or (self._stack[-1] is _MARK and not mark):
            raise UnpicklingError("it takes an object that is not there")
        return self._stack.pop()

    # --- the bytes ---------------------------------------------------------------------------------------------------

    def _skip(self, length: int) -> None:
        if length > len(self._data) - self._place:
            raise UnpicklingError("the file ends too early")
        self._place += length

    def _take(self, length: int) -> bytes:
        start = self._place
        self._skip(length)
        return self._data[start : self._place]

    def _number(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _line(self) -> bytes:
        end = self._data.find(b"\n", self._place)
        line = self._take((end if end >= 0 else len(self._data)) + 1 - self._place)
        return line[:-1]

    def _decimal(self) -> int:
        line = self._line()
        if not line.isdigit() or len(line) > 9:
            raise UnpicklingError("the place of an object is no number")
        return int(line)


_MARK = object()
"""marks where the items of a list or tuple begin on the stack"""


def word(name: Any) -> str:
    """The name of a module or function, shortened and printable, for a sentence."""
    text = name.decode(errors="replace") if isinstance(name, bytes) else name if isinstance(name, str) else "?"
    return "".join(letter if letter.isprintable() else "?" for letter in text[:80])
