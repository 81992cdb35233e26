"""What a person sees of a run while it runs: the view on a terminal, and the few lines elsewhere."""

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from damnatio.running import watching
from damnatio.running.status import DONE, FAILED, RUNNING, WAITING, Progress, State, Status
from damnatio.running.watching import Bar, Watch, picture, short_line
from damnatio.support.progress import Dark, progress, shown_on, watched


def running(name: str, share: float, note: str = "process 1 on a host") -> State:
    similarity = {"retain": (0.7, 0.68), "forget": (0.65, 0.11)}
    losses = {"loss": 3.2, "retain": 2.9, "forget": 0.3}
    return State(name, "5-forget", RUNNING, note, progress=Progress(share, 812.4, 30.0, losses, similarity))


def of(*states: State, left: float | None = 300.0, slots: int = 1, unknown: int = 0, **each: float) -> Status:
    return Status("demo", list(states), left, unknown, slots, each)


MADE, WAITS = State("4-train/original", "", DONE), State("report", "", WAITING)


def seen(*what: object, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(picture(*what))  # type: ignore[arg-type]
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_view_names_every_part_of_it() -> None:
    found = of(MADE, running("5-forget/S1-HD", 0.46), WAITS)
    text = seen("demo", found, [], 240.0)
    lines = text.splitlines()
    assert lines[0] == "demo: 1 of 3 parts done, 4 min gone, about 5 min left of 9 min"
    assert "5-forget/S1-HD" in lines[1]
    assert "46%" in lines[1]
    assert "812 images/s" in lines[1]
    assert lines[2].strip() == "loss 3.200  retain 2.900  forget 0.300"
    assert lines[3].strip() == "similarity: retain 0.700 -> 0.680, forget 0.650 -> 0.110"


def test_all_slots_are_in_one_view() -> None:
    states = [running(f"5-forget/S1-{name}", share) for name, share in (("HD", 0.1), ("PD", 0.2), ("OF", 0.3))]
    text = seen("demo", of(*states, WAITS, slots=3), [], 10.0)
    assert [line.split()[0] for line in text.splitlines() if "images/s" in line] == [
        "5-forget/S1-HD",
        "5-forget/S1-PD",
        "5-forget/S1-OF",
    ]


def test_own_work_is_shown_as_it_goes() -> None:
    """Of this process the present bar counts, not the log, which is older."""
    mine = running("5-forget/S1-HD", 0.1, f"process {os.getpid()} on here since yesterday")
    bar = Bar("S1 HD", 200, "images", 100, "loss 1.000")
    text = seen("demo", of(mine, WAITS), [bar, Bar("hash pixels.npy", 10, "MB", 5)], 10.0)
    assert "50%" in text.splitlines()[1]
    assert "loss 1.000" in text
    assert "hash pixels.npy" in text
    assert "S1 HD" not in text  # the part has its name


def test_before_a_number_is_known_it_is_estimating() -> None:
    assert seen("demo", None, [], 1.0).strip() == "demo: estimating the time of the whole run"
    assert short_line(of(MADE, WAITS, left=None, unknown=1), 70.0) == (
        "1 of 2 parts done, 70 s gone, estimating the time left"
    )
    assert short_line(of(MADE, WAITS, left=120.0, unknown=1), 60.0).endswith("at least 2 min left of 3 min")
    failed = State("5-forget/S1-HD", "", FAILED, "no")
    assert short_line(of(MADE, failed, left=0.0), None) == "1 of 2 parts done, 1 failed, about 0 s left"
    assert short_line(of(MADE), None) == "1 of 1 parts done"


@pytest.fixture
def watch() -> Watch:
    return Watch("demo", lambda line: None, 0.0)


def test_plain_lines_are_few(watch: Watch) -> None:
    """A run of 2000 s that goes as expected, looked at every second: a line per tenth, and the last is the ninth."""
    watch._said = 2000.0
    said = {gone: line for gone in range(1, 2000) if (line := watch.due(of(MADE, WAITS, left=2000.0 - gone), gone))}
    assert list(said) == [200, 400, 600, 800, 1000, 1200, 1400, 1600, 1800]
    assert said[1000].split(maxsplit=1)[1] == "1 of 2 parts done, 17 min gone, about 17 min left of 33 min"


def test_a_short_run_says_nothing_between(watch: Watch) -> None:
    watch._said = 59.0
    assert not any(watch.due(of(MADE, WAITS, left=59.0 - gone), gone) for gone in range(59))


def test_a_total_that_turns_out_wrong_is_said_again(watch: Watch) -> None:
    watch._said = 1000.0
    assert watch.due(of(MADE, WAITS, left=1240.0 - 61), 61.0) == ""  # less than a quarter more
    assert watch.due(of(MADE, WAITS, left=3000.0), 61.0)
    assert watch.due(of(MADE, WAITS, left=8000.0), 100.0) == ""  # not one after the other
    assert watch.due(of(MADE, WAITS, left=8000.0), 122.0)
    assert watch.due(of(MADE, running("5-forget/S1-HD", 0.5), left=3000.0), 190.0).endswith(
        "; 5-forget/S1-HD 50%, 812 images/s, loss 3.200"
    )


def test_work_appears_on_the_screen_that_is_up(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    assert not watched()
    with shown_on(watch), progress("embed", 40, "images", 4) as advance, progress("", 0, "tiles"):
        assert watched()
        (bar,) = watch._bars  # what has no title is not worth a line
        assert (bar.share, bar.fast) == (0.1, "")
        for now[0] in (1.0, 3.0):
            advance(8, note="half")
        assert (bar.share, bar.fast, bar.note) == (0.5, "4 images/s", "half")
        own = State("6-embed/original", "", RUNNING, f"process {os.getpid()} on here")
        assert "50%  4 images/s  5 s left" in seen("demo", of(own, **{own.name: 99}), [bar], 3.0)
        with shown_on(Dark()), progress("hidden", 3, "images") as unseen:
            unseen(1)
        assert len(watch._bars) == 1
    assert (watch._bars, watched()) == ([], False)


@pytest.mark.parametrize(
    ("terminal", "term", "live"), [(True, "xterm", True), (True, "dumb", False), (False, "xterm", False)]
)
def test_only_a_terminal_gets_the_view(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, term: str, live: bool, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("TERM", term)
    assert watching.on_terminal() == live


def test_a_folder_is_watched_until_all_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter([of(MADE, WAITS, left=120.0), of(MADE, WAITS, left=60.0), of(MADE)])
    said: list[str] = []
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr(watching, "on_terminal", lambda: False)
    watching.watch_folder(lambda: next(states), "demo", said.append)  # type: ignore[arg-type]
    assert said == ["1 of 2 parts done, about 2 min left", "1 of 2 parts done, about 60 s left"]
    assert slept == [watching.QUIET] * 2
