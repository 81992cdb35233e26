"""The code that a result depends on: the modules that a stage imports, near or far, found by reading their source.

A stage's key holds the digest of each module that its build reaches. Comments, docstrings and layout do not count: the
digest is taken of the parsed code. A file that lies beside a reached module and is no module itself, such as the
template of a page, counts as it is.
"""

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = "damnatio"
HOME = Path(__file__).resolve().parents[1]
WITHOUT_EFFECT = (
    "damnatio",
    "damnatio.recipe",
    *(f"damnatio.support.{name}" for name in ("code", "errors", "manifests", "progress", "registry", "waiting")),
)
"""Modules that cannot change a result: sentences, progress lines, hashes, the look-up of names, how threads wait, and
the recipe, whose settings are in the key by their values. A module that is missing here costs a computation; one too
many would let a stale result be reused."""


def digests(roots: Iterable[str], home: Path = HOME) -> dict[str, str]:
    """The digest of every module that these modules reach, themselves included, by name."""
    found: dict[str, str] = {}
    waiting = [name for root in roots for name in _with_packages(root)]
    while waiting:
        name = waiting.pop()
        file = _file(name, home)
        if name in found or file is None or _without_effect(name):
            continue
        digest, imported = _read(file)
        found[name] = digest
        waiting += [package for module in imported for package in _with_packages(module)]
    return dict(sorted(found.items()))


def behind(function: Callable[..., Any]) -> dict[str, str]:
    """The digests of all code that a function runs: of the modules that it imports or takes names from, of the methods
    that it calls on `self`, and of its own source."""
    roots: set[str] = set()
    sources: dict[str, str] = {}
    _follow(function, type(inspect.getclosurevars(function).nonlocals.get("self")), roots, sources)
    return digests(roots) | dict(sorted(sources.items()))


def _follow(function: Callable[..., Any], owner: type, roots: set[str], sources: dict[str, str]) -> None:
    """Add the modules that a function reaches, and its own source; `owner` is the class of its `self`."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    name = f"{function.__module__}:{function.__qualname__}"
    sources[name] = hashlib.sha256(ast.unparse(_without_docstrings(tree)).encode()).hexdigest()[:16]
    roots.update(imported_by(tree))
    for value in inspect.getclosurevars(function).globals.values():
        module = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None) or ""
        if module.split(".")[0] == PACKAGE and module != function.__module__:
            roots.add(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            method = getattr(owner, node.attr, None)
            method = getattr(method, "func", method)  # a cached property
            if inspect.isfunction(method) and f"{method.__module__}:{method.__qualname__}" not in sources:
                _follow(method, owner, roots, sources)


def digest_of_file(file: Path, home: Path = HOME) -> dict[str, str]:
    """The same of a file outside the package, such as a plugin, and of what it imports from the package."""
    digest, imported = _read(file)
    return {file.name: digest, **digests(imported, home)}


def imported_by(tree: ast.AST) -> Iterator[str]:
    """The modules of this package that the code imports anywhere, except imports only for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in node.orelse:
                yield from imported_by(other)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").split(".")[0] == PACKAGE:
                yield str(node.module)
                yield from (f"{node.module}.{alias.name}" for alias in node.names)  # a name may be a module
        else:
            yield from imported_by(node)


@cache
def _read(file: Path) -> tuple[str, tuple[str, ...]]:
    """The digest of a module, and what it imports."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    content = hashlib.sha256(ast.unparse(_without_docstrings(tree)).encode())
    if file.name == "__init__.py":
        for other in sorted(file.parent.iterdir()):
            if other.is_file() and other.suffix != ".py":
                content.update(other.read_bytes())
    return content.hexdigest()[:16], tuple(dict.fromkeys(imported_by(tree)))


def _without_docstrings(tree: ast.Module) -> ast.Module:
    """The code without docstrings. A string that stands as a statement is a docstring, or describes the name above."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                code = [one for one in block if not _is_text(one)]
                setattr(node, name, code or ([ast.Pass()] if block else []))
    return tree


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _with_packages(module: str) -> list[str]:
    """A module and the packages around it: importing it runs their files too."""
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _file(module: str, home: Path) -> Path | None:
    below = home.joinpath(*module.split(".")[1:])
    places = (below.with_suffix(".py"), below / "__init__.py")
    return next((place for place in places if place.is_file()), None)


def _without_effect(module: str) -> bool:
    return module in WITHOUT_EFFECT or module.startswith(tuple(f"{name}." for name in WITHOUT_EFFECT[1:]))
