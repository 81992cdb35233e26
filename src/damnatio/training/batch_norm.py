"""BatchNorm whose statistics are those of the whole batch, of which each process has a share.

    mean = sum_r n_r mean_r / n,    var = sum_r n_r (var_r + (mean_r - mean)^2) / n        over the processes r
    dx   = w / sd (dy - sum(dy) / n - xhat sum(dy xhat) / n)                               sums over the whole batch

torch's SyncBatchNorm does this on GPUs only. Here the same code runs on processors.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F

from damnatio.heads.base import at_least_float32
from damnatio.support import processes
from damnatio.support.exchange import total

_Norm = nn.modules.batchnorm._BatchNorm


@contextmanager
def synchronised(network: nn.Module) -> Iterator[None]:
    """Inside the block, the BatchNorm layers of the network use the statistics of all processes. They stay the same
    modules with the same tensors: only their class is another, and it is put back at the end."""
    norms = [module for module in network.modules() if isinstance(module, _Norm)] if processes.size() > 1 else []
    before = [type(module) for module in norms]
    for module in norms:
        module.__class__ = type(f"Synchronised{type(module).__name__}", (_Synchronised, type(module)), {})
    try:
        yield
    finally:
        for module, kind in zip(norms, before, strict=True):
            module.__class__ = kind


class _Synchronised(_Norm):
    def forward(self, x: Tensor) -> Tensor:
        if not self.training:  # a frozen layer has its statistics already
            return super().forward(x)
        self._check_input_dim(x)  # type: ignore[no-untyped-call]
        out, mean, var, count = _Function.apply(x, self.weight, self.bias, self.eps)  # type: ignore[no-untyped-call]
        if self.track_running_stats and self.running_mean is not None and self.running_var is not None:
            assert self.num_batches_tracked is not None
            self.num_batches_tracked.add_(1)
            share = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
            self.running_var.lerp_((var * (count / (count - 1))).to(self.running_var.dtype), share)
        return out  # type: ignore[no-any-return]


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        # torch's own kernel for these sums: on maps with their channels last, 40 times as fast as var_mean
        mean, var = torch.ops.aten.batch_norm_update_stats(at_least_float32(x), None, None, 0.0)
        own = torch.cat([mean, var, mean.new_tensor([x.numel() / x.shape[1]])])
        each = [torch.empty_like(own) for _ in range(processes.size())]
        distributed.all_gather(each, own)
        means, variances, counts = torch.split(torch.stack(each), [len(mean), len(var), 1], dim=1)
        count = counts.sum()
        mean = (counts * means).sum(dim=0) / count
        var = (counts * (variances + (means - mean).square())).sum(dim=0) / count
        scale = torch.ones_like(mean) if weight is None else weight
        ctx.save_for_backward(x, scale, mean, var, count)
        ctx.eps, ctx.learnt = eps, (weight is not None, bias is not None)
        ctx.mark_non_differentiable(mean, var, count)
        return F.batch_norm(x, mean, var, scale, bias, training=False, eps=eps), mean, var, count

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor, Tensor | None, Tensor | None, None]:
        x, scale, mean, var, count = ctx.saved_tensors
        invstd = (var + ctx.eps).rsqrt()  # the kernel for processors takes `var`, that for GPUs asks for this one
        _, to_weight, to_bias = torch.ops.aten.native_batch_norm_backward(  # sum(dy xhat) and sum(dy) here
            gradient, x, scale, mean, var, mean, invstd, False, ctx.eps, [False, True, True]
        )
        along, shift = (total(torch.stack([to_weight, to_bias])) / count).unbind()
        # dx = a dy + b x + c, with one value of each per channel
        a = scale * invstd
        b = -a * invstd * along
        c = -a * shift - b * mean
        a, b, c = (each.view([1, -1, *[1] * (x.ndim - 2)]) for each in (a, b, c))
        to_x = torch.addcmul(c, x, b).addcmul_(gradient, a).to(x.dtype)
        weighted, shifted = ctx.learnt
        return to_x, to_weight if weighted else None, to_bias if shifted else None, None
