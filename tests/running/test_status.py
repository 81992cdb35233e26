"""What `damnatio status` says of a run, by its folder alone."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from damnatio.running.graph import read_graph, wanted_of
from damnatio.running.status import DONE, FAILED, RUNNING, WAITING, status, text_of, watch
from damnatio.running.walking import Walk
from damnatio.support.locks import Lock
from damnatio.support.progress import EVERY
from damnatio.training.loop import METRICS
from damnatio.training.similarity import FILE as SIMILARITY
from tests.running.worlds import ask, fail_with, small_graph


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """A run in the middle: a is made, and another process has begun b."""
    small_graph(tmp_path).save(tmp_path)
    with Walk(tmp_path, lambda line: None) as walk:
        ask(walk, {"b": fail_with(RuntimeError("no b"))})
        yield tmp_path


def states(run: Path) -> dict[str, str]:
    return {state.name: state.state for state in status(run).states}


def begin(run: Path, lines: list[dict[str, float]]) -> Path:
    """The folder in which b is made, with a log. Returns its lock."""
    graph = read_graph(run)
    (node,) = [node for node in graph.nodes.values() if node.name == "b"]
    wanted = wanted_of(node, graph.done(run))
    assert wanted is not None
    name = wanted.place(run).name
    partial = run / "4-train" / f".partial-{name}"
    partial.mkdir(parents=True)
    (partial / METRICS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run / ".locks" / f"4-train.{name}"


def test_another_output_of_the_same_name_is_not_taken_for_it(run: Path) -> None:
    """Two experiments train an `original` each, and each has its own progress."""
    other = run / "4-train" / ".partial-b-00000000"
    other.mkdir(parents=True)
    (other / METRICS).write_text(json.dumps({"step": 8, "epoch": 2.0, "images_per_second": 9.0}) + "\n")
    Lock(run / ".locks" / "4-train.b-00000000").take()
    lock = Lock(begin(run, [{"step": 2, "epoch": 0.5, "images_per_second": 4.0}]))
    lock.take()
    (state,) = [state for state in status(run).states if state.state == RUNNING]
    assert state.progress is not None
    assert state.progress.share == 0.125


def test_what_failed_is_told_with_its_last_line(run: Path) -> None:
    found = status(run)
    assert states(run) == {
        "1-faces/a": DONE,
        "4-train/b": FAILED,
        "5-forget/left": WAITING,
        "5-forget/right": WAITING,
        "7-evaluate/join": WAITING,
        "7-evaluate/check": WAITING,
    }
    text = text_of(found)
    assert "failed   4-train/b                   no b" in text
    assert text.endswith("\n1 of 6 stages done, 1 failed, 4 waiting")


def test_what_runs_is_told_with_who_and_how_far(run: Path) -> None:
    log = {"step": 2, "epoch": 0.5, "lr": 0.1, "loss": 3.0, "forget": 0.25, "images_per_second": 4.0}
    lock = Lock(begin(run, [log]))
    lock.take()
    (partial,) = (run / "4-train").glob(".partial-b-*")
    (partial / SIMILARITY).write_text('{"step": 0, "forget": 0.65}\n{"step": 2, "forget": 0.11}\n')
    (state,) = [state for state in status(run).states if state.state == RUNNING]
    assert "process" in state.note
    assert state.progress is not None
    assert state.progress.share == 0.125
    # 2 of 16 steps of 10 images are done, at 4 images per second
    assert f"{state.progress}".endswith("4 images/s, 35 s left")
    lines = text_of(status(run)).splitlines()
    place = next(place for place, line in enumerate(lines) if line.startswith("running"))
    assert "4 images/s, 35 s left; process" in lines[place]
    assert lines[place + 1].strip() == "loss 3.000  forget 0.250"
    assert lines[place + 2].strip() == "similarity: forget 0.650 -> 0.110"
    lock.release()


def test_whose_process_died_waits_for_the_next(run: Path) -> None:
    path = begin(run, [])
    lock = Lock(path)
    lock.take()
    assert lock._file is not None
    lock._file.close()  # as the kernel does when a process ends
    (state,) = [state for state in status(run).states if state.name == "4-train/b"]
    assert state.state == WAITING
    assert "which is gone: the same command goes on" in state.note


def test_a_run_is_watched_until_all_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_graph(tmp_path).save(tmp_path)
    said: list[str] = []

    def go_on(seconds: float) -> None:
        assert seconds == EVERY
        with Walk(tmp_path, lambda line: None) as walk:
            ask(walk)

    monkeypatch.setattr("time.sleep", go_on)
    watch(tmp_path, said.append)
    assert said == ["0 of 6 stages done, 6 waiting"]


def test_a_terminal_shows_what_runs_and_what_failed(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Lock(begin(run, [])).take()

    def leave(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("time.sleep", leave)
    with pytest.raises(KeyboardInterrupt):
        watch(run, print)
    screen = capsys.readouterr().err
    assert "small: 1 of 6 stages done, 1 running, 4 waiting" in screen
    assert "running  4-train/b" in screen
    assert "5-forget" not in screen


def test_a_finished_run_is_done(tmp_path: Path) -> None:
    small_graph(tmp_path).save(tmp_path)
    with Walk(tmp_path, lambda line: None) as walk:
        ask(walk)
    assert text_of(status(tmp_path)).endswith("\n6 of 6 stages done")
