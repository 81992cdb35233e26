"""NG+ against its definition, and the behaviour that the paper explains: mated similarity rises."""

import math

import pytest
import torch
from torch.nn import functional as F

from damnatio.heads.base import Head
from damnatio.methods.base import Context, ForgetBatch, RetainBatch
from damnatio.methods.neggrad_plus import NGPlus
from tests.methods.world import CLASSES, batch_of, method_named


def prepared(name: str, batch: ForgetBatch, **settings: object) -> tuple[NGPlus, Head]:
    method, head = method_named(name, batch, **settings)
    assert isinstance(method, NGPlus)
    method.prepare(Context(method.forget, head, 3, lambda: batch.unit, lambda: batch.unit))
    return method, head


def cross_entropy(unit: torch.Tensor, vectors: list[torch.Tensor], target: int, margin: float = 0.4) -> float:
    logits = [64 * (float(unit @ vector) - margin * (k == target)) for k, vector in enumerate(vectors)]
    return max(logits) + math.log(sum(math.exp(v - max(logits)) for v in logits)) - logits[target]


@pytest.mark.parametrize("name", ["NG+", "GA"])
def test_the_forget_term_is_minus_the_cross_entropy_through_one_row_an_identity(name: str) -> None:
    batch = batch_of([3, 2], seed=4)
    method, head = prepared(name, batch)
    vectors = [*F.normalize(head.weight, dim=1), *F.normalize(method.loss.vectors, dim=1)]
    losses = [cross_entropy(batch.unit[i], vectors, CLASSES + int(batch.identities[i])) for i in range(5)]
    assert float(method.forget_loss(batch, head)) == pytest.approx(-sum(losses) / 5, abs=1e-9)


@pytest.mark.parametrize("appended", [True, False])
def test_the_retain_term_runs_over_the_extra_rows_if_asked(appended: bool) -> None:
    batch = batch_of([3, 2], seed=4)
    method, head = prepared("NG+", batch, vectors_in_retain=appended)
    retain = RetainBatch(batch.raw, None, torch.arange(5))
    vectors = [*F.normalize(head.weight, dim=1), *(F.normalize(method.loss.vectors, dim=1) if appended else [])]
    losses = [cross_entropy(batch.unit[i], vectors, i) for i in range(5)]
    assert float(method.retain_loss(retain, head)) == pytest.approx(sum(losses) / 5, abs=1e-9)


def test_rows_start_at_the_mean_direction_under_the_original_model() -> None:
    batch = batch_of([3, 2], seed=4)
    method, _ = prepared("NG+", batch)
    for identity, mine in ((0, batch.unit[:3]), (1, batch.unit[3:])):
        assert torch.allclose(method.loss.vectors[identity], F.normalize(mine.sum(dim=0), dim=0))


def test_ascent_raises_the_similarity_of_an_identitys_images() -> None:
    """Every image of an identity is driven the same way, away from its class vector, so they collapse (paper, V-B)."""
    batch = batch_of([6], dim=16, seed=2)
    method, head = prepared("NG+", batch)
    raw = batch.raw.clone().requires_grad_()

    def mated() -> float:
        unit = F.normalize(raw.detach(), dim=1)
        return float((unit @ unit.T)[~torch.eye(6, dtype=torch.bool)].mean())

    before = mated()
    optimiser = torch.optim.SGD([raw, method.loss.vectors], lr=0.01)
    for _ in range(500):
        optimiser.zero_grad()
        moved = ForgetBatch(raw, None, batch.images, batch.identities)
        method.forget_loss(moved, head).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert mated() > before + 0.3
