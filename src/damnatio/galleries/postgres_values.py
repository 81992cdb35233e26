"""Values that Postgres compressed, found in its files without its help, so that those of deleted rows are found too.

A long value is compressed (by pglz or LZ4), cut into pieces of about 2,000 bytes, and kept in a second table (TOAST) as
rows of (id of the value, number of the piece, bytes). A shorter one stays in its row, compressed. Both begin with
the length of the whole value, and vectors of one table have few lengths: so they are found by it, wherever they are.
A file of the log is read without the headers of its pages, which may stand in the middle of a value.

A piece that was written over in part is not found. VACUUM FULL leaves no such piece: it writes new files.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

PAGE = 8192
SHORT_HEADER, LONG_HEADER = 24, 40
"""bytes before the content of a page of the log; the first page of a file has the long one"""
CHUNK = 4 << 20
OVERLAP = 2 * PAGE
LENGTH = 0x3FFFFFFF
MOST_PIECES = 64


def unpacked(path: Path, sizes: Iterable[int], is_log: bool = False) -> Iterator[bytes]:
    """The compressed values in a file whose length, when unpacked, is one of these. Of a log also its content."""
    wanted = np.array(sorted(set(sizes)), dtype=np.uint32)
    with path.open("rb") as file:
        before, first = b"", True
        while content := file.read(CHUNK):
            if is_log:
                content = _without_headers(content, first)
                yield content
            window = before + content
            yield from _values(window, wanted)
            before, first = window[-OVERLAP:], False


def _without_headers(content: bytes, first: bool) -> bytes:
    pages = range(0, len(content), PAGE)
    return b"".join(content[at + (LONG_HEADER if first and at == 0 else SHORT_HEADER) : at + PAGE] for at in pages)


def _values(window: bytes, sizes: "np.ndarray[tuple[int, ...], np.dtype[np.uint32]]") -> Iterator[bytes]:
    """Every place where a length is written as Postgres writes it before a compressed value."""
    places = []
    for shift in range(4):
        words = np.frombuffer(window[shift : shift + (len(window) - shift) // 4 * 4], "<u4")
        places += (np.flatnonzero(np.isin(words & np.uint32(LENGTH), sizes)) * 4 + shift).tolist()
    for at in sorted(places):
        (word,) = struct.unpack_from("<I", window, at)
        packed = _inline(window, at) or _pieces(window, at)
        if packed is not None:
            value = _unpack(packed, word & LENGTH, word >> 30)
            if value is not None:
                yield value


def _inline(window: bytes, at: int) -> bytes | None:
    """The bytes of a value that stayed in its row: its own length, marked as compressed, stands before."""
    if at < 4:
        return None
    (head,) = struct.unpack_from("<I", window, at - 4)
    length = (head >> 2) - 8
    return window[at + 4 : at + 4 + length] if head & 3 == 2 and 0 < length < PAGE else None


def _pieces(window: bytes, at: int) -> bytes | None:
    """The bytes of a value in pieces: before the length stand the id of the value, the number 0, and the length of the
    first piece. The other pieces have the same id and the next numbers, and may be anywhere near."""
    if at < 12:
        return None
    id, number, head = struct.unpack_from("<III", window, at - 12)
    if number != 0 or head & 3 or not 4 < (head >> 2) - 4 < PAGE or not id:
        return None
    parts, length = [window[at + 4 : at + (head >> 2) - 4]], (head >> 2) - 4
    for next_number in range(1, MOST_PIECES):
        begin = window.find(struct.pack("<II", id, next_number))
        if begin < 0 or begin + 12 > len(window):
            break
        (head,) = struct.unpack_from("<I", window, begin + 8)
        if head & 3 or not 0 < (head >> 2) - 4 <= length:
            break
        parts.append(window[begin + 12 : begin + 8 + (head >> 2)])
    return b"".join(parts)


def _unpack(packed: bytes, length: int, method: int) -> bytes | None:
    try:
        value = (_pglz, _lz4)[method](packed, length)
    except IndexError:
        return None
    return value if len(value) == length else None


def _pglz(packed: bytes, length: int) -> bytes:
    """A byte of eight marks, then eight items: a byte as it is, or (offset, length) of bytes that came before."""
    out, at = bytearray(), 0
    while len(out) < length:
        marks, at = packed[at], at + 1
        for bit in range(8):
            if len(out) >= length:
                break
            if not marks >> bit & 1:
                out.append(packed[at])
                at += 1
                continue
            count, back = (packed[at] & 15) + 3, (packed[at] & 240) << 4 | packed[at + 1]
            at += 2
            if count == 18:
                count, at = count + packed[at], at + 1
            _repeat(out, back, count)
    return bytes(out[:length])


def _lz4(packed: bytes, length: int) -> bytes:
    """Two counts in a byte, bytes as they are, then an offset to bytes that came before."""
    out, at = bytearray(), 0
    while len(out) < length:
        token, at = packed[at], at + 1
        literals, at = _count(packed, at, token >> 4)
        out += packed[at : at + literals]
        at += literals
        if len(out) >= length:
            break
        back, at = packed[at] | packed[at + 1] << 8, at + 2
        count, at = _count(packed, at, token & 15)
        _repeat(out, back, count + 4)
    return bytes(out)


def _count(packed: bytes, at: int, count: int) -> tuple[int, int]:
    if count == 15:
        while True:
            more, at = packed[at], at + 1
            count += more
            if more != 255:
                break
    return count, at


def _repeat(out: bytearray, back: int, count: int) -> None:
    if not 0 < back <= len(out):
        raise IndexError
    start = len(out) - back
    for number in range(count):
        out.append(out[start + number])
