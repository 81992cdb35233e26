"""OpenMP's threads spin where there is a core for each of them, and sleep elsewhere."""

import itertools
import os
import subprocess
import sys

import pytest

from damnatio.support.waiting import POLICY, choose_waiting


@pytest.mark.parametrize(
    ("runs", "cores", "own", "chosen"),
    [
        ([1], 2, {}, None),
        ([2], 2, {}, "PASSIVE"),  # another process computes
        ([3, 3, 1], 2, {}, None),  # a shell that ran for a moment
        ([2], 2, {"OMP_NUM_THREADS": "1"}, None),  # one thread, and a core for the other process
        ([6], 8, {"OMP_NUM_THREADS": "4"}, "PASSIVE"),
        ([6], 8, {"OMP_NUM_THREADS": "3"}, None),
        ([9], 2, {POLICY: "ACTIVE"}, "ACTIVE"),  # the user's word
        ([1], 2, {POLICY: "PASSIVE"}, "PASSIVE"),
    ],
)
def test_threads_sleep_where_cores_are_wanted_by_others(
    runs: list[int], cores: int, own: dict[str, str], chosen: str | None
) -> None:
    seen = itertools.chain(runs, itertools.repeat(runs[-1]))
    environment = dict(own)
    choose_waiting(environment, lambda: next(seen), cores)
    assert environment.get(POLICY) == chosen


def test_threads_sleep_where_nobody_can_tell() -> None:
    def nothing() -> int:
        raise FileNotFoundError("/proc/loadavg")

    environment: dict[str, str] = {}
    choose_waiting(environment, nothing, 64)
    assert environment[POLICY] == "PASSIVE"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what runs")
def test_a_busy_machine_is_seen_before_torch_is_loaded() -> None:
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        environment = {name: value for name, value in os.environ.items() if name != POLICY}
        program = (
            f"import os, sys; from damnatio.cli.main import main; main([]); print(os.environ['{POLICY}'], 'torch' in "
            "sys.modules)"
        )
        words = [sys.executable, "-c", program]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    finally:
        for other in others:
            other.kill()
    assert done.stdout.split()[-2:] == ["PASSIVE", "False"]


def test_an_import_leaves_the_environment_alone() -> None:
    """It is the user's process: only the command line may choose."""
    program = (
        "import os, sys; before = dict(os.environ); import damnatio, damnatio.cli.main; from damnatio.models import "
        "importing; assert 'torch' in sys.modules; print(dict(os.environ) == before)"
    )
    environment = {name: value for name, value in os.environ.items() if name != POLICY}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
