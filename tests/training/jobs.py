"""Small trainings of every kind, in double precision, which one process and several must do alike.

As a program, started by torchrun, it trains those that are named on its command line: `python -m tests.training.jobs
FOLDER [stop|break] NAME ... [then FOLDER ...]`. With `stop`, the last process asks all of them to stop in the third
step; with `break`, the main process can write nothing from then on.
"""

import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from damnatio.backbones.cutting import cut
from damnatio.backbones.vit import VisionTransformer
from damnatio.heads import HEADS
from damnatio.methods import METHODS
from damnatio.methods.base import ForgetSet, Method, fine_tuning
from damnatio.models.card import Card
from damnatio.models.inputs import Mask, Rows
from damnatio.models.store import new_backbone
from damnatio.recipe.schema import Optimisation
from damnatio.support import processes
from damnatio.support.errors import DamnatioError
from damnatio.training import stopping
from damnatio.training.loop import Forgetting, Job, fit

SIZE, DIM, CLASSES, EACH = 16, 12, 7, 4
"""seven classes: they do not divide evenly"""
FORGET = {0: 5, 1: 2, 2: 4, 3: 1, 4: 3}
"""forget images of each identity"""
METHODS_HERE = [name for name in METHODS.names() if issubclass(METHODS.get(name), Method)]


class Noise:
    """An image per row, whatever process asks for it."""

    def __init__(self, shape: tuple[int, ...] = (3, SIZE, SIZE)) -> None:
        self.shape = shape
        self.reads, self.acts_at = 0, 0
        self.acts: Callable[[], None] = stopping.request_stop

    def read(self, rows: Rows, mirrored: Mask | None = None) -> NDArray[np.float64]:
        self.reads += 1
        if self.reads == self.acts_at:
            self.acts()
        return np.stack([np.random.default_rng(int(row)).normal(size=self.shape) for row in rows])

    def prepare(self, entries: NDArray[np.float64], device: torch.device) -> Tensor:
        return torch.from_numpy(entries).to(device)


def job(
    backbone: Callable[[], nn.Module] = lambda: new_backbone("iresnet-tiny", SIZE, DIM),
    head: str = "cosface",
    partial_fc: float | None = None,
    method: str | None = None,
    freeze: str | None = None,
    batch_norm: str = "train",
    method_settings: dict[str, Any] | None = None,
    **settings: Any,
) -> Job:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    network, original = backbone(), backbone()
    original.load_state_dict(network.state_dict())
    original.eval().requires_grad_(False)
    inputs = Noise()
    if freeze:
        trunk, network = cut(network, freeze)
        original = cut(original, freeze)[1]
        inputs = Noise(tuple(trunk.eval()(torch.zeros(1, 3, SIZE, SIZE)).shape[1:]))
    vectors = HEADS.get(head)(CLASSES, DIM, logit_scale=16.0)
    vectors.partial_fc = partial_fc
    rows = np.arange(CLASSES * EACH)
    common = {"batch": 9, "epochs": 2, "lr": 0.05, "checkpoint_seconds": 0, "checkpoint_share": 1, "log_every": 1}
    common["probe_pairs"] = 0
    lr = {**common, **settings}.pop("lr")
    chosen = Optimisation(**{k: v for k, v in {**common, **settings}.items() if k != "lr"})
    forgetting = None
    if method:
        people = ForgetSet(1000 + np.arange(sum(FORGET.values())), np.repeat(list(FORGET), list(FORGET.values())))
        kind = fine_tuning(method)
        own = kind.Settings(**{"method": method, "retain": "classify", **(method_settings or {})})
        made = kind(own, people, vectors)
        forgetting = Forgetting(made, people, original, 3, 3, batch_norm == "frozen")
    card = Card(backbone="iresnet-tiny", dim=DIM, size=SIZE)
    return Job("job", network, vectors, card, inputs, rows, rows // EACH, chosen, lr, 3, forgetting)


def quiet_vit() -> nn.Module:
    """A transformer that draws nothing: what is drawn for an image depends on the number of processes."""
    return VisionTransformer(SIZE, DIM, patch=8, width=16, depth=2, heads=2, drop_path=0, mask_ratio=0)


JOBS: dict[str, Callable[[], Job]] = {
    **{f"f* {head}": lambda head=head: job(head=head) for head in ("cosface", "arcface", "adaface")},  # type: ignore[misc]
    "f* adamw clipped": lambda: job(optimiser="adamw", lr=0.01, clip=0.5),
    "f* partial fc": lambda: job(partial_fc=0.6),
    "f* workers": lambda: job(workers=2),
    "f* vit": lambda: job(backbone=quiet_vit),
    **{f"{name}": lambda name=name: job(method=name) for name in METHODS_HERE},  # type: ignore[misc]
    "HD frozen norms": lambda: job(method="HD", batch_norm="frozen"),
    "HD distil": lambda: job(method="HD", method_settings={"retain": "distil"}),
    "EC trunk": lambda: job(method="EC", freeze="layer2"),
    "EC partial fc": lambda: job(method="EC", partial_fc=0.6),
    "NG+ adaface": lambda: job(method="NG+", head="adaface"),
    "CP epoch": lambda: job(method="CP", method_settings={"centroid": "epoch"}),
    "BI pieces": lambda: job(method="BI", batch_norm="frozen", micro_batch=4),
}


def train(names: Iterable[str], folder: Path, stops_at: int = 0) -> None:
    """Train each job in a folder of its name; `stops_at` is the step in which the last process asks to stop."""
    for name in names:
        made = JOBS[name]()
        assert isinstance(made.inputs, Noise)
        if processes.rank() == processes.size() - 1:
            made.inputs.acts_at = stops_at
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        try:
            fit(made, place)
            assert not stops_at
        except stopping.Stopped:
            assert stops_at
        stopping.forget_request()


def break_down(name: str, folder: Path) -> None:
    """Train a job whose folder goes away: the main process cannot write, and all of them must say so and go on."""
    made = JOBS[name]()
    assert isinstance(made.inputs, Noise)
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    processes.wait()
    if processes.is_main():
        made.inputs.acts_at, made.inputs.acts = 3, lambda: shutil.rmtree(place)
    with pytest.raises((FileNotFoundError, DamnatioError), match="No such file"):
        fit(made, place)


if __name__ == "__main__":
    processes.join()
    for words in " / ".join(sys.argv[1:]).split(" / then / "):
        where, *named = words.split(" / ")
        if named[0] == "break":
            break_down(named[1], Path(where))
        else:
            train([name for name in named if name != "stop"], Path(where), 3 if "stop" in named else 0)
    processes.leave()
