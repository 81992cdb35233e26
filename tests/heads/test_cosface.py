import math

import pytest
import torch
from torch.nn import functional as F

from damnatio.heads.base import Head
from damnatio.heads.cosface import CosFace, margin_softmax_loss


def test_a_case_worked_by_hand() -> None:
    """x = (3, 4) against the axes: cosines 0.6 and 0.8; under label 0, s (0.6 - 0.4) = 1 and s 0.8 = 4 at s = 5."""
    head = CosFace(2, 2, logit_scale=5.0, margin=0.4)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[2.0, 0.0], [0.0, 0.5]]))
    loss = head(torch.tensor([[3.0, 4.0]]), torch.tensor([0]))
    assert loss.item() == pytest.approx(math.log(1 + math.exp(3)), rel=1e-6)


def test_the_gradient_to_a_cosine_is_the_logit_scale_times_the_error() -> None:
    """dL/dcos_ij = s (p_ij - 1[j = y_i]) / N."""
    torch.manual_seed(0)
    cosines, targets = (2 * torch.rand(4, 3, dtype=torch.float64) - 1).requires_grad_(), torch.tensor([0, 2, 1, 1])
    (gradient,) = torch.autograd.grad(margin_softmax_loss(cosines, targets, logit_scale=3.0, margin=0.2), cosines)
    onehot = F.one_hot(targets, 3)
    p = (3.0 * (cosines.detach() - 0.2 * onehot)).softmax(1)
    torch.testing.assert_close(gradient, 3.0 * (p - onehot) / 4)


def test_the_loss_over_more_vectors_than_the_heads() -> None:
    """The head's class vectors and one more vector per image: vectors that are no classes serve as well."""
    torch.manual_seed(0)
    head, x = CosFace(3, 4), F.normalize(torch.randn(2, 4))
    vectors = torch.cat([head.class_vectors(), x])
    loss = margin_softmax_loss(x @ vectors.T, torch.tensor([3, 4]), logit_scale=16.0, margin=0.1)
    others = (x @ vectors.T).masked_fill(F.one_hot(torch.tensor([3, 4]), 5).bool(), -math.inf)
    expected = F.softplus((16.0 * others).logsumexp(1) - 16.0 * 0.9).mean()
    torch.testing.assert_close(loss, expected)


def test_cosface_is_the_common_loss_of_its_margins() -> None:
    torch.manual_seed(0)
    head, x, labels = CosFace(5, 4), torch.randn(6, 4), torch.arange(6) % 5
    torch.testing.assert_close(head(x, labels), Head.forward(head, x, labels))


def test_half_precision_cosines_are_widened_before_the_logit_scale() -> None:
    cosines, targets = torch.tensor([[0.5, 0.25]]).bfloat16(), torch.tensor([0])
    loss = margin_softmax_loss(cosines, targets, logit_scale=64.0, margin=0.3)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, margin_softmax_loss(cosines.float(), targets, logit_scale=64.0, margin=0.3))
