"""Live lines for long work: done of total, speed, time left. Nothing is written unless somebody looks.

Work announces itself by `progress`. Who shows a whole run puts up a screen (`shown_on`), and the work appears there.
Without a screen it gets a line of its own on a terminal, and nothing in logs and pipes.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[..., None]
"""advance(n, note="..."): n more units are done; the line ends with the note"""


class Screen(Protocol):
    """What shows the work of this process."""

    def bar(self, title: str, total: int | None, unit: str, done: int) -> AbstractContextManager[Advance]: ...


_screens: list[tuple[int, Screen]] = []
"""each with the process that put it up: a forked worker has none"""


@contextmanager
def shown_on(screen: Screen) -> Iterator[None]:
    """Inside the block, all work of this process is shown on this screen."""
    _screens.append((os.getpid(), screen))
    try:
        yield
    finally:
        _screens.pop()


def watched() -> bool:
    """Whether a screen shows the work of this process."""
    return bool(_screens) and _screens[-1][0] == os.getpid()


class Dark:
    """A screen that shows nothing, of a process whose parent shows its work."""

    @contextmanager
    def bar(self, title: str, total: int | None, unit: str, done: int) -> Iterator[Advance]:
        yield _unseen


@contextmanager
def progress(title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Advance]:
    """Say how far a piece of work is. `done` units were finished before. No total: it is not known."""
    if os.environ.get("RANK", "0") != "0":  # of a group, the main process shows it
        yield _unseen
    elif watched():
        with _screens[-1][1].bar(title, total, unit, done) as advance:
            yield advance
    elif sys.stderr.isatty():
        with _own_line(title, total, unit, done) as advance:
            yield advance
    else:
        yield _unseen


def _unseen(count: int, note: str = "") -> None:
    """The progress that nobody looks at."""


@contextmanager
def _own_line(title: str, total: int | None, unit: str, done: int) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f} {unit}/s" if task.speed else f"- {unit}/s", style="cyan")

    columns = (
        TextColumn("  {task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        Speed(),
        TimeLeft(),
        TextColumn("[dim]{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task(title, total=total, completed=done, note="")
        yield lambda n, note="": bar.update(task, advance=n, note=note)
