"""Imports point one way: cli, erasure, running, pipeline, recipe files, stages, parts, recipe sections, support."""

import ast
from pathlib import Path

import pytest

from damnatio.support.code import HOME, imported_by

SUPPORT = ["support"]
SECTIONS = ["recipe.schema", "recipe.protocols", "recipe.sentences", "recipe.yaml_text"]
PARTS = ["backbones", "data", "frames", "galleries", "heads", "losses", "methods", "metrics", "models", "protocol"]
STAGES = ["faces", "captures", "partitions", "training", "forgetting", "embedding", "evaluation", "reporting"]
ORDER = [
    *SUPPORT,
    *SECTIONS,
    *PARTS,
    *STAGES,
    "recipe",
    "workspace",
    "pipeline",
    "running",
    "erasure",
    "cli",
    "__main__",
]


def level(module: str) -> tuple[int, str]:
    """How high a module stands, and the room it is in. Rooms of one level may not import each other, parts apart."""
    inner = module.removeprefix("damnatio.")
    room = next((name for name in ORDER if inner == name or inner.startswith(f"{name}.")), None)
    assert room is not None, f"{module} is in no room: add it to the order"
    if room in SUPPORT:
        return 0, room
    if room in SECTIONS:
        return 1, "sections"
    if room in PARTS:
        return 2, "parts"
    if room in STAGES:
        return 3 + STAGES.index(room), room
    return 20 + ORDER.index(room), room


def modules() -> list[str]:
    files = sorted(HOME.rglob("*.py"))
    names = [".".join(("damnatio", *file.relative_to(HOME).with_suffix("").parts)) for file in files]
    return [name.removesuffix(".__init__") for name in names if name != "damnatio.__init__"]


def source(module: str) -> Path:
    place = HOME.joinpath(*module.split(".")[1:])
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


@pytest.mark.parametrize("module", modules())
def test_no_module_imports_what_stands_above_it(module: str) -> None:
    here, room = level(module)
    known = set(modules())
    for imported in set(imported_by(ast.parse(source(module).read_text()))):
        if imported in known:
            there, other = level(imported)
            assert there < here or other == room, f"{module} imports {imported}"


def test_recipe_is_read_without_torch() -> None:
    """Only the checks need torch, and they are imported where they are called."""
    for module in modules():
        if module.startswith("damnatio.recipe") and module != "damnatio.recipe.checks":
            tree = ast.parse(source(module).read_text())
            top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
            named = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
            named |= {str(node.module) for node in top if isinstance(node, ast.ImportFrom)}
            assert not any(name.split(".")[0] == "torch" for name in named), module


def test_at_most_twenty_seven_names_stand_at_the_top() -> None:
    names = {path.stem for path in HOME.iterdir() if not path.name.startswith("_") and path.name != "py.typed"}
    assert len(names) <= 27, sorted(names)
