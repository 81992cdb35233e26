"""PD against its definition, its gradient and its known optimum."""

import numpy as np
import pytest
import torch

from damnatio.methods.base import ForgetBatch
from tests.methods.world import batch_of, method_named, simplex


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_mean_hinge_over_pairs_of_one_identity(seed: int) -> None:
    batch = batch_of([4, 3, 2, 1], dim=5, seed=seed)
    method, head = method_named("PD", batch)
    hinges = [
        max(0.0, 0.35 + float(batch.unit[a] @ batch.unit[b]))
        for a in range(10)
        for b in range(a + 1, 10)
        if batch.identities[a] == batch.identities[b]
    ]
    assert len(hinges) == 6 + 3 + 1
    assert float(method.forget_loss(batch, head)) == pytest.approx(np.mean(hinges), abs=1e-12)


def test_three_images_by_hand() -> None:
    """Images at 0, 60 and 180 degrees: cosines 1/2, -1/2 and -1."""
    angles = torch.deg2rad(torch.tensor([0.0, 60.0, 180.0], dtype=torch.float64))
    batch = batch_of([3], units=torch.stack([angles.cos(), angles.sin()], dim=1))
    method, head = method_named("PD", batch)
    assert float(method.forget_loss(batch, head)) == pytest.approx(0.85 / 3)


def test_the_gradient_is_that_of_finite_differences() -> None:
    batch = batch_of([3, 3], dim=4, seed=1)
    method, head = method_named("PD", batch)

    def loss(raw: torch.Tensor) -> torch.Tensor:
        return method.forget_loss(ForgetBatch(raw, None, batch.images, batch.identities), head)

    assert torch.autograd.gradcheck(loss, batch.raw.clone().requires_grad_())


@pytest.mark.parametrize("n", [4, 6])
def test_descent_reaches_the_least_value_on_a_regular_simplex(n: int) -> None:
    """From random directions the loss falls to m - 1/(n - 1) and no further."""
    batch = batch_of([n], dim=n, seed=3)
    method, head = method_named("PD", batch)
    least = 0.35 - 1 / (n - 1)
    assert float(method.forget_loss(batch_of([n], units=simplex(n)), head)) == pytest.approx(least)
    raw = batch.raw.clone().requires_grad_()
    optimiser = torch.optim.SGD([raw], lr=1.0)
    for _ in range(500):
        optimiser.zero_grad()
        loss = method.forget_loss(ForgetBatch(raw, None, batch.images, batch.identities), head)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert float(loss.detach()) == pytest.approx(least, abs=1e-4)
