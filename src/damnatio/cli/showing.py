"""What a command prints: lines while it works, and the tables of a finished report."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damnatio.support.errors import printable

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from damnatio.recipe.schema import Recipe
    from damnatio.reporting.joined import Run


def speaks() -> bool:
    """Whether this process prints: of several, the first one does."""
    return os.environ.get("RANK", "0") == "0"


def say(line: str) -> None:
    if speaks():
        print(printable(line, lines=True), flush=True)


def add_tables(verb: "argparse.ArgumentParser") -> None:
    verb.add_argument("--tables", action="store_true", help="print the tables of rates and distances too")


def show_joined(runs: "Sequence[Run]", folder: Path, tables: bool = False) -> None:
    """The answer of a finished joined report, its tables if they are asked for, and where its page is."""
    from damnatio.reporting.joined import terminal_tables

    _show(folder, lambda width: terminal_tables(runs, width) if tables else [])


def show_report(recipe: "Recipe", folder: Path, tables: bool = False) -> None:
    """The answer of a finished report, its tables if they are asked for, and where its page is."""
    from damnatio.reporting.report import terminal_tables

    _show(folder, lambda width: terminal_tables(recipe, folder, width) if tables else [])


def _show(folder: Path, tables: "Callable[[int], Iterable[object]]") -> None:
    from rich.console import Console

    from damnatio.reporting.page.comparing import read_content

    console = Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)
    tell(read_content(folder), console)
    for table in tables(console.width):
        console.print(table)
        console.print()
    console.print(f"Page: {folder / 'index.html'}", soft_wrap=True)


def tell(content: "Mapping[str, Any]", console: "Console | None" = None) -> None:
    """The answer in words."""
    from rich.console import Console

    from damnatio.reporting.page.telling import told

    console = console or Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)
    console.print()
    for line in told(dict(content), min(console.width, 120)):
        console.print(line, soft_wrap=True)
    console.print()
