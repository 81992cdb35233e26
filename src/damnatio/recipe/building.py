"""A recipe from plain content: one content laid over another, and the content made a typed recipe."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from damnatio.faces import SOURCES
from damnatio.recipe.schema import Recipe
from damnatio.recipe.sentences import validated


def built(content: Mapping[str, Any], source: str | Path) -> Recipe:
    """The recipe of this content, before the checks that need torch; `source` names it where something is wrong."""
    chosen = source_of(content)
    if chosen is not None:
        kind = SOURCES.get(chosen).Settings
        content = {**content, "faces": validated(kind, content["faces"], source, "faces")}
    return validated(Recipe, content, source)


def source_of(content: Mapping[str, Any]) -> str | None:
    """The name of the source of faces, if the content has one."""
    faces = content.get("faces")
    return str(faces["source"]) if isinstance(faces, Mapping) and "source" in faces else None


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`, section by section; another source or set of scales replaces the whole of the old one."""
    both = dict(below)
    for key, value in above.items():
        old = both.get(key)
        whole = key == "scales" or (isinstance(value, dict) and "source" in value)
        both[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) and not whole else value
    return both
