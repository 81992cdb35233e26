"""Fragments in text: JSON, CSV, SQL, pickles of protocol 0, or any other list of decimal numbers.

Windows of a chunk in which many bytes are digits are taken for text. Of each number in them the first six digits are
looked up in a table of the anchors'; for those that pass, eight numbers are read and compared with the fragment, to
half a unit of the last digit that is printed.
"""

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from damnatio.galleries.scanning.fragments import SIZE, ULPS, Fragments, ordered
from damnatio.galleries.scanning.matching import Bytes, Seen
from damnatio.galleries.scanning.tables import Places

NAME = "decimal text"
WINDOW, EVERY = 4096, 16
"""bytes of a window, and which of them are looked at to judge whether it is text"""
SHARE = 0.3
"""the share of digits from which on a window is text; of random bytes 4 % are digits"""
DIGITS = 17
"""digits of a number that are read; more do not change a double"""
LONGEST = 26
"""bytes of the longest number, `0.00012345678901234567`"""
FIRST, LEAST = 6, 4
"""digits that are looked up, and that a printed anchor must have"""
ZEROS = 12
"""zeros before the first digit of a number that are passed over"""
HALF = 0.51
"""of the step of the last digit: how far a printed number may lie off"""
AT_ONCE = 1 << 14
POINT, MINUS, PLUS, ZERO, LETTER = (ord(sign) for sign in ".-+0e")

Floats = NDArray[np.float64]


class Decimals:
    """Finds fragments in the text of chunks."""

    def __init__(self, fragments: Fragments) -> None:
        self._fragments = fragments
        rows = np.arange(len(fragments.values))
        anchors = fragments.values[rows, fragments.anchors] if len(rows) else np.empty(0, np.float32)
        self._order = np.argsort(ordered(anchors), kind="stable")
        self._sorted = ordered(anchors)[self._order]
        self._firsts = np.zeros(10**FIRST, bool)
        for anchor in np.abs(anchors.astype(np.float64)).tolist():
            for count in range(LEAST, FIRST + 1):
                digits = int(f"{anchor:.{count - 1}e}".partition("e")[0].replace(".", ""))
                for near in (digits - 1, digits, digits + 1):
                    self._firsts[int(str(near).ljust(FIRST, "0")[:FIRST])] = True

    def look(self, chunk: Bytes) -> Iterator[Seen]:
        """The fragments in the text of a chunk."""
        if not len(self._sorted):
            return
        for start, end in _text(chunk):
            text = np.concatenate([chunk[start:end], np.zeros(LONGEST + 8, np.uint8)])
            begins = number_places(text)
            likely = np.flatnonzero(self._firsts[first_digits(text, begins)])
            if len(likely):
                yield from self._look(text, begins, likely, start)

    def _look(self, text: Bytes, begins: Places, likely: Places, start: int) -> Iterator[Seen]:
        values, steps = numbers(text, begins[likely])
        with np.errstate(over="ignore", invalid="ignore"):
            lowest, highest = (ordered((values + sign * HALF * steps).astype(np.float32)) for sign in (-1, 1))
        low = np.searchsorted(self._sorted, lowest - ULPS, "left")
        counts = np.searchsorted(self._sorted, highest + ULPS, "right") - low
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = self._order[np.repeat(low, counts) + within]
        firsts = np.repeat(likely, counts) - self._fragments.anchors[rows]
        inside = (firsts >= 0) & (firsts + SIZE <= len(begins))
        firsts, rows = firsts[inside], rows[inside]
        for part in range(0, len(firsts), AT_ONCE):
            some, of = firsts[part : part + AT_ONCE], rows[part : part + AT_ONCE]
            values, steps = numbers(text, begins[(some[:, None] + np.arange(SIZE)).ravel()])
            wanted = self._fragments.values[of].astype(np.float64)
            slack = np.maximum(HALF * steps.reshape(-1, SIZE), ULPS * np.spacing(np.abs(self._fragments.values[of])))
            whole = (np.abs(values.reshape(-1, SIZE) - wanted) <= slack).all(axis=1)
            if whole.any():
                yield Seen(self._fragments.of[of[whole]], begins[some[whole]] + start, NAME)


def _text(chunk: Bytes) -> Iterator[tuple[int, int]]:
    """(begin, end) of runs of windows that look like text, with a little on both sides."""
    looked = _is_digit(chunk[::EVERY])
    each = WINDOW // EVERY
    whole = len(looked) // each * each
    shares = looked[:whole].reshape(-1, each).mean(axis=1)
    rest = looked[whole:]
    text = np.append(shares, rest.mean() if len(rest) else 0.0) >= SHARE
    edges = np.flatnonzero(np.diff(np.concatenate([[False], text, [False]]).astype(np.int8)))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield max(first * WINDOW - WINDOW, 0), min(last * WINDOW + WINDOW, len(chunk))


def _is_digit(text: Bytes) -> NDArray[np.bool_]:
    return np.asarray(text - np.uint8(ZERO) < 10)


# --- numbers ---------------------------------------------------------------------------------------------------------


def number_places(text: Bytes) -> Places:
    """Where numbers begin, without their signs. The power of a number, as in 1.5e-05, is none of its own."""
    part = _is_digit(text) | (text == POINT)
    begins = np.flatnonzero(part[1:] & ~part[:-1]) + 1
    if len(part) and part[0]:
        begins = np.concatenate([[0], begins])
    before = np.where(begins > 0, text[begins - 1], 0)
    signed = (before == MINUS) | (before == PLUS)
    letter = np.where(signed & (begins > 1), text[begins - 2], before)
    place = begins - 2 - signed
    is_power = ((letter | 0x20) == LETTER) & (place >= 0) & (_is_digit(text[place]) | (text[place] == POINT))
    own: Places = begins[~is_power]
    return own


def first_digits(text: Bytes, begins: Places) -> Places:
    """The first six digits of each number as one number; 0 where there are fewer than four."""
    at = begins.copy()
    for _ in range(ZEROS):
        byte = text[at]
        skipped = (byte == ZERO) | (byte == POINT)
        if not skipped.any():
            break
        at += skipped
    eight = as_strided(text[:8].view("<u8"), shape=(len(text) - 7,), strides=(1,))
    words = eight[at]
    for place in range(1, LEAST):  # 1.23456: the point is taken out
        pointed = np.flatnonzero((words >> np.uint64(8 * place)) & np.uint64(0xFF) == POINT)
        before = np.uint64((1 << 8 * place) - 1)
        words[pointed] = (eight[at[pointed] + 1] & ~before) | (words[pointed] & before)
    found, going = np.zeros(len(at), np.int64), np.ones(len(at), bool)
    enough = going
    for place in range(FIRST):
        digit = ((words >> np.uint64(8 * place)) & np.uint64(0xFF)).astype(np.int64) - ZERO
        going &= (digit >= 0) & (digit <= 9)
        found = found * 10 + np.where(going, digit, 0)
        if place == LEAST - 1:
            enough = going.copy()
    return np.where(enough, found, 0)


def numbers(text: Bytes, begins: Places) -> tuple[Floats, Floats]:
    """The values of numbers, and the steps of their last digits. `text` goes on for some bytes after the last."""
    count = len(begins)
    mantissa, exponent, digits = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    point, going, length = np.zeros(count, bool), np.ones(count, bool), np.zeros(count, np.int64)
    for column in range(LONGEST):
        byte = text[begins + column]
        digit = going & _is_digit(byte)
        dot = going & (byte == POINT) & ~point
        going &= digit | dot
        if not going.any():
            break
        taken = digit & (digits < DIGITS)
        mantissa = np.where(taken, mantissa * 10 + (byte.astype(np.int64) - ZERO), mantissa)
        digits += taken & (mantissa > 0)
        exponent += (digit & ~taken & ~point).astype(np.int64) - (taken & point)
        point |= dot
        length += going
    power = _powers(text, begins + length)
    negative = np.where(begins > 0, text[begins - 1], 0) == MINUS
    scale = 10.0 ** np.clip(exponent + power, -300, 300).astype(np.float64)
    return mantissa * scale * np.where(negative, -1.0, 1.0), scale


def _powers(text: Bytes, ends: Places) -> NDArray[np.int64]:
    """The power of ten that follows a number, as in 1.5e-05; 0 where there is none."""
    sign = text[ends + 1]
    first = ends + 1 + ((sign == MINUS) | (sign == PLUS))
    there = ((text[ends] | 0x20) == LETTER) & _is_digit(text[first])
    value = text[first].astype(np.int64) - ZERO
    more = there & _is_digit(text[first + 1])
    value = np.where(more, value * 10 + text[first + 1].astype(np.int64) - ZERO, value)
    return np.where(there, np.where(sign == MINUS, -value, value), 0)
