"""HD against its definition, its gradient and its known optimum."""

import numpy as np
import pytest
import torch

from damnatio.methods.base import ForgetBatch
from tests.methods.world import batch_of, method_named, simplex


def naive(batch: ForgetBatch, margin: float) -> float:
    losses = []
    for a in range(len(batch.unit)):
        cosines = [
            float(batch.unit[a] @ batch.unit[b])
            for b in range(len(batch.unit))
            if a != b and batch.identities[a] == batch.identities[b]
        ]
        if cosines:
            losses.append(max(0.0, margin + max(cosines)))
    return float(np.mean(losses))


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_mean_over_images_of_the_hinge_at_their_hardest_partner(seed: int) -> None:
    batch = batch_of([4, 3, 2, 1], dim=5, seed=seed)
    method, head = method_named("HD", batch)
    assert float(method.forget_loss(batch, head)) == pytest.approx(naive(batch, 0.35), abs=1e-12)


def test_three_images_by_hand() -> None:
    """Images at 0, 60 and 180 degrees: the hardest cosines are 1/2, 1/2 and -1/2."""
    angles = torch.deg2rad(torch.tensor([0.0, 60.0, 180.0], dtype=torch.float64))
    batch = batch_of([3], units=torch.stack([angles.cos(), angles.sin()], dim=1))
    method, head = method_named("HD", batch)
    assert float(method.forget_loss(batch, head)) == pytest.approx((0.85 + 0.85 + 0.0) / 3)


def test_the_gradient_is_that_of_finite_differences() -> None:
    batch = batch_of([3, 3], dim=4, seed=1)
    method, head = method_named("HD", batch)

    def loss(raw: torch.Tensor) -> torch.Tensor:
        moved = ForgetBatch(raw, None, batch.images, batch.identities)
        return method.forget_loss(moved, head)

    assert torch.autograd.gradcheck(loss, batch.raw.clone().requires_grad_())


@pytest.mark.parametrize("n", [4, 5, 8])
def test_the_least_value_is_that_of_a_regular_simplex(n: int) -> None:
    """n unit vectors cannot all be further apart than cos = -1/(n - 1)."""
    at_best = batch_of([n], units=simplex(n))
    method, head = method_named("HD", at_best)
    least = 0.35 - 1 / (n - 1)
    assert float(method.forget_loss(at_best, head)) == pytest.approx(least)
    others = [float(method.forget_loss(batch_of([n], dim=n - 1, seed=s), head)) for s in range(50)]
    assert min(others) > least
