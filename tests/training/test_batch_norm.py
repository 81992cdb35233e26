"""BatchNorm over all processes, in a group of one, is torch's own. Two real processes: test_several_processes.py."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

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


class _AsOnCuda(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Asks of the kernel's arguments what the kernel for GPUs asks."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.asked = 0

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if call is torch.ops.aten.native_batch_norm_backward.default:
            _, x, _, _, _, save_mean, save_invstd, train, eps, _ = args
            assert save_mean is not None, "save_mean should always be defined"
            assert save_invstd is not None, "save_invstd should always be defined"
            assert not train
            torch.testing.assert_close(save_mean, x.mean(dim=(0, 2, 3)))
            torch.testing.assert_close(save_invstd, (x.var(dim=(0, 2, 3), correction=0) + eps).rsqrt())
            self.asked += 1
        return call(*args, **(kwargs or {}))


def test_the_kernel_for_gpus_gets_all_that_it_asks_for() -> None:
    torch.manual_seed(0)
    x = (3 + 2 * torch.randn(6, 5, 3, 4)).requires_grad_()
    out = _Function.apply(x, torch.randn(5), torch.randn(5), 1e-3)[0]  # type: ignore[no-untyped-call]
    with _AsOnCuda() as mode:
        out.square().sum().backward()
    assert mode.asked == 1


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
