"""What the heads share: a unit row per identity, cosines against the rows, and the softmax over scaled margins."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.support.errors import DamnatioError


class Head(nn.Module, ABC):
    """Margin softmax over one unit row per identity.

        cos_ij = clamp(x_i / |x_i| . w_j / |w_j|, -1, 1)
        L      = mean_i -log softmax_j(scale * margins(cos)_ij) at j = y_i

    A subclass defines `margins`: how much harder the target's cosine is made. Everything runs in float32, or float64
    where the input is, even under autocast: at scale 64 a step of bfloat16 just below 1 (1/256) is a quarter logit.
    """

    def __init__(self, classes: int, dim: int, scale: float = 64.0, margin: float = 0.0) -> None:
        if classes < 1 or scale <= 0:
            raise DamnatioError(f"A head needs classes and a positive scale, not {classes} classes at scale {scale:g}.")
        super().__init__()
        self.scale = scale
        self.margin = margin
        self.weight = nn.Parameter(torch.empty(classes, dim))  # classes x dim
        nn.init.normal_(self.weight, std=0.01)  # InsightFace's

    def rows(self) -> Tensor:
        """The identities' directions: classes x dim, each of unit length."""
        return F.normalize(at_least_float32(self.weight))

    def cosines(self, embeddings: Tensor) -> Tensor:
        """N x classes cosines of raw embeddings to the rows."""
        with torch.autocast(embeddings.device.type, enabled=False):
            return (F.normalize(at_least_float32(embeddings)) @ self.rows().T).clamp(-1, 1)

    @abstractmethod
    def margins(self, cosines: Tensor, norms: Tensor, labels: Tensor) -> Tensor:
        """The cosines with the margin applied to each image's target; `norms` are those of the raw embeddings."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of N x dim raw embeddings under N labels."""
        norms = at_least_float32(embeddings).norm(dim=1)
        return F.cross_entropy(self.scale * self.margins(self.cosines(embeddings), norms, labels), labels)


def at_least_float32(x: Tensor) -> Tensor:
    """Half precisions become float32; float32 and float64 stay."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def targets_of(cosines: Tensor, labels: Tensor) -> Tensor:
    """cos_{i, y_i} for each image i."""
    return cosines.gather(1, labels.unsqueeze(1)).squeeze(1)


def with_targets(cosines: Tensor, labels: Tensor, values: Tensor) -> Tensor:
    """The cosines with cos_{i, y_i} replaced by values_i."""
    return cosines.scatter(1, labels.unsqueeze(1), values.unsqueeze(1))
