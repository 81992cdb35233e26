"""BI against its definition, its gradient and the average that hard dispersion leaves open."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from damnatio.methods.base import ForgetBatch, schedule_of
from damnatio.recipe.files import load
from tests.methods.test_retain_terms import term_of
from tests.methods.world import batch_of, method_named


def naive(batch: ForgetBatch, margin: float, average: float, average_margin: float) -> float:
    units, losses = batch.unit.numpy(), []
    for a in range(len(units)):
        others = [b for b in range(len(units)) if b != a and batch.identities[b] == batch.identities[a]]
        if others:
            template = sum(units[b] for b in others)
            template = template / math.sqrt(float(template @ template))
            hardest = max(float(units[a] @ units[b]) for b in others)
            averaged = float(units[a] @ template)
            losses.append(max(0.0, margin + hardest) + average * max(0.0, average_margin + averaged))
    return float(np.mean(losses))


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_mean_over_images_of_two_hinges(seed: int) -> None:
    batch = batch_of([4, 3, 2, 1], dim=5, seed=seed)
    method, head = method_named("BI", batch, margin=0.3, average=1.5, average_margin=0.2)
    assert float(method.forget_loss(batch, head)) == pytest.approx(naive(batch, 0.3, 1.5, 0.2), abs=1e-12)


def test_three_images_by_hand() -> None:
    """Images at 0, 60 and 120 degrees. Each has a hardest cosine of 1/2. The templates of the others are at 90, 60 and
    30 degrees, so the cosines to them are 0, 1 and 0."""
    angles = torch.deg2rad(torch.tensor([0.0, 60.0, 120.0], dtype=torch.float64))
    batch = batch_of([3], units=torch.stack([angles.cos(), angles.sin()], dim=1))
    method, head = method_named("BI", batch, margin=0.1, average=2.0, average_margin=0.2)
    expected = (0.6 + 2 * 0.2) + (0.6 + 2 * 1.2) + (0.6 + 2 * 0.2)
    assert float(method.forget_loss(batch, head)) == pytest.approx(expected / 3)


def test_it_sees_what_nine_images_share_where_no_pair_shows_it() -> None:
    """Images .3 c + sqrt(.91) e_i: two of them have the cosine .09, one and the average of the eight others .2."""
    units = torch.cat([torch.full((9, 1), 0.3), math.sqrt(0.91) * torch.eye(9)], dim=1).double()
    batch = batch_of([9], units=units)
    pairs_only, head = method_named("BI", batch, margin=-0.1, average=0.0)
    assert float(pairs_only.forget_loss(batch, head)) == 0
    both, _ = method_named("BI", batch, margin=-0.1, average=1.0, average_margin=-0.1)
    averaged = 8 * 0.09 / math.sqrt(64 * 0.09 + 8 * 0.91)
    assert float(both.forget_loss(batch, head)) == pytest.approx(averaged - 0.1, abs=1e-7)


def test_two_images_are_each_others_average() -> None:
    batch = batch_of([2], dim=3, seed=4)
    method, head = method_named("BI", batch, margin=1.0, average=1.0, average_margin=1.0)
    cosine = float(batch.unit[0] @ batch.unit[1])
    assert float(method.forget_loss(batch, head)) == pytest.approx(2 * (1 + cosine))


def test_the_gradient_is_that_of_finite_differences() -> None:
    batch = batch_of([3, 3], dim=4, seed=1)
    method, head = method_named("BI", batch)

    def loss(raw: torch.Tensor) -> torch.Tensor:
        moved = ForgetBatch(raw, F.normalize(raw, dim=1), None, batch.images, batch.identities)
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
