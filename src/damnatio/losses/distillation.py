"""A retain term without labels: everybody else stays where f* put them."""

import torch
from torch import Tensor, nn

from damnatio.losses.base import unit


class Distillation(nn.Module):
    """L = 1/N sum_i (1 - <f(x_i), f*(x_i)>), over N x d embeddings and the originals' of the same images, raw or not.

    >>> float(Distillation()(torch.eye(2), 3 * torch.eye(2)))
    0.0
    """

    def forward(self, embeddings: Tensor, before: Tensor) -> Tensor:
        with torch.autocast(embeddings.device.type, enabled=False):
            return (1 - (unit(embeddings) * unit(before)).sum(dim=1)).mean()
