"""What goes wrong on real machines: processes that are killed, disks that are full, nodes that go away, two commands at
once. After each, the same command ends in the same results."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from damnatio.support import locks
from damnatio.support.manifests import LOG
from damnatio.workspace import Workspace
from tests import chaos
from tests.conftest import TINY
from tests.shell import damnatio

SETTINGS = [*TINY, "partitions.scales={S1: 3}", "train.epochs=3", "train.checkpoint_seconds=0", "train.log_every=1"]
WORDS = [word for setting in SETTINGS for word in ("--set", setting)]

pytestmark = [pytest.mark.cli, pytest.mark.xdist_group("faults")]


def train(run: Path, *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "damnatio", "train", "demo", *WORDS, "--run", str(run), *words]
    return subprocess.Popen(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        stdout=subprocess.DEVNULL,
    )


def weights(run: Path) -> dict[str, str]:
    (model,) = (run / "4-train").glob("original-*")
    files: dict[str, dict[str, str]] = json.loads((model / "stage.json").read_bytes())["files"]
    return {name: file["sha256"] for name, file in files.items() if not name.endswith(LOG)}


def wait_for_a_step(run: Path) -> None:
    """Until a training has begun, and saved its first checkpoint."""
    until = time.monotonic() + 500
    while not any((run / "4-train").glob(".partial-*/checkpoint.safetensors")):
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which all is ready for the training."""
    run = tmp_path_factory.mktemp("before") / "run"
    assert damnatio("partitions", "demo", *WORDS, "--run", run).returncode == 0
    return run


@pytest.fixture(scope="module")
def undisturbed(before: Path) -> dict[str, str]:
    """The weights that two processes come to."""
    run = before.parent / "undisturbed"
    shutil.copytree(before, run)
    assert train(run, "--processes", "2").wait() == 0
    return weights(run)


@pytest.mark.parametrize("victim", ["the command", "one of its processes"])
def test_a_killed_process_ends_all_and_the_same_command_goes_on(
    tmp_path: Path, before: Path, undisturbed: dict[str, str], victim: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(before, run)
    process = train(run, "--processes", "2")
    wait_for_a_step(run)
    command, *ranks = [pid for pid in chaos.family(process.pid) if _is_damnatio(pid)]
    os.kill(command if victim == "the command" else ranks[-1], signal.SIGKILL)
    assert process.wait(500) != 0
    until = time.monotonic() + 300
    while any(_is_damnatio(pid) for pid in ranks):
        assert time.monotonic() < until, "a process goes on alone"
        time.sleep(0.05)
    assert not list((run / "4-train").glob("original-*"))
    again = train(run, "--processes", "2")
    assert again.wait(500) == 0, again.communicate()[1]
    assert weights(run) == undisturbed


def _is_damnatio(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return b"damnatio" in words and state != "Z"


def test_a_run_that_is_killed_at_random_moments_comes_out_the_same(tmp_path: Path) -> None:
    """`make chaos` does this two hundred times."""
    wanted, seconds = chaos.undisturbed(tmp_path, "one process")
    rng, run = random.Random(7), tmp_path / "disturbed" / "run"
    run.parent.mkdir()
    chaos.disturb(run, "one process", 0.4 * seconds, rng)
    assert chaos.start(run, "one process").wait() == 0
    assert chaos.contents(run) == wanted
    assert chaos.leftovers(run) == []


def test_two_commands_on_one_run_make_everything_once(tmp_path: Path, before: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(before, run)
    words = ["run", "demo", *WORDS, "--set", "evaluate.replicates=0", "--run", str(run)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "damnatio", *words, "--set"]
    both = [
        subprocess.Popen(
            [*command, f"forget.methods=[{method}]"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for method in ("HD", "GS")
    ]
    said = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    lines = [line for text in said for line in text.splitlines()]
    for stage, name in (("4-train", "original"), ("6-embed", "original"), ("7-evaluate", "S1-original")):
        made = [line for line in lines if line.startswith(f"{stage:<13} {name:<12}") and " s /" in line]
        assert len(made) == 1, said
    rows = (run / "report" / "results.csv").read_text().splitlines()
    assert {row.split(",")[2] for row in rows[1:]} == {"original", "HD", "GS"}  # whoever was last reports on both
    assert not (run / ".locks").exists()


# --- a full disk -----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which only root can make."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(place)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted: {mounted.stderr.decode()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_one_sentence_and_the_same_command_goes_on(small_disk: Path, undisturbed_faces: str) -> None:
    words = ["partitions", "demo", *WORDS, "--run", str(small_disk / "run")]
    done = damnatio(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("damnatio: No space left on the disk. Finished stages are kept")
    assert done.stderr.count("\n") == 1
    subprocess.run(["mount", "-o", "remount,size=100m", str(small_disk)], check=True)
    assert damnatio(*words).returncode == 0
    assert _faces(small_disk / "run") == undisturbed_faces


@pytest.fixture
def undisturbed_faces(before: Path) -> str:
    return _faces(before)


def _faces(run: Path) -> str:
    (faces,) = (run / "1-faces").glob("synthetic-*")
    digest: str = json.loads((faces / "stage.json").read_bytes())["files"]["faces.parquet"]["sha256"]
    return digest


# --- a node that goes away -------------------------------------------------------------------------------------------


def test_the_work_of_a_node_that_went_away_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(locks, "SILENCE", 0.3)  # instead of minutes

    def fails(folder: Path) -> None:
        (folder / "half.txt").write_text("half")
        raise KeyboardInterrupt

    def build(folder: Path) -> None:
        assert (folder / "half.txt").read_text() == "half"

    with Workspace(tmp_path / "run", said.append) as workspace:
        with pytest.raises(KeyboardInterrupt):
            workspace.stage("4-train", "original", {}, {}, fails)
        (partial,) = (tmp_path / "run" / "4-train").iterdir()
        lock = tmp_path / "run" / ".locks" / f"4-train.{partial.name.removeprefix('.partial-')}"
        lock.mkdir(parents=True)
        gone = {"token": "gone", "host": "node7", "machine": "another", "pid": 7, "since": "noon", "flock": True}
        (lock / "holder.json").write_text(json.dumps(gone))
        workspace.stage("4-train", "original", {}, {}, build)
    assert "is being made by process 7 on node7 since noon: waiting for it" in said[0]
    assert len(said) == 2
