"""The frozen trunk: where a network is cut, what is kept of it, and that training from it is training the tail."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from damnatio.backbones import BACKBONES
from damnatio.backbones.cutting import cut
from damnatio.cli.main import main
from damnatio.forgetting.fine_tuning import forgetting_job
from damnatio.methods import METHODS
from damnatio.methods.base import Method
from damnatio.models.inputs import Pixels
from damnatio.models.store import load_backbone, new_backbone
from damnatio.pipeline import Pipeline
from damnatio.recipe.files import load
from damnatio.recipe.schema import Recipe
from damnatio.support.errors import DamnatioError
from damnatio.support.manifests import CHECKPOINT
from damnatio.training.loop import Job, _Loop, fit
from damnatio.training.trunks import Activations, keep_activations
from damnatio.workspace import Workspace
from tests.conftest import TINY

CUTS = [("iresnet-tiny", "layer2"), ("mobilefacenet", "conv_4"), ("vit-tiny", "blocks.1"), ("vit-tiny", "patch_embed")]


def quiet(line: str) -> None: ...


# --- cutting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "point"), [*CUTS, ("vit-tiny", "blocks.3"), ("iresnet-tiny", "fc")])
def test_tail_of_the_trunk_is_the_network(name: str, point: str) -> None:
    torch.manual_seed(0)
    whole = new_backbone(name, 32, 24).eval()
    trunk, tail = cut(whole, point)
    x = torch.randn(3, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        torch.testing.assert_close(tail(trunk(x)), whole(x))
    assert not trunk.training
    assert not tail.training  # f*'s own tail is never trained, and its BatchNorm must not follow the batches
    parts, all_of_it = (dict(trunk.named_parameters()), dict(tail.named_parameters())), dict(whole.named_parameters())
    assert not parts[0].keys() & parts[1].keys()
    assert {**parts[0], **parts[1]}.keys() == all_of_it.keys()
    for part in parts:
        assert all(parameter is all_of_it[name] for name, parameter in part.items())


def test_unknown_cut_point_is_refused_with_the_known_ones_before_anything_runs() -> None:
    with pytest.raises(DamnatioError, match=r"no cut point 'layer5'.*conv1, bn1, prelu, layer1, layer2, layer3.*fc\.$"):
        load("demo", ["forget.freeze=layer5"])
    with pytest.raises(DamnatioError, match=r"no cut point 'blocks.4'.*has patch_embed, blocks.0, .*blocks.3\.$"):
        load("demo", ["model.backbone=vit-tiny", "forget.freeze=blocks.4"])
    with pytest.raises(DamnatioError, match=r"no cut point 'features'"):  # nothing would be left to train
        load("demo", ["forget.freeze=features"])
    with pytest.raises(DamnatioError, match=r"a Bilinear has no cut points, so 'x' cannot be one"):
        cut(nn.Bilinear(2, 2, 2), "x")


@pytest.mark.parametrize("name", BACKBONES.names())
def test_every_backbone_can_be_cut(name: str) -> None:
    with torch.device("meta"):
        whole = BACKBONES.get(name)(112, 512)
        inner = {"vit": "blocks.2", "mbf": "layers.3"}.get(name.split("-", maxsplit=1)[0])
        point = inner or list(dict(whole.named_children()))[3]
        trunk, tail = cut(whole, point)
    assert list(trunk.parameters())
    assert list(tail.parameters())


# --- keeping ---------------------------------------------------------------------------------------------------------


class World:
    """A run of which f* is trained, on a backbone of choice."""

    def __init__(self, folder: Path, *overrides: str) -> None:
        self.recipe: Recipe = load("demo", [*TINY, "train.warmup_epochs=0", *overrides])
        self.workspace = Workspace(folder, say=quiet)
        self.pipeline = Pipeline(self.recipe, self.workspace)
        self.faces = self.pipeline.images(self.pipeline.faces())
        self.table = self.pipeline._table(self.pipeline.partitions())
        self.original = self.pipeline.original().path

    def job(self, variant: str, trunk: Path | None) -> Job:
        return forgetting_job(self.recipe, self.faces, self.table, self.original, "S1", variant, trunk)

    def pixels(self) -> Pixels:
        return Pixels(self.faces, load_backbone(self.original)[1])


@pytest.mark.cli
@pytest.mark.parametrize(("name", "point"), CUTS)
def test_kept_is_the_trunk_of_the_image_and_of_its_mirror_image(tmp_path: Path, name: str, point: str) -> None:
    world = World(tmp_path / "run", f"model.backbone={name}", f"forget.freeze={point}")
    kept = Activations(world.pipeline.trunk().path)
    trunk, _ = cut(load_backbone(world.original)[0], point)
    cpu = torch.device("cpu")
    rows = world.table.trained()[[5, 0, -1, 40]]
    mirrored = np.array([True, False, True, False])
    x = world.pixels().prepare(world.pixels().read(rows), cpu)
    x[[0, 2]] = x[[0, 2]].flip(3)
    with torch.no_grad():
        expected = trunk(x)
    ours = kept.prepare(kept.read(rows, mirrored), cpu)
    torch.testing.assert_close(ours, expected, rtol=2**-10, atol=1e-5)
    assert ours.dtype == torch.float32
    assert kept.read(rows, mirrored).dtype == np.float16
    if ours.ndim == 4:
        assert ours.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.cli
def test_image_that_training_does_not_read_has_no_activations(tmp_path: Path) -> None:
    world = World(tmp_path / "run", "forget.freeze=layer2")
    kept = Activations(world.pipeline.trunk().path)
    tested = world.table.table["row"][world.table.has("T")].astype(np.int64)
    with pytest.raises(DamnatioError, match=f"image {tested[0]}: training does not read this image"):
        kept.read(tested[:2])


@pytest.mark.cli
def test_damaged_activations_are_refused(tmp_path: Path) -> None:
    kept = World(tmp_path / "run", "forget.freeze=layer2").pipeline.trunk().path
    for name in ("activations.npy", "rows.npy"):
        content = (kept / name).read_bytes()
        for damaged in (content[:-1], content[:-1] + bytes([content[-1] ^ 1]), b""):
            (kept / name).write_bytes(damaged)
            with pytest.raises(DamnatioError, match=f"{name} is not what its stage wrote"):
                Activations(kept)
        (kept / name).write_bytes(content)
    Activations(kept)


@pytest.mark.cli
def test_too_small_a_disk_is_reported_before_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path / "run", "forget.freeze=layer2")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(DamnatioError, match=r"take 0\.0\d GB and the disk of .* has 0\.00 GB left: make room"):
        world.pipeline.trunk()


@pytest.mark.cli
def test_activations_beyond_half_precision_are_reported(tmp_path: Path) -> None:
    world = World(tmp_path / "run")

    class Loud(nn.Conv2d):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).abs() + 1e5

    with pytest.raises(DamnatioError, match="exceed what half precision holds"):
        keep_activations(Loud(3, 3, 1), world.pixels(), world.table.trained(), 64, tmp_path, quiet)


# --- training from it ------------------------------------------------------------------------------------------------


class Live(nn.Module):
    """The whole network with its trunk frozen and in evaluation mode, whatever mode it is put into."""

    def __init__(self, trunk: nn.Module, tail: nn.Module, rounded: bool) -> None:
        super().__init__()
        self.trunk, self.tail, self.rounded = trunk.requires_grad_(False), tail, rounded

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            t = self.trunk.eval()(x)
        out: Tensor = self.tail(t.half().float() if self.rounded else t)
        return out


@pytest.mark.cli
@pytest.mark.parametrize("batch_norm", ["train", "frozen"])
@pytest.mark.parametrize(("name", "point"), CUTS[:3])
def test_training_from_the_cache_is_training_the_tail(tmp_path: Path, name: str, point: str, batch_norm: str) -> None:
    """Against the trunk run live: to the rounding of half precision, and more nearly where that is rounded too. Not to
    the bit: the trunk ran in batches of another size, float32 sums may differ in their last bits from one shape to
    another, and now and then such a bit takes an activation to the next number of half precision."""
    words = [f"model.backbone={name}", f"forget.freeze={point}", f"forget.batch_norm={batch_norm}"]
    world = World(tmp_path / "run", *words, "forget.settings.HD.lr=0.001")

    def trained(job: Job, folder: str) -> dict[str, Tensor]:
        (tmp_path / folder).mkdir()
        fit(job, tmp_path / folder)
        return load_file(tmp_path / folder / "model.safetensors")

    def live(rounded: bool) -> Job:
        job = world.job("HD", None)
        assert job.whole is not None
        job.backbone = Live(*cut(job.whole, point), rounded)
        return job

    cached = trained(world.job("HD", world.pipeline.trunk().path), "cached")
    exact, rounded = trained(live(rounded=False), "exact"), trained(live(rounded=True), "rounded")
    start = load_file(world.original / "model.safetensors")
    trunk, tail = cut(load_backbone(world.original)[0], point)
    assert cached.keys() == start.keys()
    assert all(torch.equal(cached[name], start[name]) for name in trunk.state_dict()), "the trunk stays as it is"

    def moved(weights: dict[str, Tensor], names: Iterable[str]) -> Tensor:
        return torch.cat([(weights[name] - start[name]).flatten().float() for name in names])

    learnt = dict(tail.named_parameters())
    followed = [name for name in tail.state_dict() if name.endswith(("running_mean", "running_var"))]
    step, statistics = moved(exact, learnt), moved(rounded, followed)
    assert step.norm() > 0
    # BatchNorm enlarges the rounding of the channels that hardly vary: many, where f* has seen two epochs
    far, near = (0.25, 0.1) if batch_norm == "train" else (0.01, 0.002)
    assert (moved(cached, learnt) - step).norm() < far * step.norm()
    assert (moved(cached, learnt) - moved(rounded, learnt)).norm() < near * step.norm()
    assert (moved(cached, followed) - statistics).norm() <= 0.01 * statistics.norm(), "no movement at all where frozen"
    assert bool(statistics.norm() > 0) == (batch_norm == "train")


@pytest.mark.cli
def test_every_method_trains_from_one_cache(tmp_path: Path, tiny: list[str]) -> None:
    run = tmp_path / "run"
    methods = [name for name in METHODS.names() if issubclass(METHODS.get(name), Method)]
    words = [*tiny, "--set", "forget.freeze=layer2", "--set", f"forget.methods=[{', '.join(methods)}]"]
    assert main(["forget", "demo", "--run", str(run), *words]) == 0
    assert len(list((run / "4-trunk").iterdir())) == 1
    (original,) = (run / "4-train").iterdir()
    start = load_file(original / "model.safetensors")
    for method in methods:
        (folder,) = (run / "5-forget").glob(f"S1-{method}-*")
        weights = load_file(folder / "model.safetensors")
        changed = {name.split(".")[0] for name in start if not torch.equal(weights[name], start[name])}
        assert {"layer4", "fc"} <= changed <= {"layer3", "layer4", "bn2", "fc", "features"}, method
        network, _ = load_backbone(folder)
        assert network(torch.zeros(1, 3, 32, 32)).isfinite().all()


@pytest.mark.cli
def test_killed_and_resumed_is_as_if_it_had_not_been(tmp_path: Path) -> None:
    world = World(tmp_path / "run", "forget.freeze=layer2", "forget.checkpoint_seconds=0", "forget.epochs=2")
    trunk = world.pipeline.trunk().path
    quiet_run, stopped = tmp_path / "quiet", tmp_path / "stopped"
    for folder in (quiet_run, stopped):
        folder.mkdir()
    fit(world.job("OF", trunk), quiet_run)
    loop = _Loop(world.job("OF", trunk), stopped)
    for step in range(loop.begin(), 3):
        loop._step(step, loop.batches[step])
    loop._save(3)
    assert not any(name.startswith("backbone.layer1") for name in load_file(stopped / CHECKPOINT))
    fit(world.job("OF", trunk), stopped)
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (stopped, quiet_run))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
