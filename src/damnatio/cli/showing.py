"""What a command prints: lines while it works, and the tables of a finished report."""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from damnatio.recipe.schema import Recipe
    from damnatio.reporting.joined import Run


def speaks() -> bool:
    """Whether this process prints: of several, the first one does."""
    return os.environ.get("RANK", "0") == "0"


def say(line: str) -> None:
    if speaks():
        print(line, flush=True)


def show_joined(runs: "Sequence[Run]", folder: Path) -> None:
    """The tables of a finished joined report, and where its page is."""
    from damnatio.reporting.joined import terminal_tables

    console = _console()
    _show(console, terminal_tables(runs, console.width), folder)


def show_report(recipe: "Recipe", folder: Path) -> None:
    """The tables of a finished report, and where its page is."""
    from damnatio.reporting.report import terminal_tables

    console = _console()
    _show(console, terminal_tables(recipe, folder, console.width), folder)


def _console() -> "Console":
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 200)


def _show(console: "Console", tables: Iterable[object], folder: Path) -> None:
    console.print()
    for table in tables:
        console.print(table)
        console.print()
    console.print(f"Page: {folder / 'index.html'}", soft_wrap=True)
