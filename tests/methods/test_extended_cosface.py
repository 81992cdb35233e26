"""EC equals CosFace over the head with one vector per image appended."""

import math

import pytest
import torch
from torch.nn import functional as F

from damnatio.heads.cosface import CosFace
from damnatio.methods.base import Context, ForgetBatch
from damnatio.methods.extended_cosface import EC
from tests.methods.world import CLASSES, batch_of, method_named


def prepared(batch: ForgetBatch, **own: str) -> tuple[EC, CosFace]:
    method, head = method_named("EC", batch, **own)
    assert isinstance(method, EC)
    assert isinstance(head, CosFace)
    method.prepare(Context(method.forget, head, 3, lambda: batch.unit, lambda: batch.unit))
    return method, head


def test_it_is_cosface_with_the_vectors_appended() -> None:
    batch = batch_of([3, 2], seed=4)
    method, head = prepared(batch, reduction="mean")
    whole = CosFace(CLASSES + 5, 8, logit_scale=64.0, margin=0.65).double()
    with torch.no_grad():
        whole.weight.copy_(torch.cat([head.weight, method.loss.vectors]))
    expected = whole(batch.raw, CLASSES + torch.arange(5))
    assert float(method.forget_loss(batch, head)) == pytest.approx(float(expected), abs=1e-9)


@pytest.mark.parametrize(("reduction", "divided_by"), [("sum", 1), ("mean", 4)])
def test_it_is_the_definition_by_loops(reduction: str, divided_by: int) -> None:
    batch = batch_of([2, 2], seed=5)
    method, head = prepared(batch, reduction=reduction)
    vectors = [*F.normalize(head.weight, dim=1), *F.normalize(method.loss.vectors, dim=1)]
    losses = []
    for i in range(4):
        target = CLASSES + i
        logits = [64 * (float(batch.unit[i] @ vector) - 0.65 * (k == target)) for k, vector in enumerate(vectors)]
        top = max(logits)
        losses.append(top + math.log(sum(math.exp(v - top) for v in logits)) - logits[target])
    assert float(method.forget_loss(batch, head)) == pytest.approx(sum(losses) / divided_by, abs=1e-9)


def test_its_gradient_reaches_embeddings_image_vectors_and_class_vectors() -> None:
    batch = batch_of([2, 2], dim=4, seed=5)
    method, head = prepared(batch)

    def loss(raw: torch.Tensor) -> torch.Tensor:
        return method.forget_loss(ForgetBatch(raw, None, batch.images, batch.identities), head)

    assert torch.autograd.gradcheck(loss, batch.raw.clone().requires_grad_(), atol=1e-4)
    loss(batch.raw).backward()  # type: ignore[no-untyped-call]
    assert method.loss.vectors.grad is not None
    assert head.weight.grad is not None
    assert method.loss.vectors.grad.abs().sum() > 0
    assert head.weight.grad.abs().sum() > 0
