"""The look at pairs of images during a training: what it measures, and that it changes nothing."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from damnatio.backbones.vit import VisionTransformer
from damnatio.training import similarity
from damnatio.training.loop import Job, _Loop, fit
from damnatio.training.similarity import FILE, pairs_of
from tests.training.jobs import DIM, SIZE, Noise, job


@pytest.fixture(autouse=True)
def _single_precision_after() -> object:
    yield
    torch.set_default_dtype(torch.float32)


def test_pairs_by_hand() -> None:
    rows = np.array([10, 11, 12, 13, 14, 15, 16, 17])
    people = np.array([0, 0, 1, 2, 2, 2, 2, 0])  # 10 11 17 | 12 | 13 14 15 16
    every = pairs_of(rows, people, 64)
    assert every.rows.tolist() == [[10, 11], [13, 14], [15, 16]]  # nobody twice; who has one image has no pair
    assert every.identities.tolist() == [0, 2, 2]
    assert pairs_of(rows, people, 2).rows.tolist() == [[10, 11], [13, 14]]
    assert pairs_of(rows, people, 1).rows.tolist() == [[10, 11]]
    assert pairs_of(rows, people, 0).rows.shape == pairs_of(rows, np.arange(8), 9).rows.shape == (0, 2)
    many = pairs_of(np.arange(2000), np.arange(2000) // 2, 5).identities
    assert many.tolist() == [0, 249, 499, 749, 999]  # from everywhere


def drawing_vit() -> VisionTransformer:
    """A transformer that draws from torch's generator in every step."""
    return VisionTransformer(SIZE, DIM, patch=8, width=16, depth=2, heads=2, drop_path=0.3, mask_ratio=0.3)


JOBS: dict[str, Callable[[int], Job]] = {
    "f*, whose BatchNorm follows": lambda pairs: job(probe_pairs=pairs),
    "f*, which draws": lambda pairs: job(backbone=drawing_vit, probe_pairs=pairs),
    "HD": lambda pairs: job(method="HD", probe_pairs=pairs),
    "HD, whose BatchNorm is frozen": lambda pairs: job(method="HD", batch_norm="frozen", probe_pairs=pairs),
    "EC on a trunk": lambda pairs: job(method="EC", freeze="layer2", probe_pairs=pairs),
}


@pytest.mark.parametrize("name", JOBS)
def test_the_weights_are_the_same_with_and_without(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "SHARE", 1.0)  # a look after every step
    for pairs in (0, 64):
        folder = tmp_path / str(pairs)
        folder.mkdir()
        fit(JOBS[name](pairs), folder)
    assert not (tmp_path / "0" / FILE).exists()
    lines = [json.loads(line) for line in (tmp_path / "64" / FILE).read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(len(lines)))
    assert len(lines) == 1 + 2 * (28 // 9)
    assert {"step", "retain", "strangers"} <= lines[0].keys()
    assert ("forget" in lines[0]) == (name[0] != "f")
    for file in ("model.safetensors", "head.safetensors"):
        without, looked_at = (load_file(tmp_path / pairs / file) for pairs in ("0", "64"))
        assert without.keys() == looked_at.keys()
        assert all(torch.equal(without[key], looked_at[key]) for key in without), file


def test_the_numbers_are_mean_cosines(tmp_path: Path) -> None:
    """Against loops over the images of each pair, one image at a time."""
    loop = _Loop(job(method="HD", probe_pairs=64), tmp_path)
    loop.begin()
    loop._look(0, due=True)
    loop.job.backbone.eval()

    def unit(row: int) -> list[float]:
        images = loop.job.inputs
        assert isinstance(images, Noise)
        with torch.no_grad():
            raw = loop.job.backbone(torch.from_numpy(images.read(np.array([row]))))[0].tolist()
        return [value / math.hypot(*raw) for value in raw]

    def cosine(a: int, b: int) -> float:
        return sum(x * y for x, y in zip(unit(a), unit(b), strict=True))

    retained = [(4 * person + k, 4 * person + k + 1) for k in (0, 2) for person in range(7)]
    people = [person for _ in (0, 2) for person in range(7)]
    # people of 5, 2, 4, 1 and 3 forget images: 1000-1004, 1005-1006, 1007-1010, 1011, 1012-1014
    forgotten = [(1000, 1001), (1002, 1003), (1005, 1006), (1007, 1008), (1009, 1010), (1012, 1013)]
    strangers = [
        cosine(first, second)
        for (first, _), person in zip(retained, people, strict=True)
        for (_, second), other in zip(retained, people, strict=True)
        if person != other
    ]
    (line,) = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert line["step"] == 0
    assert line["retain"] == pytest.approx(np.mean([cosine(*pair) for pair in retained]), abs=1e-4)
    assert line["forget"] == pytest.approx(np.mean([cosine(*pair) for pair in forgotten]), abs=1e-4)
    assert line["strangers"] == pytest.approx(np.mean(strangers), abs=1e-4)


def test_a_resumed_training_has_each_look_once(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"step": 0, "retain": 0.1}\n{"step": 3, "retain": 0.2}\n{"step": 5, "retain": 0.3}\n')
    loop = _Loop(job(probe_pairs=4), tmp_path)
    loop.similarity.go_on(4)
    assert [json.loads(line)["step"] for line in (tmp_path / FILE).read_text().splitlines()] == [0, 3]
    loop.similarity.go_on(0)
    assert not (tmp_path / FILE).exists()


def test_looks_keep_their_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look of 2 s is followed by 198 s without one."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    loop = _Loop(job(probe_pairs=4), tmp_path)
    watched = loop.similarity
    assert watched.is_due()
    read = loop.job.inputs.read

    def slowly(*what: object) -> object:
        now[0] += 2.0
        return read(*what)  # type: ignore[arg-type]

    monkeypatch.setattr(loop.job.inputs, "read", slowly)
    watched.look(0, loop.job.backbone, loop._mode)
    now[0] += 197.9
    assert not watched.is_due()
    now[0] += 0.2
    assert watched.is_due()
