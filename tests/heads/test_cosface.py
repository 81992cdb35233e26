import math

import pytest
import torch
from torch.nn import functional as F

from damnatio.heads.cosface import CosFace, margin_of, subtract_margin
from damnatio.heads.softmax import cross_entropy


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
    loss = cross_entropy(3.0 * subtract_margin(cosines, targets, 0.2), targets, own=3, shared=False)
    (gradient,) = torch.autograd.grad(loss, cosines)
    onehot = F.one_hot(targets, 3)
    p = (3.0 * (cosines.detach() - 0.2 * onehot)).softmax(1)
    torch.testing.assert_close(gradient, 3.0 * (p - onehot) / 4)


def test_the_loss_over_more_vectors_than_the_heads() -> None:
    """The head's class vectors and one more vector per image: vectors that are no classes serve as well."""
    torch.manual_seed(0)
    head, x = CosFace(3, 4), F.normalize(torch.randn(2, 4))
    vectors = torch.cat([head.class_vectors(), x])
    loss = head.softmax_loss(x, torch.tensor([3, 4]), x @ x.T, margins=margin_of(0.1), logit_scale=16.0)
    others = (x @ vectors.T).masked_fill(F.one_hot(torch.tensor([3, 4]), 5).bool(), -math.inf)
    expected = F.softplus((16.0 * others).logsumexp(1) - 16.0 * 0.9).mean()
    torch.testing.assert_close(loss, expected)
