"""A run as a person sees it: on a real terminal the view of the whole run, in a pipe few plain lines."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from damnatio.cli.main import main
from damnatio.training.similarity import FILE
from tests.conftest import TINY
from tests.shell import COMMAND, damnatio

pytestmark = pytest.mark.cli

SHORT = ["partitions.scales={S1: 3}", "evaluate.replicates=0", "forget.log_every=1", "train.log_every=1"]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def words(*settings: str) -> list[str]:
    return [word for setting in (*TINY, *SHORT, *settings) for word in ("--set", setting)]


def on_terminal(*command: str | Path) -> tuple[int, str]:
    """The exit code, and all that a terminal of 120 columns got."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm"}
    process = subprocess.Popen(
        [*COMMAND, *map(str, command)], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    got = b""
    while True:
        try:
            got += os.read(ours, 65536)
        except OSError:  # the terminal is closed
            break
    os.close(ours)
    return process.wait(), got.decode()


def plain(screen: str) -> str:
    return ESCAPE.sub("", screen).replace("\r", "\n")


def test_a_terminal_shows_the_whole_run(tmp_path: Path) -> None:
    settings = words("forget.methods=[HD]", "forget.epochs=8")
    code, screen = on_terminal("run", "demo", "--run", tmp_path / "run", *settings)
    assert code == 0, plain(screen)
    text = plain(screen)
    assert "\x1b[" in screen
    assert "demo: estimating the time of the whole run" in text
    assert re.search(r"time +about \d+ (s|min) for the whole run", text)
    assert re.search(r"demo: \d+ of 11 parts done, \d+ s gone, about \d+ (s|min) left of \d+ (s|min)", text)
    assert re.search(r"5-forget/S1-HD .*\d+%  [\d,]+ images/s  \d+ (s|min) left", text)
    assert re.search(r"loss -?\d+\.\d{3}  retain -?\d+\.\d{3}  forget -?\d+\.\d{3}", text)
    number = r"-?\d\.\d{3}(?: -> -?\d\.\d{3})?"  # a training of seconds may be over before a second look is shown
    assert re.search(rf"similarity: retain {number}, strangers {number}, forget {number}", text)
    assert re.search(r"5-forget      S1-HD +\d+\.\d s ", text)  # the lines stay above the view
    (log,) = (tmp_path / "run" / "5-forget").glob(f"S1-HD-*/{FILE}")
    assert log.read_text().startswith('{"step": 0, "retain": ')


def test_slots_are_shown_by_their_parent(tmp_path: Path) -> None:
    assert main(["evaluate", "demo", "--run", str(tmp_path / "run"), *words("forget.methods=[]")]) == 0
    settings = words("forget.methods=[HD, PD]", "forget.epochs=8")
    code, screen = on_terminal("run", "demo", "--on", "gpus", "--slots", "2", "--run", tmp_path / "run", *settings)
    assert code == 0, plain(screen)
    text = plain(screen)
    assert re.search(r"about \d+ (s|min) for the rest of the run, 2 parts at a time", text)
    assert re.search(r"demo: [6-9] of 14 parts done, .* left of ", text)
    for name in ("HD", "PD"):
        assert re.search(rf"5-forget/S1-{name} .*\d+%  [\d,]+ images/s", text)
    assert re.search(r"similarity: retain \S+ -> \S+, strangers \S+ -> \S+, forget ", text)
    for log in (tmp_path / "run" / ".logs").iterdir():
        assert "\x1b" not in log.read_text()


QUICK_AND_IDLE = """
from damnatio.running import expecting, watching
expecting._busy = lambda: 1.0
expecting.cores = lambda: 2
watching.QUIET = float("inf")
"""
"""a machine on which no run takes so long that a line on its time is due"""


def test_a_pipe_gets_few_plain_lines(tmp_path: Path) -> None:
    done = damnatio("run", "demo", "--run", tmp_path / "run", *words("forget.methods=[]"), before=QUICK_AND_IDLE)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    lines = done.stdout.split("\n\n")[0].splitlines()
    assert lines[0] == "damnatio run: recipe demo"
    assert re.fullmatch(r"time +about \d+ s for the whole run", lines[1])  # before anything is made
    made = ["1-faces", "2-captures", "3-partitions", "4-train", "6-embed", "7-evaluate", "6-embed", "report"]
    assert [line.split()[0] for line in lines[2:]] == made
    again = damnatio("run", "demo", "--run", tmp_path / "run", *words("forget.methods=[]"), before=QUICK_AND_IDLE)
    assert "time" not in again.stdout.split("\n\n")[0]  # nothing is left to do
    watched = damnatio("status", tmp_path / "run", "--watch")
    assert watched.stdout.endswith("\n8 done\n")


def test_tensorboard_is_refused_before_anything_is_made_if_it_is_absent(tmp_path: Path) -> None:
    hidden = tmp_path / "tensorboard.py"
    hidden.write_text("raise ImportError('hidden')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    settings = words("forget.methods=[]")
    done = damnatio(
        "run", "demo", "--run", tmp_path / "run", "--tensorboard", *settings, environment={"PYTHONPATH": path}
    )
    assert done.returncode == 2
    assert "pip install 'damnatio[tensorboard]'" in done.stderr
    assert not (tmp_path / "run").exists()


def test_tensorboard_gets_the_scalars_of_a_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    settings = words("forget.methods=[HD]", "tensorboard=true")
    assert damnatio("run", "demo", "--run", tmp_path / "run", *settings).returncode == 0
    (folder,) = (tmp_path / "run" / "tensorboard").glob("5-forget.S1-HD-*")
    events = EventAccumulator(str(folder))
    events.Reload()
    assert [event.step for event in events.Scalars("loss/forget")] == [1, 2, 3, 4, 5, 6]
    assert [event.step for event in events.Scalars("similarity/forget")][::-1][0] == 6
