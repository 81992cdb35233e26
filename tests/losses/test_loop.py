"""A training loop of a researcher's own: plain torch, no recipe."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import damnatio
from damnatio import losses
from damnatio.losses import ForgetLoss


class Classes(nn.Module):
    """A head of one's own."""

    def __init__(self, count: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(count, dim))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(16 * F.normalize(x) @ F.normalize(self.weight).T, labels)


@pytest.mark.parametrize("kind", ["OF", "HD"])
def test_people_are_forgotten_and_others_kept(kind: str) -> None:
    torch.manual_seed(0)
    people = np.repeat(np.arange(24), 12)
    x = (torch.randn(24, 20)[people] + 0.4 * torch.randn(len(people), 20)).float()
    roles = np.where(people < 4, "forget-train", "retain")
    original, head = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 16)), Classes(24, 16)
    first = torch.optim.Adam([*original.parameters(), *head.parameters()], 0.01)
    for _ in range(150):
        first.zero_grad()
        head(original(x), torch.from_numpy(people)).backward()
        first.step()
    kept, labels = np.flatnonzero(roles == "retain"), torch.from_numpy(people[roles == "retain"])
    seen = np.flatnonzero(roles == "forget-train")
    forget_set = damnatio.data.Numbered(TensorDataset(x[seen], torch.from_numpy(people[seen])))
    retain = DataLoader(TensorDataset(x[kept], labels), batch_size=48, shuffle=True, drop_last=True)
    sampler = damnatio.IdentityBalanced(people[seen], people=4, images=6, batches=len(retain))
    forget: Any = DataLoader(forget_set, batch_sampler=sampler)  # type: ignore[arg-type]
    targets = damnatio.frames.greedy(len(seen), away_from=head.weight)
    forget_loss: ForgetLoss = losses.OrthonormalFrame(targets) if kind == "OF" else losses.HardDispersion(margin=0.35)
    network, classes = copy.deepcopy(original).train(), copy.deepcopy(head)
    optimiser = torch.optim.SGD([*network.parameters(), *classes.parameters(), *forget_loss.parameters()], 0.02, 0.9)
    for _ in range(15):
        for (retain_x, retain_y), (forget_x, identities, images) in zip(retain, forget, strict=True):
            e = network(torch.cat([retain_x, forget_x]))
            kept_e, forget_e = e[: len(retain_x)], e[len(retain_x) :]
            loss = forget_loss.lambda_retain * classes(kept_e, retain_y)
            loss = loss + forget_loss.lambda_forget * forget_loss(forget_e, identities, images, head=classes)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    def mated(f: nn.Module, rows: NDArray[np.int64]) -> float:
        with torch.no_grad():
            units = F.normalize(f(x[rows]))
        same = torch.from_numpy(people[rows])[:, None] == torch.from_numpy(people[rows])[None]
        return float((units @ units.T)[same.triu(1)].mean())

    assert mated(original, seen) > 0.8
    assert mated(network, seen) < 0.4
    assert mated(network, kept) > 0.8


def test_batches_are_a_function_of_seed_and_epoch() -> None:
    def sampler(seed: int = 0) -> damnatio.IdentityBalanced:
        return damnatio.IdentityBalanced(list("aaabbbccd"), people=2, images=2, batches=3, seed=seed)

    one, two = sampler(), sampler()
    first, second = list(one), list(one)
    assert first != second
    two.set_epoch(1)
    assert list(two) == second
    assert first == list(sampler())
    assert first != list(sampler(1))
    assert all(len(batch) == 4 for batch in first)
    assert not any(8 in batch for batch in first + second), "one image has no pair"
    with pytest.raises(ValueError, match="two images of different capture instances"):
        damnatio.IdentityBalanced([1, 2, 3], people=2, images=2)


def test_importing_damnatio_imports_neither_torch_nor_numpy() -> None:
    import subprocess
    import sys

    code = "import damnatio, sys; print('torch' in sys.modules, 'numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]
