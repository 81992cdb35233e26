"""A run while it runs: a live view on a terminal, few plain lines elsewhere. Both say the time left of the whole run.

    demo: 12 of 38 parts done, 5 min gone, about 9 min left of 14 min
      5-forget/S1-HD  ━━━━━━━━━━━╸━━━━━━━━━━━━   46 %   812 images/s   21 s left
        loss 3.211  retain 2.901  forget 0.310
        similarity: retain 0.714 -> 0.702, strangers 0.021 -> 0.019, forget 0.655 -> 0.112

The work of this process shows itself on the view (`support/progress.py`); that of other processes, such as the slots of
`--on gpus` and the jobs of Slurm, is read from the run's folder.
"""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from damnatio.running.status import DONE, FAILED, RUNNING, Look, State, Status, duration
from damnatio.support.errors import DamnatioError
from damnatio.support.progress import Advance, shown_on

if TYPE_CHECKING:
    from rich.console import RenderableType

POLL = 1.0
"""seconds between two looks at the run's folder"""
QUIET = 60.0
"""seconds between two plain lines, at the least"""
LINES = 10
"""into so many parts of equal time the plain lines divide a run"""
WRONG = 1.25
"""factor between the total that was said last and the present one, from which on it is said again"""
WINDOW = 10.0
"""seconds over which a speed is taken"""


def on_terminal() -> bool:
    """Whether a person looks at the standard error of this process."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


def short_line(found: Status | None, gone: float | None) -> str:
    """How much of the whole run is done, and the time left; with the time that is `gone`, the total too."""
    if found is None:
        return "estimating the time of the whole run"
    done = f"{found.count(DONE)} of {len(found.states)} parts done"
    done += f", {found.count(FAILED)} failed" if found.count(FAILED) else ""
    done += f", {duration(gone)} gone" if gone is not None else ""
    if found.count(DONE) == len(found.states):
        return done
    if found.left is None:
        return f"{done}, estimating the time left"
    about = "at least" if found.unknown else "about"
    total = f" of {duration(gone + found.left)}" if gone is not None else ""
    return f"{done}, {about} {duration(found.left)} left{total}"


@dataclass
class Bar:
    """A piece of work of this process."""

    title: str
    total: int | None
    unit: str
    done: int
    note: str = ""
    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def advance(self, count: int, note: str = "") -> None:
        self.done += count
        self.note = note
        now = time.monotonic()
        self._seen.append((now, self.done))
        while len(self._seen) > 2 and self._seen[0][0] < now - WINDOW:
            self._seen.popleft()

    @property
    def share(self) -> float | None:
        return min(self.done / self.total, 1.0) if self.total else None

    @property
    def speed(self) -> float:
        """Units per second; 0 if it is not known."""
        if len(self._seen) < 2:
            return 0.0
        (then, before), (now, done) = self._seen[0], self._seen[-1]
        return (done - before) / (now - then) if now > then else 0.0

    @property
    def fast(self) -> str:
        return f"{self.speed:,.0f} {self.unit}/s" if self.speed else ""


class Watch:
    """Shows a run until it ends. As a context, it is the screen of this process's own work."""

    def __init__(self, title: str, say: Callable[[str], None], started: float) -> None:
        self.title, self.started = title, started
        self.look: Look | None = None
        """what is asked how far the run is; None as long as its time is being estimated"""
        self._say, self._bars = say, list[Bar]()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._status: tuple[float, Status] | None = None
        self._first = self._said = 0.0
        """seconds of the whole run, as they were said first and last"""
        self._said_at = (0.0, 0)
        """when the last plain line was said, and how many tenths of the run had passed"""

    # --- the run ----------------------------------------------------------------------------------------------------

    def begin(self, look: Look) -> None:
        """The time is estimated: say what the whole run will take."""
        self.look = look
        found = self.status()
        if found is not None and found.left is not None and found.count(DONE) < len(found.states):
            self._said = self._first = self.gone + found.left
            what = "the rest of the run" if found.count(DONE) else "the whole run"
            beside = f", {found.slots} parts at a time" if found.slots > 1 else ""
            self.say(_timed(f"about {duration(self._first)} for {what}{beside}"))

    @property
    def gone(self) -> float:
        return time.monotonic() - self.started

    def status(self) -> Status | None:
        """How far the run is. The folder is not read more often than it changes."""
        with self._lock, suppress(OSError, ValueError, DamnatioError):  # a folder that others change meanwhile
            now = time.monotonic()
            if self.look is not None and (self._status is None or now - self._status[0] >= POLL):
                self._status = now, self.look()
        return self._status[1] if self._status else None

    def say(self, line: str) -> None:
        """A line that stays."""
        self._say(line)

    @contextmanager
    def bar(self, title: str, total: int | None, unit: str, done: int) -> Iterator[Advance]:
        bar = Bar(title, total, unit, done)
        if title and total:  # other work is not worth a line
            self._bars.append(bar)
        try:
            yield bar.advance
        finally:
            self._bars = [one for one in self._bars if one is not bar]

    def __enter__(self) -> Self:
        self._screen = shown_on(self)
        self._screen.__enter__()
        self._show()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._ended.set()
        self._hide()
        self._screen.__exit__(None, None, None)
        if kind is None and self._first >= QUIET:
            self.say(_timed(f"{duration(self.gone)} in all; {duration(self._first)} were said at the beginning"))

    # --- plain lines ------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        self._thread = threading.Thread(target=self._speak, daemon=True)
        self._thread.start()

    def _hide(self) -> None:
        self._thread.join()

    def _speak(self) -> None:
        while not self._ended.wait(POLL):
            line = self.due(self.status(), self.gone)
            if line:
                self.say(line)

    def due(self, found: Status | None, gone: float) -> str:
        """The plain line that is due now; empty if none is. One is due after each tenth of the whole run, and when its
        time turns out to be another, but not one after the other."""
        if found is None or found.left is None or found.left <= 0:
            return ""
        total = gone + found.left
        passed = int(LINES * gone / total)
        at, before = self._said_at
        if gone < at + QUIET:
            return ""
        if passed <= before and 1 / WRONG < total / (self._said or total) < WRONG:
            return ""
        self._said, self._said_at = total, (gone, passed)
        running = [_briefly(state) for state in found.states if state.state == RUNNING]
        return _timed(f"{short_line(found, gone)}{'; ' if running else ''}{', '.join(running)}")


class LiveWatch(Watch):
    """The same on a terminal: the view stays below the lines."""

    def _show(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        together = sys.stdout.isatty()  # else what is printed goes elsewhere, and must go on going there
        self._live = Live(
            get_renderable=self._picture,
            console=self._console,
            refresh_per_second=2,
            transient=True,
            redirect_stdout=together,
        )
        self._live.start()

    def _hide(self) -> None:
        self._live.stop()

    def say(self, line: str) -> None:
        if sys.stdout.isatty() and not self._ended.is_set():
            self._console.print(line, soft_wrap=True, markup=False, highlight=False)
        else:
            self._say(line)

    def _picture(self) -> "RenderableType":
        return picture(self.title, self.status(), list(self._bars), self.gone)


def picture(title: str, found: Status | None, bars: list[Bar], gone: float | None) -> "RenderableType":
    """The view: a line on the whole run, then what is being made."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    head = Text(f"{title}: ", style="bold").append(short_line(found, gone), style="default")
    running = [state for state in found.states if state.state == RUNNING] if found else []
    mine = f"process {os.getpid()} on "
    own = next((state for state in running if state.note.startswith(mine)), None)
    rows: list[RenderableType] = []
    for state in running:
        left = found.each.get(state.name) if found else None
        rows += _block(state, left, bars[0] if bars and state is own else None)
    rows += [_row(bar.title, bar.share, bar.fast, "") for bar in (bars[1:] if own else bars)]
    return Group(head, *(Padding(row, (0, 0, 0, 2)) for row in rows))


def _block(state: State, left: float | None, bar: Bar | None) -> "list[RenderableType]":
    """A part that is being made: how far it is, and what its training says."""
    from rich.text import Text

    progress = state.progress
    share, speed = (progress.share, f"{progress.images_per_second:,.0f} images/s") if progress else (None, "")
    if share is None and left is not None and state.seconds + left > 0:
        share = state.seconds / (state.seconds + left)  # by the clock
    losses = "  ".join(f"{name} {value:.3f}" for name, value in progress.losses.items()) if progress else ""
    if bar is not None and bar.share is not None:
        share, speed, losses = bar.share, bar.fast or speed, bar.note or losses
        if bar.speed and bar.total is not None and left is not None:
            left = (bar.total - bar.done) / bar.speed
    words = f"{duration(left)} left" if left is not None else "estimating"
    rows: list[RenderableType] = [_row(state.name, share, speed, words)]
    rows += [Text(f"  {losses}", style="dim")] if losses else []
    if progress and progress.similarity:
        pairs = ", ".join(f"{name} {first:.3f} -> {now:.3f}" for name, (first, now) in progress.similarity.items())
        rows.append(Text(f"  similarity: {pairs}", style="dim"))
    return rows


def _row(name: str, share: float | None, speed: str, words: str) -> "RenderableType":
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(min_width=20, no_wrap=True)
    for _ in range(4):
        grid.add_column(no_wrap=True)
    done = f"{share:4.0%}" if share is not None else ""
    grid.add_row(name, ProgressBar(total=1.0, completed=share or 0.0, width=24), done, speed, words)
    return grid


def _briefly(state: State) -> str:
    progress = state.progress
    if progress is None:
        return state.name
    loss = f", loss {progress.losses['loss']:.3f}" if "loss" in progress.losses else ""
    return f"{state.name} {progress.share:.0%}, {progress.images_per_second:,.0f} images/s{loss}"


def _timed(words: str) -> str:
    return f"{'time':<13} {'':<12} {words}"


def watch_folder(look: Look, title: str, say: Callable[[str], None]) -> None:
    """Show a run that other processes make, until all of it is done."""
    if not on_terminal():
        while (found := look()).count(DONE) < len(found.states):
            say(short_line(found, None))
            time.sleep(QUIET)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True) as live:
        while (found := look()).count(DONE) < len(found.states):
            live.update(picture(title, found, [], None), refresh=True)
            time.sleep(POLL)
