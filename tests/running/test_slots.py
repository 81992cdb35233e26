"""A pool of slots: real processes, each with a task of a small graph."""

import os
import re
import sys
import textwrap
from pathlib import Path

import pytest

from damnatio.running.failures import all_of, failures, record
from damnatio.running.slots import Pool, Slot
from damnatio.running.walking import Walk
from tests.running.worlds import ask, small_graph

PROGRAM = """
import os, sys
from pathlib import Path
from damnatio.running.walking import Walk
from damnatio.support.errors import DamnatioError
from tests.running.worlds import ask, fail_with

folder, fault, task = Path(sys.argv[1]), sys.argv[2], sys.argv[4]
print(f"{task.split('@')[0]} in {os.environ['SLOT']}", flush=True)
look = Walk(folder, lambda line: None, chosen=())
ask(look)
chosen = {key for key, node in look.nodes.items() if node.title == task.split("@")[0]}
if task.startswith("4-train/b"):
    chosen |= {key for key, node in look.nodes.items() if node.name == "a"}
with Walk(folder, lambda line: None, chosen=chosen) as walk:
    def kill(folder):
        os.kill(os.getpid(), 9)
    late = fault == "left is killed late" and task.startswith("5-forget/left")
    if late:
        fault = ""
    broken = {"left fails": {"left": fail_with(RuntimeError("no left"))}, "left is killed": {"left": kill}}
    ask(walk, broken.get(fault, {}))
    if late:
        os.kill(os.getpid(), 9)
    if walk.errors:
        print("the last line", flush=True)
        sys.exit(2)
"""


def pool_for(folder: Path, fault: str, said: list[str], slots: int = 2) -> Pool:
    program = folder.parent / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    places = [
        Slot(f"slot {number}", {"SLOT": str(number), "PYTHONPATH": os.pathsep.join(sys.path)})
        for number in range(slots)
    ]
    folder.mkdir(exist_ok=True)
    return Pool(small_graph(folder), folder, [sys.executable, str(program), str(folder), fault], places, said.append)


def names(pool: Pool) -> list[str]:
    return sorted(pool.graph.nodes[key].name for key in pool.graph.done(pool.folder))


@pytest.mark.cli
def test_everything_is_made_once_and_logged(tmp_path: Path) -> None:
    said: list[str] = []
    pool = pool_for(tmp_path / "run", "", said)
    pool.run()
    assert pool.failed == {}
    assert names(pool) == ["a", "b", "check", "join", "left", "right"]
    begun = [line.split(": ")[1] for line in said if line.startswith("slot")]
    assert sorted(begun) == sorted(task.name for task in pool.graph.tasks.values())
    assert begun[0] == "4-train/b"  # with a, which nobody else needs
    log = (tmp_path / "run" / ".logs" / f"{begun[0].replace('/', '.')}.log").read_text()
    assert log == f"{begun[0]} in 0\n"
    again: list[str] = []
    pool_for(tmp_path / "run", "left fails", again).run()
    assert again == []  # nothing was left to do


@pytest.mark.cli
@pytest.mark.parametrize(("fault", "error"), [("left fails", "no left"), ("left is killed", "ended by signal 9")])
def test_a_task_that_fails_stops_only_what_needs_it(tmp_path: Path, fault: str, error: str) -> None:
    said: list[str] = []
    pool = pool_for(tmp_path / "run", fault, said)
    pool.run()
    assert names(pool) == ["a", "b", "right"]
    assert list(pool.failed) == ["5-forget/left"]
    assert re.search(rf"1 part failed.+5-forget/left: .*{error}", str(all_of(pool.failed)))
    again = pool_for(tmp_path / "run", "", said)
    again.run()
    assert (names(again), again.failed) == (["a", "b", "check", "join", "left", "right"], {})
    assert failures(tmp_path / "run") == {}


@pytest.mark.cli
def test_a_task_whose_process_dies_after_it_was_made_is_made(tmp_path: Path) -> None:
    pool = pool_for(tmp_path / "run", "left is killed late", [])
    pool.run()
    assert (names(pool), pool.failed) == (["a", "b", "check", "join", "left", "right"], {})
    assert failures(tmp_path / "run") == {}


def test_a_failure_of_what_was_made_since_is_forgotten(tmp_path: Path) -> None:
    with Walk(tmp_path / "run", lambda line: None) as walk:
        ask(walk)
        node = next(key for key, node in walk.nodes.items() if node.name == "left")
        record(tmp_path / "run", node, "5-forget/left", RuntimeError("killed before it could say that it is done"))
    pool_for(tmp_path / "run", "", []).run()
    assert failures(tmp_path / "run") == {}
