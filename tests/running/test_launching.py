"""Several processes for one command: they begin together, end together, and start anew for what is left."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from damnatio.running import launching
from damnatio.running.failures import failures
from damnatio.running.launching import AGAIN, launch

RANK = """
import os, sys, time
from pathlib import Path
folder, what = Path(sys.argv[1]), sys.argv[2]
rank, tries = os.environ["RANK"], len(list(folder.glob(f"{os.environ['RANK']}-*")))
names = ("WORLD_SIZE", "LOCAL_RANK", "OMP_NUM_THREADS", "DAMNATIO_LAUNCH")
(folder / f"{rank}-{tries}").write_text(" ".join(os.environ[name] for name in names))
if what == "again" and tries == 0:
    sys.exit(75)
if rank == "1" and what == "fails":
    sys.exit(3)
if rank == "1" and what == "is killed":
    os.kill(os.getpid(), 9)
if rank == "0" and what in ("fails", "is killed"):
    time.sleep(600)
"""


def run(folder: Path, what: str, said: list[str]) -> int:
    (folder / "ranks").mkdir()
    return launch(2, [str(folder / "ranks"), what], said.append, (sys.executable, "-c", RANK))


def test_each_process_knows_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(launching, "cores", lambda: 6)
    assert run(tmp_path, "", []) == 0
    places = [(tmp_path / "ranks" / f"{rank}-0").read_text().split() for rank in (0, 1)]
    assert [place[:3] for place in places] == [["2", "0", "3"], ["2", "1", "3"]]
    assert places[0][3] == places[1][3]


@pytest.mark.parametrize(("what", "code"), [("fails", 3), ("is killed", 128 + 9)])
def test_who_ends_in_an_error_ends_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, code: int
) -> None:
    monkeypatch.setattr(launching, "GRACE", 0.2)
    assert run(tmp_path, what, []) == code


def test_a_group_that_asks_for_it_starts_anew_under_the_same_name(tmp_path: Path) -> None:
    said: list[str] = []
    assert run(tmp_path, "again", said) == 0
    names = {path.read_text().split()[3] for path in (tmp_path / "ranks").iterdir()}
    assert (len(names), len(list((tmp_path / "ranks").iterdir())), len(said)) == (1, 4, 1)
    assert AGAIN == 75


CHILD = """
import os, sys, time
from pathlib import Path
from damnatio.running.launching import end_with_parent
end_with_parent()
Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(600)
"""
PARENT = """
import os, subprocess, sys, time
from damnatio.running.launching import own_child
subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1]], env={**os.environ, **own_child()})
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path / "pid"), CHILD])
    until = time.monotonic() + 300
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < until
        time.sleep(0.02)
    child = int((tmp_path / "pid").read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while Path(f"/proc/{child}/stat").exists() and " Z " not in Path(f"/proc/{child}/stat").read_text():
        assert time.monotonic() < until
        time.sleep(0.02)


GROUP = """
import os, sys
from pathlib import Path
from damnatio.running.walking import Walk
from damnatio.support import processes
from damnatio.support.errors import DamnatioError
processes.join()
def fails(folder):
    if sys.argv[2] == "is killed" and processes.rank() == 1:
        os._exit(9)
    processes.wait()
    raise DamnatioError("It cannot be.")
def works(folder):
    if processes.is_main():
        (folder / "data.txt").write_text("made")
try:
    with Walk(Path(sys.argv[1])) as walk:
        one = walk.stage("4-train", "original", {}, {}, works, shared=True)
        walk.stage("5-forget", "left", {}, {"original": one}, fails, shared=True)
        walk.stage("5-forget", "right", {}, {"original": one}, works, shared=True)
        walk.conclude()
except DamnatioError as error:
    sys.exit(error.code)
"""


@pytest.mark.cli
def test_a_branch_that_fails_in_a_group_is_left_out_of_the_next_start(tmp_path: Path) -> None:
    said: list[str] = []
    code = launch(2, [str(tmp_path / "run"), "fails"], said.append, (sys.executable, "-c", GROUP))
    assert (code, len(said)) == (2, 1)
    assert [path.name[:6] for path in (tmp_path / "run" / "5-forget").glob("[!.]*")] == ["right-"]
    assert [failure.title for failure in failures(tmp_path / "run").values()] == ["5-forget/left"]


@pytest.mark.cli
def test_a_branch_whose_process_is_killed_has_not_failed(tmp_path: Path) -> None:
    said: list[str] = []
    assert launch(2, [str(tmp_path / "run"), "is killed"], said.append, (sys.executable, "-c", GROUP)) > 0
    assert (said, failures(tmp_path / "run")) == ([], {})
