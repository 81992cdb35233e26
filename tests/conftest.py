"""Small worlds that many tests live in."""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as on any busy machine; torch is imported first here

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray
from PIL import Image

THREADS = os.environ.get("DAMNATIO_TEST_THREADS", "1")  # one: two workers share two cores
os.environ.setdefault("OMP_NUM_THREADS", THREADS)
torch.set_num_threads(int(THREADS))
# Hypothesis fails an example that takes 0.2 s, and data that take long to draw: on a busy machine, any of them.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


TINY = [
    "faces.size=32",
    "faces.identities=60",
    "faces.instances=8",
    "faces.min_instances=8",
    "partitions.retain=24",
    "partitions.control=8",
    "partitions.test=8",
    "partitions.development=10",
    "partitions.distractors=6",
    "partitions.scales={S1: 3, S2: 6}",
    "partitions.forget_min_images=6",
    "model.backbone=iresnet-tiny",
    "model.dim=32",
    "train.epochs=2",
    "train.batch=32",
    "forget.methods=[HD, OF]",
    "forget.epochs=1",
    "forget.batch=32",
    "forget.identities_per_batch=3",
    "forget.images_per_identity=4",
    "evaluate.operating_points=[0.01, 0.1]",
    "report.pictures=false",
    f"threads={THREADS}",
]
"""Overrides that make the demo's recipe run in seconds, through the same code."""


@pytest.fixture
def tiny() -> list[str]:
    return [word for setting in TINY for word in ("--set", setting)]


@pytest.fixture
def face_folder(tmp_path: Path) -> Path:
    """A folder of aligned images that are no faces: a colour an identity, a pattern an image."""
    rng = np.random.default_rng(0)
    root = tmp_path / "faces"
    for identity in range(40):
        folder = root / f"person{identity:02d}"
        folder.mkdir(parents=True)
        colour = rng.integers(40, 215, 3)
        for number in range(7):
            pattern = rng.normal(0, 30, (32, 32, 1)).repeat(3, axis=2)
            pixels: NDArray[np.uint8] = np.clip(colour + pattern, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png")
    return root
