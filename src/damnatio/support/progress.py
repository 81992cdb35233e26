"""Progress of long work, on standard error: one line on a terminal, else one plain line per minute.

    [12 of 41] S1 HD  ━━━━━━━╸━━━━  23,552/51,200  812 images/s  0:00:34  loss 3.211  retain 2.901  forget 0.310

The time left is that of this work alone, at its own pace.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

Advance = Callable[..., None]
"""advance(n, note="..."): n more units are done; the line ends with the note"""
EVERY = 60.0
"""seconds between two plain lines"""

_prefixes: list[str] = []
_shown: "list[Progress]" = []
"""the lines that this process shows on a terminal; work inside other work adds a line to them"""


@contextmanager
def prefixed(words: str) -> Iterator[None]:
    """Begin the title of all work in the block with these words."""
    _prefixes.append(words)
    try:
        yield
    finally:
        _prefixes.pop()


@contextmanager
def progress(title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Advance]:
    """Show how far a piece of work is. `done` units were finished before. `total` is None if it is not known. Work
    without a title is not shown, nor is that of a worker, or of a process of a group beside the main one."""
    if not title or total == 0 or os.environ.get("RANK", "0") != "0" or multiprocessing.parent_process() is not None:
        yield _unseen
        return
    title = " ".join(filter(None, [*_prefixes[-1:], title]))
    if not sys.stderr.isatty():
        yield _Plain(title, total, unit, done)
    elif _shown:
        with _row(_shown[-1], title, total, unit, done) as advance:
            yield advance
    else:
        with _lines() as lines, _row(lines, title, total, unit, done) as advance:
            yield advance


def _unseen(count: int, note: str = "") -> None:
    """Progress that is not shown."""


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"


class _Plain:
    """A line per minute."""

    def __init__(self, title: str, total: int | None, unit: str, done: int) -> None:
        self.title, self.total, self.unit, self.done = title, total, unit, done
        self._first, self._started = done, time.monotonic()
        self._said = self._started

    def __call__(self, count: int, note: str = "") -> None:
        self.done += count
        now = time.monotonic()
        if now - self._said < EVERY:
            return
        self._said = now
        speed = (self.done - self._first) / (now - self._started)
        parts = [f"{self.done:,} {self.unit}", f"{speed:,.0f} {self.unit}/s"]
        if self.total:
            parts[0] = f"{self.done / self.total:.0%} of {self.total:,} {self.unit}"
            parts += [f"{duration((self.total - self.done) / speed)} left"] if speed else []
        print(f"{self.title}: {', '.join([*parts, *filter(None, [note])])}", file=sys.stderr, flush=True)


@contextmanager
def _lines() -> "Iterator[Progress]":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            unit = task.fields["unit"]
            return Text(f"{task.speed:,.0f} {unit}/s" if task.speed else f"- {unit}/s", style="cyan")

    columns = (
        TextColumn("  {task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        Speed(),
        TimeLeft(),
        TextColumn("{task.fields[note]}", style="dim", markup=False),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as lines:
        _shown.append(lines)
        try:
            yield lines
        finally:
            _shown.remove(lines)


@contextmanager
def _row(lines: "Progress", title: str, total: int | None, unit: str, done: int) -> Iterator[Advance]:
    task = lines.add_task(title, total=total, completed=done, note="", unit=unit)
    try:
        yield lambda count, note="": lines.update(task, advance=count, note=note)
    finally:
        lines.remove_task(task)
