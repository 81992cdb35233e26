"""Errors that are sentences for the person at the keyboard: what was wrong, where, and what to do."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""control characters, those that turn the direction of writing, and halves of characters"""


class DamnatioError(ValueError):
    """Bad input or an impossible request. The command line prints only its text and exits with `code`."""

    code = 2
    is_news = True
    """whether this process is the one that reports it"""


def printable(text: str, lines: bool = False) -> str:
    """A text from outside as terminals and pages may show it: what steers them is written as its number. `lines`: it
    may have several."""
    if lines:
        return "\n".join(map(printable, text.split("\n")))
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: ` Did you mean 'x'?`, or the list of known names if none is similar."""
    names = sorted(known)
    close = get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f" Did you mean '{close[0]}'?"
    return f" Known: {', '.join(names)}." if names else ""
