"""A recipe through a real Slurm: `make test-slurm`. Skipped unless DAMNATIO_SLURM is set, since it starts a cluster."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from damnatio.running.graph import read_graph
from damnatio.running.slurm import jobs_of
from damnatio.running.status import DONE, status
from damnatio.training.loop import METRICS
from tests.conftest import TINY
from tests.shell import damnatio
from tests.slurm.cluster import Cluster, cluster

pytestmark = [
    pytest.mark.skipif("DAMNATIO_SLURM" not in os.environ, reason="make test-slurm starts a cluster"),
    pytest.mark.timeout(3600),
]

SETTINGS = [
    *TINY,
    "partitions.scales={S1: 3}",
    "forget.methods=[HD, GS]",
    "train.epochs=16",  # long enough to be stopped
    "forget.epochs=16",
    "evaluate.replicates=0",
    "train.log_every=1",
    "forget.log_every=1",
    "train.checkpoint_seconds=1000000",  # so that only the signal makes a checkpoint
    "forget.checkpoint_seconds=1000000",
    "slurm={partition: low, gpus: 0, cpus: 1, hours: 1, warning_seconds: 60}",
]


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    with cluster(Path(tempfile.mkdtemp(prefix="damnatio-")) / "slurm") as found:
        yield found
    shutil.rmtree(found.folder.parent)


def wait_for(what: Callable[[], bool], seconds: float = 1200) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.2)


def test_jobs_that_are_stopped_and_preempted_end_in_the_same_results(slurm: Cluster, tmp_path: Path) -> None:
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    undisturbed, run = tmp_path / "undisturbed", tmp_path / "run"
    done = damnatio("run", "demo", *words, "--run", undisturbed, timeout=1200)
    assert done.returncode == 0, done.stderr

    submit = ["run", "demo", *words, "--run", str(run), "--on", "slurm"]
    done = damnatio(*submit, environment=slurm.environment)
    assert done.returncode == 0, done.stderr
    jobs = jobs_of(run)
    assert set(jobs) == {task.name for task in read_graph(run).tasks.values()}
    again = damnatio(*submit, environment=slurm.environment)
    assert again.returncode == 0, again.stderr
    assert jobs_of(run) == jobs  # what is queued is not submitted twice

    def begun(stage: str) -> bool:
        return any((run / stage).glob(f".partial-*/{METRICS}"))

    train, forget = jobs["4-train/original"], jobs["7-evaluate/S1-HD"]
    wait_for(lambda: begun("4-train"))
    slurm.run("scancel", "--signal=USR2", train)  # as before the end of its time
    wait_for(lambda: slurm.restarts(train) == 1)
    assert not any((run / "4-train").glob("original-*")), "it was to be stopped before its end"
    wait_for(lambda: begun("5-forget"))
    slurm.run("sbatch", "--partition=high", "--exclusive", "--output=/dev/null", "--wrap=sleep 3")
    wait_for(lambda: slurm.restarts(forget) == 1)
    assert not any((run / "5-forget").glob("S1-HD-*")), "it was to be stopped before its end"
    wait_for(lambda: not slurm.states())

    logs = "".join(path.read_text(errors="replace") for path in sorted((run / ".slurm").glob("*_log.*")))
    assert "f* was asked to stop, and saved its state after step" in logs
    assert "HD was asked to stop, and saved its state after step" in logs
    assert {state.state for state in status(run).states} == {DONE}, logs
    graph, other = read_graph(run), read_graph(undisturbed)
    made, wanted = graph.done(run), other.done(undisturbed)
    stages = [key for key in wanted if not graph.nodes[key].stage.startswith("report")]
    assert {graph.names[key]: made[key].content for key in stages} == {
        graph.names[key]: wanted[key].content for key in stages
    }


def test_several_processes_of_a_job_and_a_branch_that_fails(slurm: Cluster, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = [*SETTINGS, "train.epochs=2", "forget.epochs=2", "forget.settings.HD.lr=1e30"]
    settings += ["slurm={partition: low, gpus: 0, processes: 2, cpus: 1}"]
    words = [word for setting in settings for word in ("--set", setting)]
    done = damnatio("run", "demo", *words, "--run", run, "--on", "slurm", environment=slurm.environment)
    assert done.returncode == 0, done.stderr
    wait_for(lambda: not slurm.states())
    states = {state.name: state for state in status(run).states}
    assert states["5-forget/S1-HD"].state == "failed"
    assert "became" in states["5-forget/S1-HD"].note
    assert states["7-evaluate/S1-GS"].state == DONE
    assert (run / "report" / "index.html").exists()  # on the rest
    logs = "".join(path.read_text(errors="replace") for path in sorted((run / ".slurm").glob("*_1_log.out")))
    assert "global_rank=1(2)" in logs  # a second process took part
