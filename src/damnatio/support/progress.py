"""One live line for long work: done of total, speed, time left. Nothing is written unless stderr is a terminal."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[..., None]
"""advance(n, note="..."): n more units are done; the line ends with the note"""


@contextmanager
def progress(title: str, total: int | None, unit: str, done: int = 0) -> Iterator[Advance]:
    """A live line on a terminal, nothing in logs and pipes. `done` units were finished before; no total: it is not
    known."""
    if not sys.stderr.isatty() or os.environ.get("RANK", "0") != "0":  # of a group, the main process shows it
        yield lambda n, note="": None
        return
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
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total, completed=done, note="")
        yield lambda n, note="": bar.update(task, advance=n, note=note)
