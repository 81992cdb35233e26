"""What a person sees of long work: a line on a terminal, a plain line per minute elsewhere."""

import pytest

from damnatio.support import progress as module
from damnatio.support.progress import duration, prefixed, progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_a_pipe_gets_a_plain_line_per_minute(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress("HD S1", 4000, "images", done=400) as advance:
        for _ in range(13):
            clock[0] += 10
            advance(100, note="loss 3.211")
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "HD S1: 25% of 4,000 images, 10 images/s, 5 min left, loss 3.211",
        "HD S1: 40% of 4,000 images, 10 images/s, 4 min left, loss 3.211",
    ]
    assert not said.out


def test_work_without_a_total_has_no_time_left(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with prefixed("[3 of 9]"), progress("rows", None, "rows") as advance:
        clock[0] += 60
        advance(120)
    assert capsys.readouterr().err == "[3 of 9] rows: 120 rows, 2 rows/s\n"


@pytest.mark.parametrize(("title", "total", "rank"), [("", 5, "0"), ("tiles", 0, "0"), ("tiles", 5, "1")])
def test_what_is_not_worth_a_line_gets_none(
    clock: list[float],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    title: str,
    total: int,
    rank: str,
) -> None:
    monkeypatch.setenv("RANK", rank)
    with progress(title, total, "tiles") as advance:
        clock[0] += 600
        advance(1)
    assert not capsys.readouterr().err


def test_a_terminal_gets_a_line_and_one_for_the_work_inside(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("TERM", "xterm")
    with progress("HD S1", 100, "images") as advance, progress("[hash]", 10, "MB") as inner:
        advance(50, note="loss [3]")
        inner(1)
        (lines,) = module._shown
        lines.refresh()
    assert not module._shown
    said = capsys.readouterr().err
    assert "HD S1" in said
    assert "50/100" in said
    assert "[hash]" in said
    assert "loss [3]" in said


def test_durations() -> None:
    assert [duration(seconds) for seconds in (89, 90, 5400, 172_800)] == ["89 s", "2 min", "1.5 h", "2.0 days"]
