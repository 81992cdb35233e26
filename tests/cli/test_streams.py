"""Who reads along may go away, be deaf to some characters, or not be there: the work is done all the same."""

from pathlib import Path

import pytest

from tests.conftest import TINY
from tests.shell import damnatio

pytestmark = pytest.mark.cli

SMALL = [word for setting in (*TINY, "forget.methods=[]", "evaluate.replicates=0") for word in ("--set", setting)]


def test_a_run_goes_on_when_its_reader_leaves(tmp_path: Path) -> None:
    done = damnatio("run", "demo", "--run", tmp_path / "run", *SMALL, redirect="| head -1")
    assert (done.returncode, done.stdout) == (0, "damnatio run: recipe demo\n")
    assert not done.stderr
    assert (tmp_path / "run/report/index.html").is_file()


def test_the_code_of_a_failure_is_true_though_nobody_reads(tmp_path: Path) -> None:
    done = damnatio(
        "run", "demo", "--run", tmp_path / "run", *SMALL, "--set", "partitions.retain=900", redirect="2>&1 | head -0"
    )
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("redirect", [">&-", "2>&-", "<&- >&- 2>&-", "| head -0", "2>&1 | head -0"])
def test_closed_streams_are_done_without(redirect: str) -> None:
    done = damnatio("ls", "methods", redirect=redirect)
    assert done.returncode == 0
    assert not done.stderr


def test_stages_work_with_its_streams_closed(tmp_path: Path) -> None:
    done = damnatio("partitions", "demo", "--run", tmp_path / "run", *SMALL, redirect="<&- >&- 2>&-")
    assert done.returncode == 0
    assert list((tmp_path / "run/3-partitions").glob("all-*/partitions.parquet"))


def test_a_mistake_without_streams_keeps_its_code(tmp_path: Path) -> None:
    assert damnatio("run", tmp_path / "none.yaml", redirect=">&- 2>&-").returncode == 2


def test_characters_that_a_stream_lacks_are_replaced(tmp_path: Path) -> None:
    recipe = tmp_path / "möwe.yaml"
    recipe.write_text("# Möwen\nbase: demo\nname: moewe\n", encoding="utf-8")
    for environment in ({"PYTHONIOENCODING": "ascii"}, {"PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "LC_ALL": "C"}):
        done = damnatio("run", recipe, "--run", tmp_path / "run", "--tables", *SMALL, environment=environment)
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        assert any(name in done.stdout for name in ("m?we", "m\\udcc3\\udcb6we"))  # bytes of no character have numbers
        assert "?" in done.stdout.split("Verification and identification")[1]  # the arrows of the table


def test_a_full_disk_behind_the_output_is_one_sentence() -> None:
    done = damnatio("ls", "methods", redirect="> /dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith("damnatio: No space left on the disk.")
    assert len(done.stderr.splitlines()) == 1
