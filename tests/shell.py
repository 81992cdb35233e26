"""The command as a person runs it: a process of its own, with streams of its own."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PROGRAM = "import sys; from damnatio.cli.main import main; sys.exit(main())"
COMMAND = [sys.executable, "-c", PROGRAM]


def damnatio(
    *words: str | Path,
    redirect: str = "",
    environment: dict[str, str] | None = None,
    timeout: float = 550,
    before: str = "",
) -> subprocess.CompletedProcess[str]:
    """What it said and how it ended; `redirect` is what a shell takes after the command: `| head -1`, `>&-`. `before`
    is a program that changes what the command imports."""
    script = f'set -o pipefail; "$@" {redirect}'
    return subprocess.run(
        ["bash", "-c", script, "bash", sys.executable, "-c", before + PROGRAM, *map(str, words)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout,
        check=False,
    )


def refusal(done: subprocess.CompletedProcess[str], words: Sequence[str] = ()) -> str:
    """The sentence of a command that refused: one line, code 2, no traceback."""
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    assert done.returncode == 2, done.stderr
    said = done.stderr.strip().splitlines()
    assert len(said) == 1, done.stderr
    for word in words:
        assert word in said[0], said[0]
    return said[0]
