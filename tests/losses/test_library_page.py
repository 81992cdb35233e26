"""docs/library.md: its code runs as it stands, in its order."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

PAGE = Path(__file__).parents[2] / "docs" / "library.md"


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(92, 64))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(F.normalize(x) @ F.normalize(self.weight).T, labels)


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    people = torch.arange(96).repeat_interleave(8)
    kept = torch.nonzero(people >= 4)[:, 0]
    world: dict[str, Any] = {
        "x": torch.randn(96, 3, 8, 8)[people] + 0.3 * torch.randn(len(people), 3, 8, 8),
        "people": people,
        "seen": torch.nonzero(people < 4)[:, 0],
        "kept": kept,
        "labels": people[kept] - 4,
        "original": nn.Sequential(nn.Flatten(), nn.Linear(192, 64)),
        "head": Head(),
    }
    before = [p.clone() for p in world["original"].parameters()]
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), world)
    assert all(torch.equal(old, p) for old, p in zip(before, world["original"].parameters(), strict=True))
    moved = zip(world["network"].parameters(), before, strict=True)
    assert any(not torch.equal(p, old) for p, old in moved)
    assert torch.isfinite(world["loss"])
    assert world["rate"].count > 0
    assert (world["again"].transform(world["e"]) == world["stored"]).all()
    assert 0.4 < world["tmr"].max() <= 1
