"""kill -9 before and after every entry of the journal, and inside a delete: the next call ends the purge as if nothing
had happened."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from damnatio.cli.main import main
from damnatio.erasure.proving.chain import chain_of, read_chain
from damnatio.erasure.proving.checking import Evidence, check
from damnatio.erasure.proving.keys import make_pair
from damnatio.erasure.proving.statement import read_record
from tests.erasure.cases import MEMBERS, World
from tests.erasure.purging.test_purge import ACCEPTED

pytestmark = pytest.mark.cli

MOMENTS = ["begin", "baseline", "deleting", "deleted", "step", "after"]
JOURNAL = """
import os, signal, sys
from damnatio.erasure.purging.journal import Journal
from damnatio.erasure.proving import pages, signing
moment, when = sys.argv[1:3]
pages.BROWSERS = ()

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def killing(function, is_it):
    def run(*words, **more):
        if when == "before" and is_it(words):
            die()
        found = function(*words, **more)
        if when == "after" and is_it(words):
            die()
        return found
    return run

Journal.write = killing(Journal.write, lambda words: words[1] == moment)
if moment == "record":
    signing.write_atomically = killing(signing.write_atomically, lambda words: True)
if moment == "link":
    signing.add_link = killing(signing.add_link, lambda words: True)
if moment == "forgetting":  # the working files are being removed: one is gone
    from damnatio.erasure.purging import purge
    def forget(work):
        for path in work.work.glob("needles-*"):
            path.unlink()
            die()
    purge._Purge.forget = forget
if moment == "replacing":
    from damnatio.galleries import files
    files.finish_replacing = killing(files.finish_replacing, lambda words: files.noted(words[0]).exists())
from damnatio.cli.main import main
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.parametrize(
    ("moment", "when"),
    [
        *((moment, when) for moment in MOMENTS for when in ("before", "after")),
        ("replacing", "before"),
        ("record", "before"),
        ("record", "after"),
        ("link", "before"),
        ("link", "after"),
        ("fingerprints", "before"),
        ("fingerprints", "after"),
        ("forgetting", "after"),
    ],
)
def test_a_purge_that_is_killed_goes_on(world: World, moment: str, when: str) -> None:
    holder = make_pair(world.root / "holder.pem", holder=True)
    words = ["purge", str(world.plan), *ACCEPTED, "--fingerprints-for", str(holder)]
    done = subprocess.run([sys.executable, "-c", JOURNAL, moment, when, *words], env=dict(os.environ), check=False)
    assert done.returncode == -signal.SIGKILL
    assert main(words) == 0
    assert len(world.names()) == MEMBERS + 2
    assert check(Evidence(world.record, plan=world.plan, stores=True, chain=chain_of(world.key))).passed
    predicate = read_record(world.record).statement.predicate
    assert predicate.verdict == "GONE"
    assert predicate.untouched
    assert predicate.stores[0].classes[0].found_before == predicate.stores[0].classes[0].fragments
    assert len(read_chain(chain_of(world.key))) == 1
    left = {path.name for path in world.out.iterdir()} | {path.name for path in world.root.iterdir()}
    assert not [name for name in left if "damnatio-" in name or name in ("purge", ".locks")]


def test_a_line_that_was_being_written_is_written_anew(tmp_path: Path) -> None:
    from damnatio.erasure.purging.journal import Journal

    path = tmp_path / "journal.jsonl"
    Journal(path).write("begin")
    path.write_bytes(path.read_bytes() + b'{"what": "bas')
    journal = Journal(path)
    assert [entry["what"] for entry in journal.entries] == ["begin"]
    journal.write("baseline", 1)
    assert [entry["what"] for entry in Journal(path).entries] == ["begin", "baseline"]
