"""BatchNorm over all processes, in a group of one, is torch's own. Two real processes: test_several_processes.py."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed, nn
from torch.nn import functional as F

from damnatio.training.batch_norm import _Function, _Synchronised


@pytest.fixture(autouse=True)
def alone(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(
    ("shape", "dtype", "near"),
    [
        ((6, 5), torch.float64, 1e-12),
        ((6, 5, 3, 4), torch.float64, 1e-12),
        ((6, 5, 3, 4), torch.float32, 1e-5),
        ((6, 5, 3, 4), torch.bfloat16, 2e-2),
    ],
)
def test_output_and_gradients_are_those_of_torch(
    shape: tuple[int, ...], dtype: torch.dtype, near: float, affine: bool
) -> None:
    torch.manual_seed(0)
    x = (3 + 2 * torch.randn(shape)).to(dtype)
    if len(shape) == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    wide = torch.promote_types(dtype, torch.float32)
    weight, bias = (torch.randn(5, dtype=wide), torch.randn(5, dtype=wide)) if affine else (None, None)
    slope = torch.randn(shape).to(dtype)
    found = []
    for ours in (True, False):
        leaves = [t.clone().requires_grad_() for t in (x, weight, bias) if t is not None]
        own, *learnt = leaves
        if ours:
            out = _Function.apply(own, *(learnt or (None, None)), 1e-3)[0]  # type: ignore[no-untyped-call]
        else:
            scale, shift = learnt or (None, None)
            out = F.batch_norm(own.to(wide), None, None, scale, shift, training=True, eps=1e-3)
        found.append([out, *torch.autograd.grad((out * slope).sum(), leaves)])
    for mine, theirs in zip(*found, strict=True):
        assert (mine.to(wide) - theirs.to(wide)).abs().max() <= near * theirs.abs().max().clamp_min(1)


def test_running_statistics_move_as_torch_moves_them() -> None:
    torch.manual_seed(0)
    plain, ours = nn.BatchNorm2d(5), nn.BatchNorm2d(5)
    ours.__class__ = type("Ours", (_Synchronised, nn.BatchNorm2d), {})
    for _ in range(3):
        x = 2 + torch.randn(4, 5, 3, 3)
        torch.testing.assert_close(ours(x), plain(x))
    plain.eval(), ours.eval()
    torch.testing.assert_close(ours.num_batches_tracked, plain.num_batches_tracked)
    torch.testing.assert_close(ours.running_mean, plain.running_mean)
    torch.testing.assert_close(ours.running_var, plain.running_var)
    torch.testing.assert_close(ours(x), plain(x))
