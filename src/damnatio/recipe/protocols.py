"""What two runs must have in common, so that their numbers can stand in one table."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from damnatio.recipe.schema import Recipe

PROTOCOL: dict[str, set[str] | None] = {
    "faces": None,
    "captures": None,
    "partitions": None,
    "evaluate": {"operating_points", "nonmated_pairs"},
}
"""the sections that decide who is compared with whom and at which rates, and the keys of a section that do"""
PLACES = {"root", "path", "pools", "cache_gb"}
"""keys of the faces that say where they are and how they are kept"""
_NO_PART: Any = {
    **dict.fromkeys(("name", "seed", "seeds", "experiments", "plugins"), True),
    **dict.fromkeys(("threads", "deterministic", "tensorboard"), True),
    "faces": PLACES,
    "model": {"weights"},
    "evaluate": {"embed_batch"},
}
"""what names a run, and what two machines may say in two ways"""


@dataclass(frozen=True)
class Difference:
    """A key at which two recipes differ, and what each of them says there."""

    key: str
    first: Any
    second: Any

    def __str__(self) -> str:
        return f"{self.key} is {_shown(self.first)} and {_shown(self.second)}"


def other_protocol(first: Recipe, second: Recipe) -> Difference | None:
    """The first difference between the protocols of two recipes. The people they draw may differ: that is the seed."""
    return next(_differences(_protocol(first), _protocol(second)), None)


def other_settings(first: Recipe, second: Recipe) -> Difference | None:
    """The first difference between two recipes that should differ in nothing but their seeds."""
    return next(_differences(_settings(first), _settings(second)), None)


def _protocol(recipe: Recipe) -> dict[str, Any]:
    settings = _settings(recipe)
    return {
        section: {key: value for key, value in settings[section].items() if keys is None or key in keys}
        for section, keys in PROTOCOL.items()
    }


def _settings(recipe: Recipe) -> dict[str, Any]:
    return recipe.model_dump(mode="json", exclude=_NO_PART, exclude_none=True)


def _differences(first: Any, second: Any, at: str = "") -> Iterator[Difference]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in dict.fromkeys([*first, *second]):
            yield from _differences(first.get(key), second.get(key), f"{at}.{key}" if at else str(key))
    elif first != second:
        yield Difference(at, first, second)


def _shown(value: Any) -> str:
    return "not set" if value is None else str(value)
