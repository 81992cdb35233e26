"""A walk makes what was chosen, looks for the rest, and goes on around what fails."""

import errno
from pathlib import Path

import pytest

from damnatio.running import failures as failing
from damnatio.running.failures import failures
from damnatio.running.walking import Walk
from damnatio.support.errors import DamnatioError
from damnatio.training import stopping
from damnatio.training.stopping import Stopped
from damnatio.workspace import Absent
from tests.running.worlds import ask, fail_with


def made(outputs: dict[str, object]) -> list[str]:
    return [name for name, output in outputs.items() if not isinstance(output, Absent)]


def walk_in(folder: Path, **options: object) -> Walk:
    return Walk(folder, lambda line: None, **options)  # type: ignore[arg-type]


def test_everything_is_made_if_nothing_is_chosen(tmp_path: Path) -> None:
    with walk_in(tmp_path / "run") as walk:
        outputs = ask(walk)
        walk.conclude()
    assert made({**outputs}) == ["a", "b", "left", "right", "join", "check"]
    needs = {node.name: [walk.nodes[need].name for need in node.needs.values()] for node in walk.nodes.values()}
    assert needs == {
        "a": [],
        "b": ["a"],
        "left": ["b"],
        "right": ["b"],
        "join": ["left", "right"],
        "check": ["left", "right"],
    }


def test_ids_are_known_before_anything_is_made_and_depend_on_what_is_needed(tmp_path: Path) -> None:
    before, after, other = (walk_in(tmp_path / "run", chosen=()) for _ in range(3))
    ask(before)
    with walk_in(tmp_path / "run") as walk:
        ask(walk)
    ask(after)
    assert list(before.nodes) == list(walk.nodes) == list(after.nodes)
    a = other.stage("1-faces", "a", {"size": 2}, {}, fail_with(RuntimeError()), {"code": "1"})
    other.stage("4-train", "b", {"train": {"epochs": 4, "batch": 10}}, {"faces": a}, fail_with(RuntimeError()))
    assert not set(other.nodes) & set(walk.nodes)


def test_a_failure_stops_only_what_needs_it_and_is_raised_at_the_end(tmp_path: Path) -> None:
    said: list[str] = []
    with Walk(tmp_path / "run", said.append) as walk:
        outputs = ask(walk, {"left": fail_with(DamnatioError("The loss became nan.\nLower the rate."))})
        assert made({**outputs}) == ["a", "b", "right"]
        with pytest.raises(DamnatioError, match="The loss became nan"):
            walk.conclude()
    assert any(line.startswith("5-forget      left         failed   Lower the rate.") for line in said)
    (failure,) = failures(tmp_path / "run").values()
    assert (failure.title, failure.error) == ("5-forget/left", "Lower the rate.")
    assert "DamnatioError" in failure.trace


def test_the_same_call_retries_what_is_missing_and_forgets_the_failure(tmp_path: Path) -> None:
    with walk_in(tmp_path / "run") as walk:
        ask(walk, {"left": fail_with(RuntimeError("once"))})
    assert failures(tmp_path / "run")
    again = {name: fail_with(AssertionError("it is there")) for name in ("a", "b", "right")}
    with walk_in(tmp_path / "run") as walk:
        assert made({**ask(walk, again)}) == ["a", "b", "left", "right", "join", "check"]
        walk.conclude()
    assert not (tmp_path / "run" / ".failed").exists()


def test_several_failures_are_listed(tmp_path: Path) -> None:
    with walk_in(tmp_path / "run") as walk:
        ask(walk, {"left": fail_with(ValueError("one")), "right": fail_with(KeyError("two"))})
        with pytest.raises(DamnatioError, match=r"2 parts failed.+5-forget/left: one; 5-forget/right: 'two'"):
            walk.conclude()


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("I/O error: No space left"), Stopped("later")],
)
def test_a_full_disk_and_a_stop_end_the_walk(tmp_path: Path, error: Exception) -> None:
    with walk_in(tmp_path / "run") as walk, pytest.raises(type(error)):
        ask(walk, {"left": fail_with(error)})
    assert not failures(tmp_path / "run")


def test_a_request_to_stop_is_heard_between_stages(tmp_path: Path) -> None:
    def ask_to_stop(folder: Path) -> None:
        (folder / "data.txt").write_text("whole")
        stopping.request_stop()

    try:
        with walk_in(tmp_path / "run") as walk, pytest.raises(Stopped, match="before 5-forget/right"):
            ask(walk, {"left": ask_to_stop})
    finally:
        stopping.forget_request()
    assert [path.name[:5] for path in (tmp_path / "run" / "5-forget").iterdir()] == ["left-"]


def test_only_what_was_chosen_is_made(tmp_path: Path) -> None:
    with walk_in(tmp_path / "run", chosen=()) as look:
        assert made({**ask(look)}) == []
    ids = {node.name: key for key, node in look.nodes.items()}
    with walk_in(tmp_path / "run", chosen={ids["b"]}) as walk:
        assert made({**ask(walk)}) == []  # what it needs is not there
    with walk_in(tmp_path / "run", chosen={ids["a"], ids["b"], ids["right"]}) as walk:
        assert made({**ask(walk)}) == ["a", "b", "right"]


def test_a_group_that_starts_anew_does_not_try_again_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(failing.LAUNCH, "this call")
    with walk_in(tmp_path / "run") as walk:
        ask(walk, {"left": fail_with(RuntimeError("broken"))})
    with walk_in(tmp_path / "run") as walk:
        assert made({**ask(walk)}) == ["a", "b", "right"]
        with pytest.raises(DamnatioError, match="broken"):
            walk.conclude()
    monkeypatch.setenv(failing.LAUNCH, "the next call")
    with walk_in(tmp_path / "run") as walk:
        assert made({**ask(walk)}) == ["a", "b", "left", "right", "join", "check"]


def test_a_walk_that_made_nothing_leaves_nothing(tmp_path: Path) -> None:
    with walk_in(tmp_path / "run") as walk:
        ask(walk, {"a": fail_with(DamnatioError("No."))})
        assert failures(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".failed").mkdir()
    for name, text in (("a", "{"), ("b", "[]"), ("c", '{"node": "c"}')):
        (tmp_path / ".failed" / f"{name}.json").write_text(text)
    assert failures(tmp_path) == {}
