"""BI against its definition, its gradient and the two things that its terms are for."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from damnatio.heads.base import Head
from damnatio.losses.burn_in import residuals
from damnatio.methods.base import Context, ForgetBatch, schedule_of
from damnatio.methods.burn_in import BI
from damnatio.recipe.files import load
from tests.methods.test_retain_terms import term_of
from tests.methods.world import batch_of, method_named

HINGES = {"residual": 0.0, "centre": 0.0, "hard": 1.0}


def ready(batch: ForgetBatch, **settings: Any) -> tuple[BI, Head]:
    """The method with the centres of the batch's own f*(x)."""
    method, head = method_named("BI", batch, **settings)
    assert isinstance(method, BI)
    assert batch.frozen is not None
    frozen = batch.frozen
    method.prepare(Context(method.forget, head, 0, lambda: batch.unit, lambda: frozen))
    return method, head


def naive(batch: ForgetBatch, own: dict[str, float]) -> float:
    assert batch.frozen is not None
    units, frozen, losses = batch.unit.numpy(), batch.frozen.numpy(), []
    for a in range(len(units)):
        same = [b for b in range(len(units)) if batch.identities[b] == batch.identities[a]]
        centre = _normed(sum(frozen[b] for b in same))
        target = _normed(frozen[a] - float(frozen[a] @ centre) * centre)
        loss = own["residual"] * (1 - float(units[a] @ target)) + own["centre"] * max(0.0, float(units[a] @ centre))
        others = [b for b in same if b != a]
        if others:
            hardest = max(float(units[a] @ units[b]) for b in others)
            averaged = float(units[a] @ _normed(sum(units[b] for b in others)))
            loss += own["hard"] * max(0.0, own["margin"] + hardest)
            loss += own["average"] * max(0.0, own["average_margin"] + averaged)
        losses.append(loss)
    return float(np.mean(losses))


def _normed(vector: Any) -> Any:
    length = math.sqrt(float(vector @ vector))
    return vector / length if length > 1e-12 else 0 * vector


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_mean_over_images_of_a_target_and_three_hinges(seed: int) -> None:
    batch = batch_of([4, 3, 2], dim=5, seed=seed)
    own = {"residual": 0.7, "centre": 0.4, "hard": 1.1, "margin": 0.3, "average": 1.5, "average_margin": 0.2}
    method, head = ready(batch, **own)
    assert float(method.forget_loss(batch, head)) == pytest.approx(naive(batch, own), abs=1e-9)


def test_three_images_by_hand() -> None:
    """Images at 0, 60 and 120 degrees. Each has a hardest cosine of 1/2. The templates of the others are at 90, 60 and
    30 degrees, so the cosines to them are 0, 1 and 0."""
    angles = torch.deg2rad(torch.tensor([0.0, 60.0, 120.0], dtype=torch.float64))
    batch = batch_of([3], units=torch.stack([angles.cos(), angles.sin()], dim=1))
    method, head = ready(batch, **HINGES, margin=0.1, average=2.0, average_margin=0.2)
    expected = (0.6 + 2 * 0.2) + (0.6 + 2 * 1.2) + (0.6 + 2 * 0.2)
    assert float(method.forget_loss(batch, head)) == pytest.approx(expected / 3)


def test_the_target_is_the_photograph_without_the_person_by_hand() -> None:
    """f* puts two images 45 degrees left and right of the axis: their residuals point left and right. An embedding at
    its target costs nothing, one on the axis 1."""
    frozen = F.normalize(torch.tensor([[-1.0, 1.0], [1.0, 1.0]], dtype=torch.float64), dim=1)
    units = torch.tensor([[-1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    plain = batch_of([2], units=units)
    batch = ForgetBatch(plain.raw, frozen, plain.images, plain.identities)
    method, head = ready(batch, residual=1.0, centre=0.0, hard=0.0, average=0.0)
    assert torch.allclose(method.loss.centres[0], torch.tensor([0.0, 1.0], dtype=torch.float64))
    assert torch.allclose(
        residuals(frozen, method.loss.centres[[0, 0]]), torch.tensor([[-1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    )
    assert float(method.forget_loss(batch, head)) == pytest.approx((0 + 1) / 2)
    away, _ = ready(batch, residual=0.0, centre=3.0, hard=0.0, average=0.0)
    assert float(away.forget_loss(batch, head)) == pytest.approx(3 * (0 + 1) / 2)


def test_it_sees_what_nine_images_share_where_no_pair_shows_it() -> None:
    """Images .3 c + sqrt(.91) e_i: two of them have the cosine .09, one and the average of the eight others .2."""
    units = torch.cat([torch.full((9, 1), 0.3), math.sqrt(0.91) * torch.eye(9)], dim=1).double()
    batch = batch_of([9], units=units)
    pairs_only, head = ready(batch, **HINGES, margin=-0.1, average=0.0)
    assert float(pairs_only.forget_loss(batch, head)) == 0
    both, _ = ready(batch, **HINGES, margin=-0.1, average=1.0, average_margin=-0.1)
    averaged = 8 * 0.09 / math.sqrt(64 * 0.09 + 8 * 0.91)
    assert float(both.forget_loss(batch, head)) == pytest.approx(averaged - 0.1, abs=1e-6)


def test_an_image_without_a_partner_has_no_hinge_on_partners() -> None:
    batch = batch_of([1, 1], dim=4)
    method, head = ready(batch, residual=0.0, centre=0.0)
    raw = batch.raw.clone().requires_grad_()
    alone = ForgetBatch(raw, batch.frozen, batch.images, batch.identities)
    loss = method.forget_loss(alone, head)
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == 0
    assert raw.grad is not None
    assert torch.equal(raw.grad, torch.zeros_like(raw))


def test_the_gradient_is_that_of_finite_differences() -> None:
    batch = batch_of([3, 3], dim=4, seed=1)
    method, head = ready(batch)

    def loss(raw: torch.Tensor) -> torch.Tensor:
        moved = ForgetBatch(raw, batch.frozen, batch.images, batch.identities)
        return method.forget_loss(moved, head)

    assert torch.autograd.gradcheck(loss, batch.raw.clone().requires_grad_())


def test_it_brings_its_own_schedule_and_leaves_that_of_the_others() -> None:
    recipe = load("demo", ["forget.methods=[HD, BI]"])
    assert term_of(recipe, "BI") == "distil"
    own, common = schedule_of(recipe, "BI"), schedule_of(recipe, "HD")
    assert (own.optimiser, own.weight_decay, own.batch_norm) == ("adamw", 0.0, "frozen")
    assert common == recipe.forget
    assert (common.optimiser, common.weight_decay, common.batch_norm) == ("sgd", 5e-4, "train")


def test_a_recipe_may_give_it_another_schedule() -> None:
    words = "forget.settings.BI={optimiser: sgd, batch_norm: train, retain: classify, images_per_identity: 4}"
    recipe = load("demo", ["forget.methods=[BI]", words])
    assert term_of(recipe, "BI") == "classify"
    schedule = schedule_of(recipe, "BI")
    assert (schedule.optimiser, schedule.batch_norm, schedule.images_per_identity) == ("sgd", "train", 4)
