import pytest
import torch
from torch import Tensor

from damnatio.heads.adaface import AdaFace


def batch(seed: int, count: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return 30 * torch.randn(count, 4, generator=generator), torch.arange(count) % 3


def test_statistics_are_running_means_of_the_clipped_norms() -> None:
    head, (x, labels) = AdaFace(3, 4, t_alpha=0.25).train(), batch(1)
    x[0] *= 100
    norms = x.norm(dim=1).clamp(1e-3, 100)
    assert norms[0] == 100
    head(x, labels)
    assert float(head.norm_mean) == pytest.approx(0.75 * 20 + 0.25 * float(norms.mean()))
    assert float(head.norm_std) == pytest.approx(0.75 * 100 + 0.25 * float(norms.std()))


def test_evaluation_and_a_single_image_leave_the_statistics() -> None:
    head, (x, labels) = AdaFace(3, 4, t_alpha=0.5), batch(1)
    head.eval()(x, labels)
    assert head.train()(x[:1], labels[:1]).isfinite()
    assert (float(head.norm_mean), float(head.norm_std)) == (20.0, 100.0)


def test_a_resumed_head_continues_its_statistics() -> None:
    torch.manual_seed(0)
    head = AdaFace(3, 4, t_alpha=0.3).train()
    head(*batch(1))
    resumed = AdaFace(3, 4, t_alpha=0.3).train()
    resumed.load_state_dict(head.state_dict())
    assert torch.equal(head(*batch(2)), resumed(*batch(2)))
    assert torch.equal(head.norm_mean, resumed.norm_mean)
    assert torch.equal(head.norm_std, resumed.norm_std)


def test_the_margin_runs_from_arcface_over_cosface_to_additive_with_the_norm() -> None:
    """ẑ = 1: cos(θ - m) - 2m. ẑ = 0: cos θ - m. ẑ = -1: cos(θ + m)."""
    head = AdaFace(1, 4, margin=0.4, h=1.0).eval()
    head.norm_mean.fill_(50.0)
    head.norm_std.fill_(10.0)
    theta = torch.tensor([1.0, 1.0, 1.0])
    norms = torch.tensor([90.0, 50.0, 10.0])
    target = head.margins(theta.cos()[:, None], norms, torch.zeros(3, dtype=torch.int64))[:, 0]
    expected = torch.stack([(theta[0] - 0.4).cos() - 0.8, theta[1].cos() - 0.4, (theta[2] + 0.4).cos()])
    torch.testing.assert_close(target, expected)
