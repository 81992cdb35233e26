"""The fuzz campaign: valid files are accepted, a few damaged ones find nothing, and each kind of finding is seen."""

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from damnatio.support.errors import DamnatioError
from fuzz import campaign
from fuzz.mutations import damaged
from fuzz.readers import READERS, Reader
from fuzz.structures import CANARY
from fuzz.worker import ACCEPTED, BLOW_UP, CRASH, EXECUTION, HANG, REFUSED, TRACEBACK

TOP = Path(__file__).resolve().parents[1]
MARK = b" damaged"
INPUTS = 12
"""of each reader: seconds in all; `make fuzz` takes its time"""


@pytest.mark.cli
def test_a_few_inputs_find_nothing(tmp_path: Path) -> None:
    """In a process of its own: the campaign forks, which a process with threads should not."""
    command = [sys.executable, "-m", "fuzz", "--inputs", str(INPUTS), "--seconds", "500", "--out", str(tmp_path)]
    said = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    lines = {line.split()[0]: line.split()[1] for line in said.stdout.splitlines() if line}
    assert {lines[name] for name in READERS} == {str(INPUTS)}


# --- what the campaign sees ------------------------------------------------------------------------------------------


def _unpickle(path: Path) -> None:
    pickle.loads(path.read_bytes())


def _wait(path: Path) -> None:
    while True:
        time.sleep(0.01)


class _Touch:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {CANARY}",)


def _refuse(path: Path) -> None:
    if path.read_bytes().endswith(MARK):
        raise DamnatioError("no")


def _take_all(path: Path) -> None:
    try:
        bytearray(2**40)
    except MemoryError:
        raise DamnatioError("no, but late") from None


def _look_up(path: Path) -> None:
    known: dict[str, int] = {}
    known["key"] += 1


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "accepting": (Path.read_bytes, ACCEPTED),
    "refusing": (_refuse, REFUSED),
    "raising": (_look_up, TRACEBACK),
    "deep": (lambda path: pickle.dumps(_deep()), TRACEBACK),
    "ending": (lambda path: os.abort(), CRASH),
    "waiting": (_wait, HANG),
    "executing": (_unpickle, EXECUTION),
    "writing": (lambda path: Path("/tmp/outside").open("a").close(), EXECUTION),
    "hungry": (_take_all, BLOW_UP),
}


def _deep() -> list[object]:
    value: list[object] = []
    for _ in range(10_000):
        value = [value]
    return value


@pytest.fixture
def bad(monkeypatch: pytest.MonkeyPatch) -> dict[str, Reader]:
    program = pickle.dumps(_Touch())
    made = {
        name: Reader(name, ".bin", lambda _: [program], read, lambda rng, seeds: seeds[0] + MARK)
        for name, (read, _) in BAD.items()
    }
    monkeypatch.setattr(campaign, "READERS", made)
    return made


@pytest.mark.cli
def test_each_kind_of_finding_is_seen_kept_and_replayed(
    bad: dict[str, Reader], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = "waiting"
    tallies = campaign.run([name for name in bad if name != waiting], tmp_path / "found", inputs=2)
    monkeypatch.setattr(campaign, "HANG_SECONDS", 0.2)  # on a busy machine any reader may take so long
    tallies |= campaign.run([waiting], tmp_path / "found", inputs=2)
    for name, (_, kind) in BAD.items():
        assert tallies[name].counts == {kind: 2}, name
        assert len(tallies[name].found) == (kind not in (ACCEPTED, REFUSED)), "one for each cause"
    assert "raising: traceback, KeyError at test_fuzz.py" in campaign.report(tallies)
    for path in (path for tally in tallies.values() for path in tally.found.values()):
        name = Path(path).name.split("-")[0]
        monkeypatch.setattr(campaign, "HANG_SECONDS", 0.2 if name == waiting else 60.0)
        assert campaign.replay(Path(path)).kind == BAD[name][1]


def test_a_seed_stands_for_one_input() -> None:
    valid = [bytes(range(200)), b"short"]
    assert [damaged(Random(f"x:{n}"), valid) for n in range(50)] == [
        damaged(Random(f"x:{n}"), valid) for n in range(50)
    ]
