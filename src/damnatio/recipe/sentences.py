"""Content is checked against a section of the recipe; all mistakes in it become one sentence."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from damnatio.support.errors import DamnatioError, nearest

Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], content: Any, source: str | Path, place: str = "") -> Model:
    """The content as a section, or one sentence that names each key at fault."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise DamnatioError(_sentence(error, model, source, place)) from error


def _sentence(error: ValidationError, model: type[BaseModel], source: str | Path, place: str) -> str:
    """pydantic's findings, one clause each, with the nearest known key for a misspelt one."""
    clauses = []
    for finding in error.errors():
        path = [str(part) for part in finding["loc"]]
        where = ".".join([place, *path] if place else path)
        if finding["type"] == "extra_forbidden":
            clauses.append(f"unknown key '{where}'.{nearest(path[-1], _keys(model, path[:-1]))}")
        elif finding["type"] == "missing":
            clauses.append(f"'{where}' is missing.")
        else:
            value = finding.get("input")
            given = f" (given: {value!r})" if isinstance(value, str | int | float) else ""
            message = finding["msg"].removeprefix("Value error, ")
            clauses.append(f"{where + ': ' if where else ''}{message}{given}.")
    return f"Recipe {source}: " + " ".join(clauses)


def _keys(model: Any, path: Sequence[str]) -> list[str]:
    """The known keys of the section at `path` below a model."""
    for part in path:
        model = model.model_fields[part].annotation
    return list(model.model_fields)
