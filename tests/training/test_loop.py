"""The training loop: its schedule, its resumption and its refusal to go on with a broken loss."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from damnatio.cli.main import main
from damnatio.pipeline import Pipeline
from damnatio.recipe.files import load
from damnatio.recipe.schema import Recipe
from damnatio.support.errors import DamnatioError
from damnatio.support.manifests import CHECKPOINT
from damnatio.training.loop import METRICS, _Loop
from damnatio.training.original import original_job
from damnatio.workspace import Workspace
from tests.conftest import TINY


def _weights(run: Path, stage: str) -> dict[str, torch.Tensor]:
    (folder,) = [path for path in (run / stage).iterdir() if not path.name.startswith(".")]
    return load_file(folder / "model.safetensors") | {
        f"head.{name}": tensor for name, tensor in load_file(folder / "head.safetensors").items()
    }


def _equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.cli
@pytest.mark.parametrize(
    ("verb", "stage", "backbone"),
    [
        ("train", "4-train", "iresnet-tiny"),
        ("train", "4-train", "vit-tiny"),  # draws its masks from torch's generator
        ("forget", "5-forget", "iresnet-tiny"),
    ],
)
def test_a_killed_run_ends_with_the_same_weights(
    tmp_path: Path, tiny: list[str], verb: str, stage: str, backbone: str
) -> None:
    """SIGKILL at whatever step it is, again and again, then to the end: bit for bit the weights of a quiet run."""
    words = [*tiny, "--set", "train.epochs=6", "--set", "forget.epochs=4", "--set", "forget.methods=[OF]"]
    words += ["--set", f"model.backbone={backbone}"]
    for section in ("train", "forget"):
        words += ["--set", f"{section}.checkpoint_seconds=0", "--set", f"{section}.checkpoint_share=1"]
    quiet, killed = tmp_path / "quiet", tmp_path / "killed"
    assert main([verb, "demo", "--run", str(quiet), *words]) == 0
    command = [sys.executable, "-c", "import sys; from damnatio.cli.main import main; sys.exit(main())"]
    command += [verb, "demo", "--run", str(killed), *words]
    kills = 0
    while kills < 2:
        process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
        before = _step(killed / stage)
        while process.poll() is None and _step(killed / stage) <= before:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if _step(killed / stage) > before:
            kills += 1
        else:
            break  # the machine was quick and the run is over: nothing left to kill
    assert kills, "the run was over before it could be killed"
    assert subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False).returncode == 0
    assert _equal(_weights(quiet, stage), _weights(killed, stage))
    (metrics,) = (killed / stage).glob(f"*/{METRICS}")
    steps = [json.loads(line)["step"] for line in metrics.read_text().splitlines()]
    assert steps == sorted(set(steps)), "a resumed run must not log a step twice"


def _step(stage: Path) -> int:
    """The step of the checkpoint that is being written under a stage, 0 if there is none."""
    for path in stage.glob(f".partial-*/{CHECKPOINT}"):
        try:
            header = path.read_bytes()[8:400]
        except FileNotFoundError:
            return 0
        return int(header.split(b'"step":"')[1].split(b'"')[0])
    return 0


@pytest.fixture
def world(tmp_path: Path) -> tuple[Recipe, Pipeline]:
    recipe = load("demo", [*TINY, "train.optimiser=sgd", "train.lr=0.1", "train.warmup_epochs=0"])
    return recipe, Pipeline(recipe, Workspace(tmp_path / "run", say=lambda line: None))


def _loop(world: tuple[Recipe, Pipeline], folder: Path, say: Callable[[str], None] = lambda line: None) -> _Loop:
    recipe, pipeline = world
    folder.mkdir(parents=True, exist_ok=True)
    job = original_job(recipe, pipeline.images(pipeline.faces()), pipeline._table(pipeline.partitions()))
    return _Loop(job, folder, say)


@pytest.mark.cli
def test_a_broken_loss_stops_names_the_step_and_keeps_the_last_checkpoint(
    world: tuple[Recipe, Pipeline], tmp_path: Path
) -> None:
    loop = _loop(world, tmp_path / "job")
    for step in range(2):
        loop._step(step, loop.batches[step])
    loop._save(2)
    good = {name: tensor.clone() for name, tensor in loop.job.backbone.state_dict().items()}
    with torch.no_grad():
        loop.job.head.weight[0, 0] = torch.nan
    with pytest.raises(DamnatioError, match=r"nan at step 3 of \d+ of f\*.*checkpoint is kept"):
        loop._step(2, loop.batches[2])
    parameters = dict(loop.job.backbone.named_parameters())
    assert all(torch.equal(good[name], value) for name, value in parameters.items()), (
        "no step is taken on a broken loss"
    )
    assert _loop(world, tmp_path / "job")._resume() == 2


@pytest.mark.cli
def test_a_checkpoint_holds_everything(world: tuple[Recipe, Pipeline], tmp_path: Path) -> None:
    loop = _loop(world, tmp_path / "job")
    loop._step(0, loop.batches[0])
    loop._save(1)
    names = set(load_file(tmp_path / "job" / CHECKPOINT))
    assert {name.split(".")[0] for name in names} == {"backbone", "head", "optimiser", "rng"}
    trained = [p for m in loop.modules.values() for p in m.parameters() if p.requires_grad]
    assert sum(name.startswith("optimiser.") for name in names) == len(trained)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def _garble(path: Path) -> None:
    path.write_bytes(b"\xff no checkpoint" * 100)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _edit(path: Path) -> None:
    """One bit of a weight: the file is as readable as before."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def _pickled(path: Path) -> None:
    torch.save({"step": 1}, path)


@pytest.mark.cli
@pytest.mark.parametrize("damage", [_cut, _garble, _empty, _edit, _pickled])
def test_a_damaged_checkpoint_is_reported_and_the_training_starts_anew(
    world: tuple[Recipe, Pipeline], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    loop = _loop(world, tmp_path / "job")
    loop._step(0, loop.batches[0])
    loop._save(1)
    (loop.folder / METRICS).write_text('{"step": 1}\n')
    damage(loop.folder / CHECKPOINT)
    said: list[str] = []
    again = _loop(world, tmp_path / "job", said.append)
    start = {name: tensor.clone() for name, tensor in again.job.backbone.state_dict().items()}
    assert again.begin() == 0
    assert len(said) == 1
    assert said[0].startswith(f"f*: the checkpoint {loop.folder / CHECKPOINT} is damaged (")
    assert said[0].endswith("the training starts anew")
    assert _equal(start, again.job.backbone.state_dict()), "nothing of it may be taken over"
    assert list(loop.folder.iterdir()) == []


@pytest.mark.cli
def test_a_checkpoint_of_another_training_is_not_taken(world: tuple[Recipe, Pipeline], tmp_path: Path) -> None:
    recipe, pipeline = world
    small = recipe.model_copy(update={"model": recipe.model.model_copy(update={"dim": 16})})
    loop = _loop((small, pipeline), tmp_path / "elsewhere" / "job")
    loop._save(1)
    for name, reason in (("job", "its backbone has tensors of other names or shapes"), ("other", "it is of job")):
        said: list[str] = []
        again = _loop(world, tmp_path / name, said.append)
        shutil.copy(loop.folder / CHECKPOINT, again.folder)
        assert again.begin() == 0
        assert f"({reason})" in said[0]


@pytest.mark.cli
def test_a_line_of_the_log_that_was_cut_off_is_left_out(world: tuple[Recipe, Pipeline], tmp_path: Path) -> None:
    loop = _loop(world, tmp_path / "job")
    loop._save(2)
    (loop.folder / METRICS).write_bytes(
        b'{"step": 1}\n{"lr": 1}\n[]\n' + b'{"a":' * 20_000 + b'}\n\xff}\n{"step": 2}\n{"step": 3}\n{"st'
    )
    assert _loop(world, tmp_path / "job").begin() == 2
    assert (loop.folder / METRICS).read_bytes() == b'{"step": 1}\n{"step": 2}\n'


@pytest.mark.cli
def test_bf16_trains_with_margins_in_fp32(world: tuple[Recipe, Pipeline], tmp_path: Path) -> None:
    recipe, pipeline = world
    narrow = recipe.model_copy(update={"train": recipe.train.model_copy(update={"precision": "bf16"})})
    parts = _loop((narrow, pipeline), tmp_path / "narrow")
    full = _loop(world, tmp_path / "full")
    losses = [loop._step(0, loop.batches[0])["loss"] for loop in (parts, full)]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    assert losses[0] != losses[1]


@pytest.mark.cli
def test_compiling_needs_a_compiler(
    world: tuple[Recipe, Pipeline], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, pipeline = world
    compiled = recipe.model_copy(update={"train": recipe.train.model_copy(update={"compile": True})})
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(DamnatioError, match=r"compile: true.*install g\+\+"):
        _loop((compiled, pipeline), tmp_path / "compiled")


@pytest.mark.cli
def test_training_lowers_the_loss(tmp_path: Path, tiny: list[str]) -> None:
    run = tmp_path / "run"
    assert (
        main(["train", "demo", "--run", str(run), *tiny, "--set", "train.epochs=12", "--set", "train.log_every=1"]) == 0
    )
    (metrics,) = (run / "4-train").glob(f"*/{METRICS}")
    losses = [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]
    assert sum(losses[-5:]) < 0.6 * sum(losses[:5])


@pytest.mark.cli
def test_gradient_clipping_bounds_the_step(world: tuple[Recipe, Pipeline], tmp_path: Path) -> None:
    recipe, pipeline = world
    tight = recipe.train.model_copy(update={"clip": 1e-6, "weight_decay": 0.0, "momentum": 0.0})
    loop = _loop((recipe.model_copy(update={"train": tight}), pipeline), tmp_path / "job")
    before = [p.detach().clone() for p in loop.job.backbone.parameters()]
    loop._step(0, loop.batches[0])
    moved = torch.cat([(p.detach() - b).flatten() for p, b in zip(loop.job.backbone.parameters(), before, strict=True)])
    assert 0 < moved.norm() <= 1e-6 * tight.lr * 1.01
