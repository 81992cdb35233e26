"""The base of all heads: one unit class vector per identity, the cosines to them, and the softmax with a margin."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.support.errors import DamnatioError


class Head(nn.Module, ABC):
    """Margin softmax over one unit class vector per identity.

        cos_ij = clamp(x_i / |x_i| . w_j / |w_j|, -1, 1)
        L      = mean_i -log softmax_j(s * margins(cos)_ij) at j = y_i

    `logit_scale` is the paper's s. A subclass defines `margins`, which makes the target's cosine harder to reach.
    Everything runs in float32, or in float64 if the input is float64, even under autocast: at s = 64 a step of bfloat16
    just below 1 (1/256) is a quarter of a logit.
    """

    def __init__(self, classes: int, dim: int, logit_scale: float = 64.0, margin: float = 0.0) -> None:
        if classes < 1 or logit_scale <= 0:
            raise DamnatioError(
                f"A head needs classes and a positive logit_scale, not {classes} classes and {logit_scale:g}."
            )
        super().__init__()
        self.logit_scale = logit_scale
        self.margin = margin
        self.weight = nn.Parameter(torch.empty(classes, dim))  # classes x dim
        nn.init.normal_(self.weight, std=0.01)  # InsightFace's

    def class_vectors(self) -> Tensor:
        """The directions of the identities: classes x dim, each of unit length."""
        return F.normalize(at_least_float32(self.weight))

    def cosines(self, embeddings: Tensor) -> Tensor:
        """The N x classes cosines of raw embeddings to the class vectors."""
        with torch.autocast(embeddings.device.type, enabled=False):
            return (F.normalize(at_least_float32(embeddings)) @ self.class_vectors().T).clamp(-1, 1)

    @abstractmethod
    def margins(self, cosines: Tensor, norms: Tensor, labels: Tensor) -> Tensor:
        """The cosines, with the margin applied at each image's label. `norms` are the norms of the raw embeddings."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of N x dim raw embeddings under N labels."""
        norms = at_least_float32(embeddings).norm(dim=1)
        return F.cross_entropy(self.logit_scale * self.margins(self.cosines(embeddings), norms, labels), labels)


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision becomes float32; float32 and float64 stay."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def targets_of(cosines: Tensor, labels: Tensor) -> Tensor:
    """cos_{i, y_i} for each image i."""
    return cosines.gather(1, labels.unsqueeze(1)).squeeze(1)


def with_targets(cosines: Tensor, labels: Tensor, values: Tensor) -> Tensor:
    """The cosines with cos_{i, y_i} replaced by values_i."""
    return cosines.scatter(1, labels.unsqueeze(1), values.unsqueeze(1))
