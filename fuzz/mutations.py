"""Damage that needs no knowledge of the format: bytes, and the tokens of a text."""

import json
import re
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Literal

Mutate = Callable[[Random, Sequence[bytes]], bytes]
"""Makes a new file from the valid ones; the same state of the generator gives the same file."""

MOST = 1 << 20
"""the largest input in bytes: small files show the defects of reading"""
NUMBERS = (0, 1, 2, 3, 4, 7, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 2**31 - 1, 2**31, 2**32 - 1)
LARGE = (2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


# --- bytes -----------------------------------------------------------------------------------------------------------


def damaged(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A valid file with some edits, or now and then random bytes after the beginning of one."""
    content = bytearray(rng.choice(seeds))
    if rng.random() < 0.03:
        return bytes(content[: rng.choice((0, 2, 4, 8, 12, 16))]) + rng.randbytes(rng.randrange(4096))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 9))):
        rng.choice(_EDITS)(rng, content, seeds)
    return bytes(content[:MOST])


def _place(rng: Random, content: bytearray) -> int:
    """A place in the file, more often near the ends, where headers and footers are."""
    size = max(len(content), 1)
    near = min(size, 64)
    return rng.choice((rng.randrange(size), rng.randrange(near), size - 1 - rng.randrange(near)))


def _flip(rng: Random, content: bytearray, seeds: Sequence[bytes]) -> None:
    if content:
        content[_place(rng, content)] ^= 1 << rng.randrange(8)


def _set(rng: Random, content: bytearray, seeds: Sequence[bytes]) -> None:
    if content:
        content[_place(rng, content)] = rng.choice((0, 1, 0x20, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _number(rng: Random, content: bytearray, seeds: Sequence[bytes]) -> None:
    """A number of a header: zero, minus one, huge, or a little off."""
    width = rng.choice((2, 4, 4, 8))
    if len(content) < width:
        return
    place = min(_place(rng, content), len(content) - width)
    order: Literal["little", "big"] = "little" if rng.random() < 0.7 else "big"
    old = int.from_bytes(content[place : place + width], order)
    new = rng.choice((*NUMBERS, *LARGE, old + 1, old - 1, old * 2, len(content), rng.getrandbits(8 * width)))
    content[place : place + width] = (new % (1 << 8 * width)).to_bytes(width, order)


def _truncate(rng: Random, content: bytearray, seeds: Sequence[bytes]) -> None:
    del content[_place(rng, content) :]


def _insert(rng: Random, content: bytearray, seeds: Sequence[bytes]) -> None:
    place = _place(rng, content)
    content[place:place] = rng.randbytes(rng.choice((1, 2, 4, 16, 300)))


def _chunk(rng: Random, content: bytearray) -> slice:
    start = _place(rng, content)
    return slice(start, start + rng.choice((1, 2, 4, 8, 64, 512, 4096)))


def _delete(rng: Random, content: bytearray, seeds: Sequence[bytes]) -> None:
    del content[_chunk(rng, content)]


def _repeat(rng: Random, content: bytearray, seeds: Sequence[bytes]) -> None:
    chunk = content[_chunk(rng, content)]
    place = _place(rng, content)
    content[place:place] = chunk * rng.choice((1, 1, 2, 50))


def _move(rng: Random, content: bytearray, seeds: Sequence[bytes]) -> None:
    chunk, place = content[_chunk(rng, content)], _place(rng, content)
    content[place : place + len(chunk)] = chunk


def _splice(rng: Random, content: bytearray, seeds: Sequence[bytes]) -> None:
    other = rng.choice(seeds)
    content[_place(rng, content) :] = other[_place(rng, bytearray(other)) :]


_EDITS = (_flip, _flip, _set, _set, _number, _number, _number, _truncate, _insert, _delete, _repeat, _move, _splice)


# --- text ------------------------------------------------------------------------------------------------------------

TOKEN = re.compile(rb"[\w.+-]+|\s+|[^\w\s]", re.DOTALL)
WORDS = (
    *(b"", b"0", b"-1", b"1.5", b"nan", b"inf", b"-inf", b"1e999", b"-0.0", b"9" * 30, b"9" * 5000, b"1_000", b"0x10"),
    *(
        b"true",
        b"null",
        b"~",
        b"[]",
        b"{}",
        b"''",
        b'""',
        b'"',
        b"'",
        b",",
        b":",
        b"-",
        b"#",
        b"\n",
        b"\t",
        b"\r",
        b"\\",
    ),
    *(b"\0", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x85", b"\x0c", b"\x1b[31m"),
    *(b"\xd9\xa3", b"\xc2\xb2", b"2001-13-45", b"2001-01-01", b"1:30", b"..", b"/", b"/dev/null", b"../../etc/passwd"),
    *(b"&a [*a]", b"*a", b"<<: *a", b"!!python/object/apply:os.system ['true']", b"!!binary x", b"!!set {a}", b"? [a]"),
    *(
        b"\\ud800",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1E400",
        b"__class__",
        b"${HOME}",
        b"%s%n",
        b"{0}",
        b"x" * 200_000,
    ),
)


def edited(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A valid text with tokens and lines swapped, lost, doubled or replaced; sometimes bytes are damaged as well."""
    if rng.random() < 0.1:
        return damaged(rng, seeds)
    tokens = TOKEN.findall(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        place, other = rng.randrange(len(tokens) + 1), rng.randrange(len(tokens) + 1)
        match rng.randrange(8):
            case 0 | 1 | 2:
                tokens[place : place + 1] = [rng.choice(WORDS)]
            case 3:
                tokens[place:place] = [rng.choice(WORDS)]
            case 4:
                tokens[place : place + 1], tokens[other : other + 1] = (
                    tokens[other : other + 1],
                    tokens[place : place + 1],
                )
            case 5:
                del tokens[place : place + rng.choice((1, 2, 10))]
            case 6:
                lines = b"".join(tokens).splitlines(keepends=True)
                some = rng.randrange(len(lines) + 1)
                lines[some:some] = lines[some - 1 : some] * rng.choice((1, 1, 3))
                rng.random() < 0.3 and rng.shuffle(lines)  # type: ignore[func-returns-value]
                tokens = TOKEN.findall(b"".join(lines))
            case _:
                tokens[place:place] = [_nested(rng)]
    return b"".join(tokens)[:MOST]


def _nested(rng: Random) -> bytes:
    open_, close = rng.choice(((b"[", b"]"), (b"{a: ", b"}"), (b'{"a":', b"}"), (b"- ", b""), (b"(", b")")))
    depth = rng.choice((3, 60, 900, 20_000))
    return open_ * depth + b"1" + close * rng.choice((depth, depth, 0))


def laughs(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A recipe in which each line repeats or merges the one before many times over."""
    form = rng.choice(("{{<<: [{}]}}", "[{}]", "{{k: [{}]}}"))
    times, before = (
        rng.choice((2, 10, 40)),
        rng.choice((b"x:\n", b"model:\n head_options:\n", b"forget:\n settings:\n")),
    )
    lines = ["  a0: &a0 {k: 1}"]
    for line in range(1, rng.choice((3, 8, 30))):
        lines.append(f"  a{line}: &a{line} " + form.format(", ".join([f"*a{line - 1}"] * times)))
    return rng.choice(seeds) + b"\n" * rng.randrange(2) + before + "\n".join(lines).encode()


VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 0.5, 1e308, float("nan"), float("inf"), 2**31, 2**63, 2**64, 10**30, -(2**63)),
    *("", "x", "0", "nan", "\0", "\ud800", "é" * 300, "../../x", "/dev/null", [], {}, [[]], {"": None}, [0, -1], ["x"]),
)


def changed(rng: Random, value: Any) -> Any:
    """A JSON value in which one element, at any depth, is replaced, lost, doubled or renamed."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        if isinstance(value, int) and rng.random() < 0.5:
            return value + rng.choice((-1, 1, 8, 2**32, -value, -2 * value))
        return rng.choice(VALUES)
    if isinstance(value, dict):
        content = dict(value)
        key = rng.choice(list(content))
        match rng.randrange(8):
            case 0:
                del content[key]
            case 1:
                content[rng.choice(("", "x", f"{key}2", "__metadata__"))] = content.pop(key)
            case 2:
                content[rng.choice(list(content))] = content[key]
            case _:
                content[key] = changed(rng, content[key])
        return content
    items = list(value)
    place = rng.randrange(len(items))
    match rng.randrange(6):
        case 0:
            del items[place]
        case 1:
            items.insert(place, items[rng.randrange(len(items))])
        case _:
            items[place] = changed(rng, items[place])
    return items


def changed_json(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """JSON with changed values; sometimes its text is edited as well, or instead."""
    if rng.random() < 0.3:
        return edited(rng, seeds)
    content = changed(rng, json.loads(rng.choice(seeds)))
    text = json.dumps(content).encode()
    return edited(rng, [text]) if rng.random() < 0.2 else text


def length_first(text: bytes) -> bytes:
    """JSON as in the header of safetensors: eight bytes of length, then the text."""
    return struct.pack("<Q", len(text)) + text


def mixed(*ways: Mutate) -> Mutate:
    """Applies one of these mutations at a time."""

    def mutate(rng: Random, seeds: Sequence[bytes]) -> bytes:
        return rng.choice(ways)(rng, seeds)

    return mutate
