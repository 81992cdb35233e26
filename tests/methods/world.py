"""Batches and heads that the tests of methods share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from damnatio.heads.base import Head
from damnatio.heads.cosface import CosFace
from damnatio.methods.base import ForgetBatch, ForgetSet, Method, fine_tuning

CLASSES = 7


def batch_of(sizes: Sequence[int], dim: int = 8, seed: int = 0, units: Tensor | None = None) -> ForgetBatch:
    """A forget batch in float64 with so many images of each identity; image ids are 100, 107, 114, ..."""
    count = sum(sizes)
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randn(count, dim, generator=generator, dtype=torch.float64) if units is None else units
    identities = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    frozen = F.normalize(torch.randn(count, raw.shape[1], generator=generator, dtype=torch.float64), dim=1)
    return ForgetBatch(raw, frozen, 100 + 7 * torch.arange(count), identities)


def method_named(name: str, batch: ForgetBatch, **settings: Any) -> tuple[Method, Head]:
    """The method over the images of a batch, with a float64 head."""
    torch.manual_seed(0)
    head = CosFace(CLASSES, batch.raw.shape[1]).double()
    kind = fine_tuning(name)
    forget = ForgetSet(batch.images.numpy().astype(np.int64), batch.identities.numpy().astype(np.int64))
    return kind(kind.Settings(method=name, **settings), forget, head).double(), head


def simplex(n: int) -> Tensor:
    """n unit vectors in n - 1 dimensions whose cosines are all -1/(n - 1)."""
    centred = torch.eye(n, dtype=torch.float64) - 1 / n
    basis = torch.linalg.svd(centred).Vh[: n - 1]
    return F.normalize(centred @ basis.T, dim=1)
