"""Fragments in text: JSON, CSV, SQL, pickles of protocol 0, or any other list of decimal numbers.

Windows of a chunk in which many bytes are digits are taken for text. All numbers in them are read at once, column by
column, and eight consecutive ones are compared with the fragments: to half a unit of the last digit that is printed.
"""

from collections.abc import Iterator

import numpy as np
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
"""bytes of the longest number, `-0.00012345678901234567`"""
COARSE = 12
"""bits of a float32 that the first comparison leaves out: numbers of four digits still pass"""
LEAST = 1e-2
"""the coarsest relative step of a printed number that says anything"""
AT_ONCE = 1 << 14

_DIGIT = np.zeros(256, bool)
_DIGIT[np.frombuffer(b"0123456789", np.uint8)] = True
_POINT, _MINUS, _PLUS = ord("."), ord("-"), ord("+")


class Decimals:
    """Finds fragments in the text of chunks."""

    def __init__(self, fragments: Fragments) -> None:
        self._fragments = fragments
        rows = np.arange(len(fragments.values))
        anchors = fragments.values[rows, fragments.anchors] if len(rows) else np.empty(0, np.float32)
        places = ordered(anchors)
        self._order = np.argsort(places, kind="stable")
        self._sorted = places[self._order]
        coarse = places >> COARSE
        self._coarse = np.unique(np.concatenate([coarse - 1, coarse, coarse + 1])) if len(rows) else coarse

    def look(self, chunk: Bytes) -> Iterator[Seen]:
        """The fragments in the text of a chunk."""
        if not len(self._sorted):
            return
        for start, end in _text(chunk):
            starts, values, steps = numbers(chunk[start:end])
            if len(values) >= SIZE:
                yield from self._look(values, steps, starts + start)

    def _look(self, values: NDArray[np.float64], steps: NDArray[np.float64], at: Places) -> Iterator[Seen]:
        with np.errstate(over="ignore"):
            places = ordered(values.astype(np.float32))
        near = np.searchsorted(self._coarse, places >> COARSE).clip(max=len(self._coarse) - 1)
        likely = np.flatnonzero((self._coarse[near] == places >> COARSE) & (steps <= LEAST * np.abs(values)))
        slack = (1 << COARSE) + ULPS
        low = np.searchsorted(self._sorted, places[likely] - slack, "left")
        counts = np.searchsorted(self._sorted, places[likely] + slack, "right") - low
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = self._order[np.repeat(low, counts) + within]
        begins = np.repeat(likely, counts) - self._fragments.anchors[rows]
        inside = (begins >= 0) & (begins + SIZE <= len(values))
        for part in range(0, len(begins), AT_ONCE):
            chosen = inside[part : part + AT_ONCE]
            some, of = begins[part : part + AT_ONCE][chosen], rows[part : part + AT_ONCE][chosen]
            places_of = some[:, None] + np.arange(SIZE)
            wanted = self._fragments.values[of].astype(np.float64)
            slack_of = np.maximum(0.51 * steps[places_of], ULPS * np.spacing(np.abs(wanted).astype(np.float32)))
            whole = (np.abs(values[places_of] - wanted) <= slack_of).all(axis=1)
            if whole.any():
                yield Seen(self._fragments.of[of[whole]], at[some[whole]], NAME)


def _text(chunk: Bytes) -> Iterator[tuple[int, int]]:
    """(begin, end) of runs of windows that look like text, with a little on both sides."""
    looked = chunk[::EVERY] - np.uint8(ord("0")) < 10
    each = WINDOW // EVERY
    whole = len(looked) // each * each
    shares = looked[:whole].reshape(-1, each).mean(axis=1)
    rest = looked[whole:]
    text = np.append(shares, rest.mean() if len(rest) else 0.0) >= SHARE
    edges = np.flatnonzero(np.diff(np.concatenate([[False], text, [False]]).astype(np.int8)))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield max(first * WINDOW - WINDOW, 0), min(last * WINDOW + WINDOW, len(chunk))


def numbers(text: Bytes) -> tuple[Places, NDArray[np.float64], NDArray[np.float64]]:
    """Where each number begins, its value, and the step of its last digit."""
    part = _DIGIT[text] | (text == _POINT)
    begins = np.flatnonzero(part & ~np.concatenate([[False], part[:-1]]))
    padded = np.concatenate([text, np.zeros(LONGEST + 8, np.uint8)])
    count = len(begins)
    mantissa, exponent, digits = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    point, open_, length = np.zeros(count, bool), np.ones(count, bool), np.zeros(count, np.int64)
    for column in range(LONGEST):
        byte = padded[begins + column]
        digit = open_ & _DIGIT[byte]
        dot = open_ & (byte == _POINT) & ~point
        open_ &= digit | dot
        if not open_.any():
            break
        taken = digit & (digits < DIGITS)
        mantissa = np.where(taken, mantissa * 10 + (byte.astype(np.int64) - ord("0")), mantissa)
        digits += taken & (mantissa > 0)
        exponent += (digit & ~taken & ~point).astype(np.int64) - (taken & point)
        point |= dot
        length += open_
    power, more = _powers(padded, begins + length)
    negative = np.where(begins > 0, padded[begins - 1], 0) == _MINUS
    scale = 10.0 ** np.clip(exponent + power, -300, 300).astype(np.float64)
    values = mantissa * scale * np.where(negative, -1.0, 1.0)
    real = (length > 0) & (point | more) & ~_is_power(padded, begins)
    return begins[real], values[real], scale[real]


def _powers(padded: Bytes, ends: Places) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The power of ten that follows a number, as in 1.5e-05, and whether there is one."""
    more = (padded[ends] | 0x20) == ord("e")
    sign = padded[ends + 1]
    signed = (sign == _MINUS) | (sign == _PLUS)
    first = ends + 1 + signed
    more &= _DIGIT[padded[first]]
    second = _DIGIT[padded[first + 1]]
    value = padded[first].astype(np.int64) - ord("0")
    value = np.where(second, value * 10 + padded[first + 1].astype(np.int64) - ord("0"), value)
    return np.where(more, np.where(sign == _MINUS, -value, value), 0), more


def _is_power(padded: Bytes, begins: Places) -> NDArray[np.bool_]:
    """Whether what looks like a number is the power of the one before it."""
    before = np.where(begins > 0, padded[begins - 1], 0)
    signed = (before == _MINUS) | (before == _PLUS)
    letter = np.where(signed, padded[np.maximum(begins - 2, 0)], before)
    place = np.where(signed, begins - 3, begins - 2)
    return np.asarray(((letter | 0x20) == ord("e")) & (place >= 0) & _DIGIT[padded[np.maximum(place, 0)]])
