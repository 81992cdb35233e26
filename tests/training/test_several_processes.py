"""Two real processes over gloo train to the weights of one, and either goes on where the other stopped."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from damnatio.models.store import HEAD
from damnatio.support.manifests import CHECKPOINT, CHECKPOINTS
from damnatio.training.loop import METRICS
from tests.training.jobs import JOBS, train

pytestmark = [pytest.mark.cli, pytest.mark.xdist_group("several processes")]
ROOT = Path(__file__).resolve().parents[2]
RESUMED = ["f* adaface", "f* adamw clipped", "EC", "CURE"]


def two(*words: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*command, sys.executable, "-m", "tests.training.jobs", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each job by one process (`one`) and by two (`two`); some stopped by one and ended by two, and the reverse. In one
    job the main process of two cannot write its checkpoint: both must notice."""
    root = tmp_path_factory.mktemp("jobs")
    before = torch.get_default_dtype()
    try:
        train(JOBS, root / "one")
        train(RESUMED, root / "one-two", stops_at=3)
        two(
            *(str(root / "broken"), "break", "f* cosface", "then"),  # first: what comes after must not suffer
            *(str(root / "two"), *JOBS, "then"),
            *(str(root / "one-two"), *RESUMED, "then"),
            *(str(root / "two-one"), "stop", *RESUMED),
        )
        shutil.copytree(root / "two-one", root / "stopped")
        train(RESUMED, root / "two-one")
    finally:
        torch.set_default_dtype(before)
    return root


def _same(ours: Path, theirs: Path) -> None:
    """Equal to the rounding of the float32 embeddings that some methods start from."""
    ones, others = load_file(ours), load_file(theirs)
    assert ones.keys() == others.keys()
    for name in ones.keys() - {"rng"}:
        assert torch.allclose(ones[name], others[name], rtol=1e-6, atol=1e-7), name


@pytest.mark.parametrize("name", JOBS)
def test_two_processes_train_to_the_weights_of_one(name: str, folder: Path) -> None:
    """Network, head, the method's own rows and buffers, and the optimiser."""
    one, two = folder / "one" / name, folder / "two" / name
    for file in ("model.safetensors", HEAD, *CHECKPOINTS):
        _same(one / file, two / file)
    assert {path.name for path in one.iterdir()} == {path.name for path in two.iterdir()}, "only the main one writes"
    assert len((one / METRICS).read_text().splitlines()) == len((two / METRICS).read_text().splitlines())


@pytest.mark.parametrize("name", RESUMED)
@pytest.mark.parametrize("way", ["one-two", "two-one"])
def test_a_training_goes_on_with_another_number_of_processes(name: str, way: str, folder: Path) -> None:
    for file in ("model.safetensors", HEAD, CHECKPOINT):
        _same(folder / "one" / name / file, folder / way / name / file)


@pytest.mark.parametrize("name", RESUMED)
def test_a_request_to_stop_one_process_stops_both_after_a_checkpoint(name: str, folder: Path) -> None:
    stopped = folder / "stopped" / name
    assert not (stopped / "model.safetensors").exists()
    step = (stopped / CHECKPOINT).read_bytes().split(b'"step":"')[1].split(b'"')[0]
    assert 1 <= int(step) <= 3
