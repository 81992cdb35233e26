"""How torch computes: by the recipe's word."""

from pathlib import Path

import pytest
import torch

from damnatio.pipeline import Pipeline
from damnatio.recipe.files import load
from damnatio.support.devices import set_threads
from damnatio.workspace import Workspace
from tests.conftest import TINY


def test_deterministic_kernels_are_the_recipes_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No output is made anew for it."""
    enabled, seen = torch.are_deterministic_algorithms_enabled, list[bool]()
    before = enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    monkeypatch.setattr("damnatio.training.loop.fit", lambda *_: seen.append(enabled()))
    monkeypatch.setattr("damnatio.training.original.original_job", lambda *_: None)
    try:
        for choice in ("deterministic=false", "deterministic=true"):
            with Workspace(tmp_path / "run") as workspace:
                Pipeline(load("demo", [*TINY, choice]), workspace).original()
        assert seen == [False]
        set_threads(1)
        assert enabled()
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
