"""No name in a record: whatever text goes into it, the names of the person are replaced.

A name is known by its parts of three letters or more ("Lee"), in any order ("Lee, Ann"), written as one (`annLee`), as
the user of an address or a folder (`alee@`, `/home/annl`), and whatever its capitals, accents and percent signs. A name
with digits is a number of somebody's register, and is known as a whole.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any
from urllib.parse import unquote

MASK = "[name]"
PART = 3
"""letters from which on a part of a name is a name"""
LETTER = r"(?:[^\W\d_]|[\u0300-\u036f]|(?:%[c-fC-F][0-9a-fA-F])(?:%[89abAB][0-9a-fA-F])+)"
WORD = re.compile(f"{LETTER}+")
GAP = r"(?:[\s_.,;+'-]|%20|%2[cC])*"
"""what may stand between the words of a name"""
JOINED = re.compile(rf"{re.escape(MASK)}(?:{GAP}{re.escape(MASK)})+")
HUMP = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])")
SPELT = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ı": "i"})
UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})
MOST_WORDS = 4
"""words of a name that are joined in every order"""


@dataclass(frozen=True)
class _Forms:
    words: frozenset[str]
    """a word that is a name by itself"""
    beside: frozenset[str]
    """short words and first letters, which are a name beside another part of it"""
    users: frozenset[str]
    """as the user of an address, or a folder"""
    whole: re.Pattern[str] | None
    """names with digits, and names in scripts that put no space between words"""


def masked(content: Any, names: Sequence[str]) -> Any:
    """The content, as JSON has it, with each name in each text replaced. No two keys of a dict become one."""
    return _masked(content, _forms(tuple(names)))


def holds_name(text: str, names: Sequence[str]) -> bool:
    """Whether a short text holds a name, or within a word a part of one."""
    parts = {part for name in names for word in WORD.findall(name) for part in _folded(word) if len(part) >= PART}
    return masked(text, names) != text or any(part in one for part in parts for one in _folded(text))


def _masked(content: Any, forms: _Forms) -> Any:
    if isinstance(content, str):
        return _of_text(content, forms)
    if isinstance(content, list):
        return [_masked(one, forms) for one in content]
    if isinstance(content, dict):
        found: dict[str, Any] = {}
        for name, one in content.items():
            key = _of_text(name, forms)
            while key in found:
                key += "'"
            found[key] = _masked(one, forms)
        return found
    return content


def _of_text(text: str, forms: _Forms) -> str:
    if forms.whole is not None:
        text = forms.whole.sub(MASK, text)

    def word(match: re.Match[str]) -> str:
        found = match[0]
        is_user = text[match.end() :].startswith(("@", "%40")) or text[: match.start()].endswith(("/", "\\", "~"))
        if _folded(found) & (forms.words | (forms.users if is_user else frozenset())):
            return MASK
        return "".join(MASK if _folded(hump) & forms.words else hump for hump in HUMP.split(found))

    found = WORD.sub(word, text) if forms.words else text
    if MASK in found and forms.beside:
        found = _with_those_beside(found, forms)
    return JOINED.sub(MASK, found)


def _with_those_beside(text: str, forms: _Forms) -> str:
    """Also short words next to what was replaced; a letter alone only if it is a capital, or stands close."""
    mask, gap = re.escape(MASK), f"({GAP})"

    def is_part(word: str, between: str) -> bool:
        return bool(_folded(word) & forms.beside) and (len(word) > 1 or word.isupper() or not re.search(r"\s", between))

    def before(match: re.Match[str]) -> str:
        return MASK if is_part(match[1], match[2]) else match[0]

    def after(match: re.Match[str]) -> str:
        return MASK if is_part(match[2], match[1]) else match[0]

    text = re.sub(rf"({LETTER}+){gap}{mask}", before, text)
    return re.sub(rf"{mask}{gap}({LETTER}+)", after, text)


@lru_cache(maxsize=8)
def _forms(names: tuple[str, ...]) -> _Forms:
    words, beside, users, whole = set[str](), set[str](), set[str](), set[str]()
    for name in filter(str.strip, names):
        if re.search(r"\d", name):
            whole.add(_spaced(name))
            continue
        parts = WORD.findall(name)
        if any(ord(letter) > 0x2E80 for letter in name):
            whole.add(GAP.join(map(re.escape, parts)))
        short = [part for part in parts if len(part) < PART]
        whole |= {_spaced(f"{one} {other}") for one, other in permutations(short, 2)}
        folded = [_folded(part) for part in parts]
        if len(parts) == 1:
            words |= folded[0]
        for some in folded:
            words |= {one for one in some if len(one) >= PART}
            beside |= {one for one in some if len(one) < PART} | {one[0] for one in some if len(parts) > 1 and one}
        for count in range(2, min(len(folded), MOST_WORDS) + 1):
            for order in permutations([min(some, key=len) for some in folded][:MOST_WORDS], count):
                words.add("".join(order))
        for one, other in permutations(folded, 2):
            users |= {first[:1] + second for first in one for second in other if len(second) >= PART}
            users |= {first + second[:1] for first in one for second in other if len(first) >= PART}
    every = "|".join(sorted(whole, key=len, reverse=True))
    return _Forms(
        frozenset(words), frozenset(beside), frozenset(users), re.compile(every, re.IGNORECASE) if every else None
    )


def _spaced(name: str) -> str:
    """A name with digits, whatever its separators; no letter may touch it, and no digit its digits."""
    words = [re.escape(word) for word in re.split(r"[\s_.-]+", name) if word] or [re.escape(name)]
    first, last = (r"\d" if name.strip()[end].isdigit() else "" for end in (0, -1))
    return (
        rf"(?<![^\W\d_]){f'(?<!{first})' if first else ''}{GAP.join(words)}(?![^\W\d_]){f'(?!{last})' if last else ''}"
    )


def _folded(word: str) -> frozenset[str]:
    """A word without capitals and accents, in the ways in which it may be spelt."""
    lower = unicodedata.normalize("NFC", unquote(word, errors="replace")).casefold()
    return frozenset(
        "".join(letter for letter in unicodedata.normalize("NFKD", one) if not unicodedata.combining(letter))
        for one in (lower.translate(SPELT), lower.translate(UMLAUTS))
    )
