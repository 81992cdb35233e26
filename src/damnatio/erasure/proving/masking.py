"""No name in a record: whatever text goes into it, the names that were looked for are replaced."""

import re
from collections.abc import Sequence
from typing import Any

MASK = "[name]"
BETWEEN = r"(?:[\s_.+-]|%20)*"
"""what may stand between the words of a name in a path or an address"""


def masked(content: Any, names: Sequence[str]) -> Any:
    """The content, as JSON has it, with each name in each text replaced, whatever its capitals and separators."""
    patterns = [_pattern(name) for name in names if name.strip()]
    return _masked(content, patterns)


def holds_name(text: str, names: Sequence[str]) -> bool:
    return any(_pattern(name).search(text) for name in names if name.strip())


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


def _pattern(name: str) -> re.Pattern[str]:
    words = [re.escape(word) for word in re.split(r"[\s_.-]+", name) if word]
    spelt = BETWEEN.join(words) or re.escape(name)
    return re.compile(rf"(?<![^\W_]){spelt}(?![^\W_])", re.IGNORECASE)
