"""Errors that are sentences for the person at the keyboard: what was wrong, where, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class DamnatioError(ValueError):
    """Bad input or an impossible request. The command line prints only its text and exits with `code`."""

    code = 2
    is_news = True
    """whether this process is the one that reports it"""


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: ` Did you mean 'x'?`, or the list of known names if none is similar."""
    names = sorted(known)
    close = get_close_matches(word, names, n=1, cutoff=0.6)
    if close:
        return f" Did you mean '{close[0]}'?"
    return f" Known: {', '.join(names)}." if names else ""
