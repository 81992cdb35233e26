import math

import torch

from damnatio.heads.arcface import ArcFace


def target_at(theta: torch.Tensor, margin: float) -> torch.Tensor:
    cosines = theta.cos()[:, None]
    labels = torch.zeros(len(theta), dtype=torch.int64)
    return ArcFace(1, 2, margin=margin).margins(cosines, torch.ones(len(theta)), labels)[:, 0]


def test_the_target_falls_with_the_angle_over_the_whole_half_circle() -> None:
    theta = torch.linspace(0.01, math.pi - 0.01, 5000, dtype=torch.float64)
    for margin in (0.1, 0.5, 1.0):
        assert (target_at(theta, margin).diff() < 0).all()


def test_the_slope_is_the_analytic_one() -> None:
    """d cos(θ + m) / dθ = -sin(θ + m) before the guard; d (cos θ - m sin m) / dθ = -sin θ past it."""
    theta = torch.tensor([0.3, 1.0, 2.0, 2.6, 2.7, 3.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(target_at(theta, 0.5).sum(), theta)
    expected = torch.where(theta < math.pi - 0.5, -(theta + 0.5).sin(), -theta.sin())
    torch.testing.assert_close(slope, expected.detach())


def test_on_the_class_vector_itself_the_target_is_the_cosine_of_the_margin() -> None:
    torch.testing.assert_close(target_at(torch.zeros(1), 0.5), torch.tensor([math.cos(0.5)]), rtol=0, atol=1e-3)
