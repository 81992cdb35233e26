"""No name in a record: whatever text goes into it, the names that were looked for are replaced."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

MASK = "[name]"
BETWEEN = r"(?:[\s_.+-]|%20)*"
"""what may stand between the words of a name in a path or an address"""


def masked(content: Any, names: Sequence[str]) -> Any:
    """The content, as JSON has it, with each name in each text replaced, whatever its capitals, its separators, and the
    encoding of its accents."""
    patterns = [pattern for name in names if name.strip() for pattern in _patterns(name)]
    return _masked(content, patterns)


def holds_name(text: str, names: Sequence[str]) -> bool:
    return bool(masked(text, names) != text)


def _masked(content: Any, patterns: list[re.Pattern[str]]) -> Any:
    if isinstance(content, str):
        for pattern in patterns:
            content = pattern.sub(MASK, content)
        return content
    if isinstance(content, list):
        return [_masked(one, patterns) for one in content]
    if isinstance(content, dict):
        return {_masked(name, patterns): _masked(one, patterns) for name, one in content.items()}
    return content


def _patterns(name: str) -> list[re.Pattern[str]]:
    """Letters may not touch a name, since it would be part of another word; digits may, as in Ann01."""
    words = [word for word in re.split(r"[\s_.-]+", name) if word] or [name]
    forms = [[unicodedata.normalize(form, word) for word in words] for form in ("NFC", "NFD")]
    forms.append([quote(word) for word in forms[0]])
    spelt = dict.fromkeys(BETWEEN.join(re.escape(word) for word in form) for form in forms)
    return [re.compile(rf"(?<![^\W\d_]){one}(?![^\W\d_])", re.IGNORECASE) for one in spelt]
