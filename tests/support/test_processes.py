"""A group of one, and two real processes over gloo."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from damnatio.support import processes

PROGRAM = """
import json, sys
import numpy as np
from damnatio.support import processes
from damnatio.support.errors import DamnatioError

processes.join()
share = processes.share_of(5)
def fails():
    raise DamnatioError("The main process could not.")
try:
    processes.from_main(fails)
    error = ""
except DamnatioError as failure:
    error = str(failure)
processes.wait()
found = {
    "rank": processes.rank(),
    "main": processes.is_main(),
    "share": [share.start, share.stop],
    "from_main": processes.from_main(lambda: f"written by {processes.rank()}"),
    "from_all": processes.from_all(processes.rank() * 10),
    "joined": processes.joined(np.arange(5)[share]).tolist(),
    "alone": processes.from_main(lambda: [processes.size(), processes.from_all("a"), processes.from_main(lambda: 7)]),
    "error": error,
}
open(f"{sys.argv[1]}/{processes.rank()}.json", "w").write(json.dumps(found))
processes.leave()
"""


def test_a_single_process_is_a_group_of_one() -> None:
    processes.join()
    assert (processes.rank(), processes.size(), processes.is_main()) == (0, 1, True)
    assert processes.share_of(7) == slice(0, 7)
    assert processes.from_main(lambda: 3) == 3
    assert processes.from_all("a") == ["a"]
    assert processes.joined(np.arange(3)).tolist() == [0, 1, 2]
    processes.wait()
    processes.leave()


@pytest.mark.cli
def test_two_processes_share_and_agree(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    subprocess.run(
        [*command, sys.executable, "-c", PROGRAM, str(tmp_path)],
        check=True,
        timeout=500,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert (first["main"], second["main"]) == (True, False)
    assert (first["share"], second["share"]) == ([0, 2], [2, 5])
    for found in (first, second):
        assert found["from_main"] == "written by 0"
        assert found["from_all"] == [0, 10]
        assert found["joined"] == [0, 1, 2, 3, 4]
        assert found["alone"] == [1, ["a"], 7], "what shares its work does not wait for others in `from_main`"
        assert found["error"] == "The main process could not."
