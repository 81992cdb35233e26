"""OF against its definition, its zero, and the frame against the greedy rule restated naively."""

import pytest
import torch
from torch.nn import functional as F

from damnatio.heads.base import Head
from damnatio.methods.base import Context, ForgetBatch
from damnatio.methods.orthonormal_frame import OrthonormalFrame, greedy_frame
from tests.methods.world import batch_of, method_named


def prepared(batch: ForgetBatch) -> tuple[OrthonormalFrame, Head]:
    method, head = method_named("OF", batch)
    assert isinstance(method, OrthonormalFrame)
    method.prepare(Context(method.forget, head, 3, lambda: batch.unit, lambda: batch.unit))
    return method.double(), head


def test_it_is_the_scaled_mean_distance_to_each_images_own_target() -> None:
    batch = batch_of([3, 2], dim=16, seed=2)
    method, head = prepared(batch)
    naive = [1 - float(batch.unit[i] @ method.targets[i]) for i in range(5)]
    assert float(method.forget_loss(batch, head)) == pytest.approx(100 * sum(naive) / 5, abs=1e-9)


def test_it_is_zero_on_the_targets_and_follows_image_ids_not_places() -> None:
    batch = batch_of([3, 2], dim=16, seed=2)
    method, head = prepared(batch)
    order = torch.tensor([4, 0, 3, 1, 2])
    shuffled = ForgetBatch(
        method.targets[order], method.targets[order], None, batch.images[order], batch.identities[order]
    )
    assert float(method.forget_loss(shuffled, head)) == pytest.approx(0, abs=1e-5)
    misplaced = ForgetBatch(method.targets, method.targets, None, batch.images[order], batch.identities[order])
    assert float(method.forget_loss(misplaced, head)) > 10


def test_the_gradient_is_that_of_finite_differences() -> None:
    batch = batch_of([3, 2], dim=4, seed=1)
    method, head = prepared(batch)

    def loss(raw: torch.Tensor) -> torch.Tensor:
        moved = ForgetBatch(raw, F.normalize(raw, dim=1), None, batch.images, batch.identities)
        return method.forget_loss(moved, head)

    assert torch.autograd.gradcheck(loss, batch.raw.clone().requires_grad_())


def test_the_frame_is_the_greedy_choice() -> None:
    rows = F.normalize(torch.randn(20, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    frame = greedy_frame(6, rows, candidates=40, seed=5)
    pool = F.normalize(torch.randn(46, 8, generator=torch.Generator().manual_seed(5)), dim=1)
    placed: list[torch.Tensor] = []
    for target in frame:
        worst = [max(float(c @ other) for other in [*rows, *placed]) for c in pool]
        taken = [any(torch.equal(c, p) for p in placed) for c in pool]
        best = min((w, i) for i, (w, t) in enumerate(zip(worst, taken, strict=True)) if not t)[1]
        assert torch.equal(pool[best], target)
        placed.append(target)


def test_the_frame_is_unit_reproducible_and_less_coherent_than_chance() -> None:
    rows = F.normalize(torch.randn(50, 64, generator=torch.Generator().manual_seed(0)), dim=1)
    frame, again, other = (greedy_frame(40, rows, 2000, seed) for seed in (1, 1, 2))
    assert torch.equal(frame, again)
    assert not torch.equal(frame, other)
    assert torch.allclose(frame.norm(dim=1), torch.ones(40))
    chance = F.normalize(torch.randn(40, 64, generator=torch.Generator().manual_seed(9)), dim=1)
    assert (frame @ rows.T).max() < 0.8 * (chance @ rows.T).max()
