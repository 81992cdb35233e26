"""Where the files of a tar lie: a walk over its headers, in a sixth of the time that `tarfile` takes for it."""

import mmap
import re
from collections.abc import Iterator
from typing import NamedTuple

from damnatio.faces.base import UnreadableError

BLOCK = 512
REGULAR = b"0\x007"
NO_CONTENT = b"123456"
"""links, devices, folders, pipes: whatever size they state, no blocks follow"""
MAX_NAME = 2**20


class Member(NamedTuple):
    name: str
    offset: int
    length: int


def members(data: bytes | mmap.mmap) -> Iterator[Member]:
    """The regular files of a tar (ustar, GNU or pax) in the order of the archive; where it is damaged, what comes
    before, and then an UnreadableError."""
    place, name, size = 0, "", -1
    while place + BLOCK <= len(data):
        header = data[place : place + BLOCK]
        if not header.strip(b"\0"):
            return
        kind, length = header[156], _number(header[124:136])
        if length < 0 or not _sound(header):
            raise UnreadableError(f"no tar header at byte {place}, the rest is left out")
        start = place + BLOCK
        if kind in b"LKxg":  # words about the next file
            if length > MAX_NAME:
                raise UnreadableError(f"a name of {length} bytes at byte {place}, the rest is left out")
            words = data[start : start + length]
            if kind == ord("L"):
                name = _text(words)
            elif kind == ord("x"):
                pax = _pax(words)
                name = pax.get("path", name)
                size = int(pax["size"]) if re.fullmatch("[0-9]{1,20}", pax.get("size", "")) else size
        else:
            name, length = name or _name(header), size if size >= 0 else length
            if kind in NO_CONTENT:
                length = 0
            if start + length > len(data):
                raise UnreadableError(f"the archive ends inside {name}")
            if kind in REGULAR and not name.endswith("/"):
                yield Member(name, start, length)
            name, size = "", -1
        place = start + (length + BLOCK - 1) // BLOCK * BLOCK
    if place < len(data):
        raise UnreadableError(f"the archive ends inside the header at byte {place}")


def _number(field: bytes) -> int:
    """Octal digits, or GNU's binary form for what they cannot hold; -1 for neither."""
    if field[0] & 0x80:
        return int.from_bytes(field, "big") & (1 << 87) - 1
    digits = field.strip(b" \0")
    try:
        return int(digits or b"0", 8)
    except ValueError:
        return -1


def _sound(header: bytes) -> bool:
    """The sum of all bytes, those of the sum itself taken as spaces."""
    return sum(header) - sum(header[148:156]) + 8 * ord(" ") == _number(header[148:156])


def _name(header: bytes) -> str:
    name = _text(header[:100])
    if header[257:263] == b"ustar\0" and header[345]:
        return f"{_text(header[345:500])}/{name}"
    return name


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode(errors="replace")


def _pax(words: bytes) -> dict[str, str]:
    """Records `<length> <key>=<value>\\n`, as far as they are sound."""
    records: dict[str, str] = {}
    place = 0  # and not the rest of the words: to copy it for each record would take the square of their length
    while place < len(words):
        space = words.find(b" ", place, place + 9)
        digits = words[place:space] if space >= 0 else b""
        length = int(digits) if digits.isdigit() else 0
        key, equals, value = words[space + 1 : place + length].partition(b"=")
        if not equals:
            break
        records[key.decode(errors="replace")] = value.removesuffix(b"\n").decode(errors="replace")
        place += length
    return records
