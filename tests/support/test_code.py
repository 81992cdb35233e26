"""The code behind a stage: what it reaches is found, what cannot matter does not count."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import pytest

from damnatio.methods import METHODS
from damnatio.partitions import draw
from damnatio.support import code
from damnatio.support.code import HOME, WITHOUT_EFFECT, behind, digest_of_file, digests

EVALUATION = ["damnatio.evaluation.measuring", "damnatio.evaluation.protocol", "damnatio.embedding"]
EVALUATED = sorted(digests(EVALUATION))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, to be edited."""
    copy = tmp_path_factory.mktemp("source") / "damnatio"
    shutil.copytree(HOME, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def edited(home: Path, module: str, change: Callable[[str], str]) -> dict[str, str]:
    """The digests of the evaluation with one of its modules changed."""
    place = home.joinpath(*module.split(".")[1:])
    file = place.with_suffix(".py") if place.with_suffix(".py").is_file() else place / "__init__.py"
    before = file.read_text()
    try:
        file.write_text(change(before))
        code._read.cache_clear()
        return digests(EVALUATION, home)
    finally:
        file.write_text(before)
        code._read.cache_clear()


@pytest.mark.parametrize("module", EVALUATED)
def test_edit_of_any_module_that_the_evaluation_reaches_changes_its_key(home: Path, module: str) -> None:
    changed = edited(home, module, lambda text: f"{text}\nADDED = 1\n")
    assert changed[module] != digests(EVALUATION, home)[module]


@pytest.mark.parametrize("module", EVALUATED)
def test_comment_docstring_or_layout_changes_nothing(home: Path, module: str) -> None:
    def worded(text: str) -> str:
        begins = text.startswith('"""')
        told = text.replace('"""', '"""Other words. ', 1) if begins else text
        return f"# a comment\n{told}\n\n\n# another\n"

    assert edited(home, module, worded) == digests(EVALUATION, home)


def test_everything_that_is_imported_at_run_time_is_found() -> None:
    """The interpreter knows best what an import loads."""
    script = f"import sys, {', '.join(EVALUATION)}\nprint(*[m for m in sys.modules if m.split('.')[0] == 'damnatio'])"
    loaded = set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )
    harmless = {name for name in loaded if name in WITHOUT_EFFECT or name.startswith("damnatio.recipe.")}
    assert loaded - harmless == set(EVALUATED)


def test_imports_for_type_checkers_do_not_count() -> None:
    assert "damnatio.methods.base" not in digests(["damnatio.methods"])


def test_method_counts_with_what_it_builds_on() -> None:
    behind_ascent = METHODS.code("GA")
    assert {"damnatio.methods.gradient_ascent", "damnatio.methods.neggrad_plus", "damnatio.heads.cosface"} <= set(
        behind_ascent
    )
    assert "damnatio.frames" in METHODS.code("OF")
    assert "damnatio.frames" not in METHODS.code("HD")
    assert not any(name.startswith("damnatio.recipe") for name in METHODS.code("OF"))


def test_plugin_counts_with_what_it_imports(tmp_path: Path) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text("from damnatio.heads.cosface import CosFace\n")
    first = digest_of_file(plugin)
    assert {"mine.py", "damnatio.heads.cosface"} <= set(first)
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "mine.py"
    other.write_text("from damnatio.heads.cosface import CosFace\n\nMARGIN = 1\n")
    assert digest_of_file(other)["mine.py"] != first["mine.py"]


@pytest.mark.parametrize("name", ["page.html", "page.css", "main.js"])
def test_template_beside_the_modules_counts(home: Path, name: str) -> None:
    before = digests(["damnatio.reporting.report"], home)["damnatio.reporting.page"]
    page = home / "reporting/page" / name
    page.write_text(page.read_text() + "<!-- edited -->")
    code._read.cache_clear()
    assert digests(["damnatio.reporting.report"], home)["damnatio.reporting.page"] != before


class Stages:
    @cached_property
    def _source(self) -> object:
        from damnatio.faces.folder import Folder

        return Folder

    def _drawn(self) -> object:
        return draw

    def build(self) -> Callable[[Path], None]:
        def build(folder: Path) -> None:
            from damnatio.captures import find_captures

            print(find_captures, self._source, self._drawn(), folder)

        return build


def test_function_counts_with_its_imports_its_names_and_the_methods_it_calls() -> None:
    found = behind(Stages().build())
    assert {"damnatio.captures", "damnatio.faces.folder", "damnatio.partitions"} <= set(found)
    own = [name.split(":")[1] for name in found if ":" in name]
    assert own == ["Stages._drawn", "Stages._source", "Stages.build.<locals>.build"]
