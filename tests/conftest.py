"""Small worlds that many tests live in."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray
from PIL import Image

os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)  # two workers share two cores


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
    "model.dim=32",
    "train.epochs=2",
    "train.batch=32",
    "forget.methods=[HD, OF]",
    "forget.epochs=1",
    "forget.batch=32",
    "forget.identities_per_batch=3",
    "forget.images_per_identity=4",
    "evaluate.operating_points=[0.01, 0.1]",
    "threads=1",
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


# Hypothesis times each example unless told not to, and a busy machine would fail tests that hold.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
