"""The files whose code names the output of an evaluation."""

import ast
from pathlib import Path

import damnatio
from damnatio import evaluation


def imported(path: Path) -> set[Path]:
    """The files of `evaluation` and `metrics` that a file imports."""
    package = Path(damnatio.__path__[0])
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    names = {str(node.module) for node in nodes}
    names |= {f"{node.module}.{alias.name}" for node in nodes for alias in node.names}
    names = {name for name in names if name.startswith(("damnatio.evaluation.", "damnatio.metrics."))}
    places = [package.joinpath(*name.split(".")[1:]) for name in names]
    return {file for place in places for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()}


def test_code_is_every_file_behind_a_measurement() -> None:
    """All but `choosing`, which decides how long a scan takes and no number."""
    package = Path(damnatio.__path__[0])
    found = waiting = {package / "evaluation/measuring.py"}
    while waiting:
        waiting = set[Path]().union(*map(imported, waiting)) - found
        found = found | waiting
    names = {path.relative_to(package).as_posix() for path in found}
    assert names - {"evaluation/choosing.py"} == set(evaluation.CODE)
