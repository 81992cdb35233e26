"""What `damnatio status` says of a run, by its folder alone."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from damnatio.running.graph import read_graph, wanted_of
from damnatio.running.status import DONE, FAILED, RUNNING, WAITING, status, text_of
from damnatio.running.walking import Walk
from damnatio.support.locks import Lock
from damnatio.training.loop import METRICS
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
    assert text.endswith("1 done, 1 failed, 4 waiting; estimating the time left")


def test_what_runs_is_told_with_who_and_how_far(run: Path) -> None:
    lock = Lock(begin(run, [{"step": 2, "epoch": 0.5, "images_per_second": 4.0}]))
    lock.take()
    (state,) = [state for state in status(run).states if state.state == RUNNING]
    assert "process" in state.note
    assert state.progress is not None
    # 2 of 16 steps of 10 images are done, at 4 images per second
    assert (state.progress.share, state.progress.seconds_left) == (0.125, 35.0)
    assert "12%, 4 images/s, 35 s left; process" in text_of(status(run)).replace("13%", "12%")
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


def test_the_time_left_is_that_of_parts_of_the_same_kind(tmp_path: Path) -> None:
    small_graph(tmp_path).save(tmp_path)
    with Walk(tmp_path, lambda line: None) as walk:
        outputs = ask(walk, {"left": fail_with(RuntimeError("no left"))})
    manifest = outputs["right"].manifest
    manifest["made"]["seconds"] = 100.0
    (outputs["right"].path / "stage.json").write_text(json.dumps(manifest))
    found = status(tmp_path)
    assert (found.left, found.unknown) == (100.0, 2)
    assert text_of(found).endswith("3 done, 1 failed, 2 waiting; at least 2 min left")


def test_a_finished_run_has_no_time_left(tmp_path: Path) -> None:
    small_graph(tmp_path).save(tmp_path)
    with Walk(tmp_path, lambda line: None) as walk:
        ask(walk)
    assert text_of(status(tmp_path)).endswith("\n6 done")
