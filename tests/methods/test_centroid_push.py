"""CP against its definition, its gradient and its fixed point."""

import pytest
import torch

from damnatio.methods.base import Context, ForgetBatch
from damnatio.methods.centroid_push import CP
from tests.methods.world import batch_of, method_named


def naive(batch: ForgetBatch, centroids: dict[int, torch.Tensor]) -> float:
    losses = []
    for identity, centroid in centroids.items():
        mine = [batch.unit[i] for i in range(len(batch.unit)) if int(batch.identities[i]) == identity]
        losses.append(sum(1 + float(unit @ centroid) for unit in mine) / len(mine))
    return sum(losses) / len(losses)


def means(batch: ForgetBatch) -> dict[int, torch.Tensor]:
    wanted = sorted(set(batch.identities.tolist()))
    sums = {y: sum(batch.unit[i] for i in range(len(batch.unit)) if int(batch.identities[i]) == y) for y in wanted}
    return {y: total / torch.linalg.norm(total) for y, total in sums.items()}


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_mean_over_identities_of_the_mean_over_images(seed: int) -> None:
    batch = batch_of([5, 2, 3], seed=seed)
    method, head = method_named("CP", batch, centroid="step")
    assert float(method.forget_loss(batch, head)) == pytest.approx(naive(batch, means(batch)), abs=1e-12)


def test_by_epoch_the_centroid_is_that_of_all_images_at_the_epochs_start() -> None:
    whole = batch_of([4, 3], seed=1)
    method, head = method_named("CP", whole, centroid="epoch")
    method.begin_epoch(0, Context(method.forget, head, 0, lambda: whole.unit, lambda: whole.unit))
    part = torch.tensor([0, 1, 4, 5])
    batch = ForgetBatch(whole.raw[part], None, whole.images[part], whole.identities[part])
    assert float(method.forget_loss(batch, head)) == pytest.approx(naive(batch, means(whole)), abs=1e-12)


def test_the_gradient_is_that_of_finite_differences_with_the_centroid_fixed() -> None:
    batch = batch_of([3, 3], dim=4, seed=1)
    method, head = method_named("CP", batch, centroid="epoch")
    method.begin_epoch(0, Context(method.forget, head, 0, lambda: batch.unit, lambda: batch.unit))

    def loss(raw: torch.Tensor) -> torch.Tensor:
        return method.forget_loss(ForgetBatch(raw, None, batch.images, batch.identities), head)

    assert torch.autograd.gradcheck(loss, batch.raw.clone().requires_grad_())


def test_the_fixed_point_is_the_antipode_of_the_centroid() -> None:
    batch = batch_of([4], seed=2)
    method, head = method_named("CP", batch, centroid="epoch")
    assert isinstance(method, CP)
    method.begin_epoch(0, Context(method.forget, head, 0, lambda: batch.unit, lambda: batch.unit))
    assert method.loss.centroids is not None
    opposite = -method.loss.centroids[0].expand(4, -1).clone().requires_grad_()
    there = ForgetBatch(opposite, None, batch.images, batch.identities)
    loss = method.forget_loss(there, head)
    (gradient,) = torch.autograd.grad(loss, opposite)
    assert float(loss.detach()) == pytest.approx(0, abs=1e-12)
    assert gradient.abs().max() < 1e-12
