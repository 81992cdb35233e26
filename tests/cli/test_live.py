"""A run as a person sees it: on a real terminal a line of progress, in a pipe few plain lines."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
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


def test_a_terminal_shows_the_progress_of_each_stage(tmp_path: Path) -> None:
    settings = words("forget.methods=[HD]", "forget.epochs=8")
    code, screen = on_terminal("run", "demo", "--run", tmp_path / "run", *settings)
    assert code == 0, plain(screen)
    text = plain(screen)
    assert "\x1b[" in screen
    assert re.search(r"\[\d of 11\] S1 HD .* [\d,]+/[\d,]+ [\d,-]+ images/s ", text)
    assert re.search(r"loss -?\d+\.\d{3}", text)
    assert re.search(r"5-forget      S1-HD +\d+\.\d s ", text)  # the lines of finished stages stay
    (log,) = (tmp_path / "run" / "5-forget").glob(f"S1-HD-*/{FILE}")
    assert log.read_text().startswith('{"step": 0, "retain": ')


def test_slots_say_plain_lines(tmp_path: Path) -> None:
    assert main(["evaluate", "demo", "--run", str(tmp_path / "run"), *words("forget.methods=[]")]) == 0
    settings = words("forget.methods=[HD, PD]", "forget.epochs=2")
    program = "from damnatio.support import progress; progress.EVERY = 0.001\n"
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    (tmp_path / "sitecustomize.py").write_text(program)  # of the slots too
    slots = ["--on", "gpus", "--slots", "2", "--run", str(tmp_path / "run")]
    done = damnatio("run", "demo", *slots, *settings, environment=environment)
    assert done.returncode == 0, done.stderr
    for name in ("HD", "PD"):
        assert re.search(rf"^\[\d+ of 14\] S1 {name}: \d+% of [\d,]+ images, .* left, loss ", done.stdout, re.MULTILINE)
    assert "\x1b" not in done.stdout


def test_a_pipe_gets_few_plain_lines(tmp_path: Path) -> None:
    done = damnatio("run", "demo", "--run", tmp_path / "run", *words("forget.methods=[]"), before=NO_MINUTE)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    lines = done.stdout.split("\n\n")[0].splitlines()
    assert lines[0] == "damnatio run: recipe demo"
    made = ["1-faces", "2-captures", "3-partitions", "4-train", "6-embed", "7-evaluate", "6-embed", "report"]
    assert [line.split()[0] for line in lines[1:]] == made
    watched = damnatio("status", tmp_path / "run", "--watch")
    assert watched.stdout.endswith("\n8 of 8 stages done\n")


NO_MINUTE = """
from damnatio.support import progress
progress.EVERY = float("inf")
"""
"""a machine on which no work takes a minute"""


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
