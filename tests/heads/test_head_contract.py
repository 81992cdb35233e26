"""What every registered head promises: each against its maths as naive loops in float64, and what all share."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from damnatio.heads import HEADS
from damnatio.heads.base import Head
from damnatio.support.errors import DamnatioError

CLASSES, DIM, N = 5, 6, 8
NAMES = HEADS.names()


def head_and_batch(name: str, logit_scale: float = 64.0) -> tuple[Head, Tensor, Tensor]:
    torch.manual_seed(0)
    head = HEADS.get(name)(CLASSES, DIM, logit_scale=logit_scale).double().eval()
    embeddings = torch.randn(N, DIM, dtype=torch.float64) * torch.linspace(1, 60, N, dtype=torch.float64)[:, None]
    labels = torch.arange(N) % CLASSES
    with torch.no_grad():
        embeddings[0] = 9 * head.weight[labels[0]] + 0.01 * embeddings[0]  # near its class vector
        embeddings[1] = -900 * head.weight[labels[1]] + 0.01 * embeddings[1]  # nearly opposite
    return head, embeddings, labels


def cosface(head: Head, cos: float, norm: float) -> float:
    return cos - head.margin


def arcface(head: Head, cos: float, norm: float) -> float:
    theta = math.acos(cos)
    if theta + head.margin < math.pi:
        return math.cos(theta + head.margin)
    return cos - head.margin * math.sin(head.margin)


def adaface(head: Head, cos: float, norm: float) -> float:
    z = max(-1.0, min(1.0, 0.333 * (min(norm, 100.0) - 20.0) / (100.0 + 1e-3)))
    theta = math.acos(max(-1 + 1e-3, min(1 - 1e-3, cos)))
    return math.cos(max(1e-3, min(math.pi - 1e-3, theta - head.margin * z))) - (head.margin + head.margin * z)


NAIVE: dict[str, Callable[[Head, float, float], float]] = {"cosface": cosface, "arcface": arcface, "adaface": adaface}


@pytest.mark.parametrize("name", NAIVE)
@pytest.mark.parametrize("logit_scale", [64.0, 8.0])
def test_loss_is_the_naive_loop(name: str, logit_scale: float) -> None:
    head, embeddings, labels = head_and_batch(name, logit_scale)
    vectors, losses = head.weight.tolist(), []
    for x, y in zip(embeddings.tolist(), labels.tolist(), strict=True):
        norm = math.sqrt(sum(a * a for a in x))
        logits = []
        for j, vector in enumerate(vectors):
            cos = sum(a * b for a, b in zip(x, vector, strict=True)) / norm / math.sqrt(sum(b * b for b in vector))
            logits.append(logit_scale * (NAIVE[name](head, cos, norm) if j == y else cos))
        losses.append(math.log(sum(math.exp(logit - logits[y]) for logit in logits)))
    # AdaFace also keeps non-target cosines 1e-3 away from +-1; no non-target here comes that near.
    assert head(embeddings, labels).item() == pytest.approx(sum(losses) / N, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_gradient_to_the_class_vectors_is_that_of_finite_differences(name: str) -> None:
    head, embeddings, labels = head_and_batch(name, logit_scale=4.0)
    with torch.no_grad():
        head.weight.mul_(100)  # of length about 1: a difference of 1e-6 is then a small angle
    assert torch.autograd.gradcheck(lambda w: head(embeddings, labels), (head.weight,), atol=1e-6)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "adaface"])
def test_gradient_to_the_embeddings_is_that_of_finite_differences(name: str) -> None:
    head, embeddings, labels = head_and_batch(name, logit_scale=4.0)
    assert torch.autograd.gradcheck(lambda x: head(x, labels), (embeddings.requires_grad_(),), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_only_the_direction_of_an_embedding_is_trained(name: str) -> None:
    head, embeddings, labels = head_and_batch(name)
    head(embeddings.requires_grad_(), labels).backward()
    assert embeddings.grad is not None
    assert embeddings.grad.any()
    along = (embeddings.grad * embeddings).sum(1)
    torch.testing.assert_close(along, torch.zeros_like(along), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_margin_makes_the_task_harder_and_touches_targets_only(name: str) -> None:
    head, embeddings, labels = head_and_batch(name)
    cosines = head.cosines(embeddings[2:])
    moved = head.margins(cosines, embeddings[2:].norm(dim=1), labels[2:])
    target = torch.nn.functional.one_hot(labels[2:], CLASSES).bool()
    assert torch.equal(moved[~target], cosines[~target])
    assert (moved[target] < cosines[target]).all()


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_embeddings_give_the_float32_loss(name: str) -> None:
    head, embeddings, labels = head_and_batch(name)
    head, half = head.float(), embeddings.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        loss = head(half, labels)
        assert head.cosines(half).dtype == torch.float32
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.isfinite()
    assert torch.equal(loss, head(half.float(), labels))
    assert head.weight.grad is not None
    assert head.weight.grad.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_embedding_exactly_on_or_opposite_its_class_vector_has_a_finite_gradient(name: str, sign: float) -> None:
    head = HEADS.get(name)(3, 4)
    embeddings = (sign * 7 * head.weight.detach()).requires_grad_()
    head(embeddings, torch.arange(3)).backward()
    assert embeddings.grad is not None
    assert embeddings.grad.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_class_vectors_start_small_and_are_compared_by_direction(name: str) -> None:
    torch.manual_seed(0)
    head = HEADS.get(name)(400, 64)
    assert head.weight.std().item() == pytest.approx(0.01, rel=0.02)
    torch.testing.assert_close(head.class_vectors().norm(dim=1), torch.ones(400))
    cosines = head.cosines(1e4 * head.weight)
    assert cosines.max() <= 1
    assert cosines.min() >= -1
    torch.testing.assert_close(cosines.diagonal(), torch.ones(400))


@pytest.mark.parametrize("name", NAMES)
def test_a_head_without_classes_is_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(DamnatioError, match=r"0 classes.*\.$"):
        HEADS.get(name)(0, 4)
