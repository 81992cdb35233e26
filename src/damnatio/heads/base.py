"""The base of all heads: one unit class vector per identity, the cosines to them, and the softmax with a margin.

In a job of several processes each of them holds some rows of the class matrix, and computes the cosines to these. A
caller need not know: the loss is that of the whole matrix, and `class_vectors` and `cosines` bring all rows together.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.heads.drawing import drawn
from damnatio.heads.softmax import cross_entropy
from damnatio.support import processes
from damnatio.support.errors import DamnatioError
from damnatio.support.exchange import gathered, shared_out

Margins = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(cosines, norms of the raw embeddings, columns of the targets) -> the cosines with a margin at the targets"""


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
        self.classes = classes
        self.logit_scale = logit_scale
        self.margin = margin
        self.rows = slice(0, classes)
        """the rows of the class matrix that this process holds"""
        self.partial_fc: float | None = None
        """the share of the class vectors that take part in a step beside those of its images; None: all"""
        self._step = 0, 0
        self.weight = nn.Parameter(torch.empty(classes, dim))  # rows x dim
        nn.init.normal_(self.weight, std=0.01)  # InsightFace's

    def share_out(self) -> None:
        """Keep this process's share of the rows. A process alone keeps all."""
        if processes.size() > self.classes:
            raise DamnatioError(
                f"{self.classes} class vectors cannot be shared by {processes.size()} processes: start fewer."
            )
        if processes.size() > 1 and not self.shared:
            self.rows = processes.share_of(self.classes)
            self.weight = nn.Parameter(self.weight.detach()[self.rows].clone())

    @property
    def shared(self) -> bool:
        """Whether other processes hold the other rows."""
        return self.rows.stop - self.rows.start < self.classes

    def begin_step(self, seed: int, step: int) -> None:
        """Say which step it is: the class vectors that take part are drawn from both numbers."""
        self._step = seed, step

    def class_vectors(self) -> Tensor:
        """The directions of the identities: classes x dim, each of unit length."""
        whole: Tensor = self.weight
        if self.shared:
            whole = gathered(whole, torch.arange(self.rows.start, self.rows.stop, device=whole.device), self.classes)
        return F.normalize(at_least_float32(whole))

    def cosines(self, embeddings: Tensor) -> Tensor:
        """The N x classes cosines of raw embeddings to the class vectors. Of a large head they take much memory:
        `softmax_loss` needs no process to hold them all."""
        return _cosines(embeddings, self.class_vectors())

    @abstractmethod
    def margins(self, cosines: Tensor, norms: Tensor, labels: Tensor) -> Tensor:
        """The cosines, with the margin applied at each image's label, a column. `norms` are the norms of the raw
        embeddings. The label -1 stands for a column that is not here."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of N x dim raw embeddings under N labels."""
        return self.softmax_loss(embeddings, labels)

    def softmax_loss(
        self,
        embeddings: Tensor,
        targets: Tensor,
        more: Tensor | None = None,
        *,
        margins: Margins | None = None,
        logit_scale: float | None = None,
        reduction: str = "mean",
    ) -> Tensor:
        """The loss over the class vectors and over vectors of the caller's own behind them. `more` has the
        N x K cosines to these, and the target `classes` + k is the k-th of them. Margin and logit scale are the head's
        unless the caller has others; `reduction` is torch's."""
        labels = torch.where(targets < self.classes, targets, -1)
        weight, places = self._taking_part(labels)
        own = len(weight)
        # each process finds the gradient by its own rows, and the whole gradient is their sum
        x = shared_out(embeddings) if self.shared else embeddings
        if more is not None:
            places = torch.where(targets < self.classes, places, targets - self.classes + own)
        return margin_softmax(
            x,
            weight,
            places,
            more,
            margins=margins or self.margins,
            logit_scale=logit_scale or self.logit_scale,
            shared=self.shared,
            reduction=reduction,
        )

    def _taking_part(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The rows here that take part in this step, and the place of each label among them; -1 if it is not here."""
        here = (labels >= self.rows.start) & (labels < self.rows.stop)
        places = torch.where(here, labels - self.rows.start, -1)
        if self.partial_fc is None or not self.training:
            return self.weight, places
        rows = drawn(self.partial_fc, self._step, self.rows, places[here])
        return self.weight[rows], torch.where(here, torch.searchsorted(rows, places.clamp_min(0)), -1)


def margin_softmax(
    raw: Tensor,
    weight: Tensor,
    places: Tensor,
    more: Tensor | None = None,
    *,
    margins: Margins | None = None,
    logit_scale: float = 64.0,
    shared: bool = False,
    reduction: str = "none",
) -> Tensor:
    """-log softmax_j(s * margins(cos)_ij) at the column `places`_i, over the class vectors `weight` and behind them the
    vectors to which `more` has the cosines. If the class vectors are `shared`, other processes hold the others."""
    cosines = _cosines(raw, F.normalize(at_least_float32(weight)))
    if more is not None:
        cosines = torch.cat([cosines, more], dim=1)
    margined = margins(cosines, at_least_float32(raw).norm(dim=1), places) if margins else cosines
    return cross_entropy(logit_scale * margined, places, len(weight), shared, reduction)


def _cosines(embeddings: Tensor, vectors: Tensor) -> Tensor:
    with torch.autocast(embeddings.device.type, enabled=False):
        return (F.normalize(at_least_float32(embeddings)) @ vectors.T).clamp(-1, 1)


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision becomes float32; float32 and float64 stay."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def targets_of(cosines: Tensor, labels: Tensor) -> Tensor:
    """cos_{i, y_i} for each image i; anything where the label is -1."""
    return cosines.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1)


def with_targets(cosines: Tensor, labels: Tensor, values: Tensor) -> Tensor:
    """The cosines with cos_{i, y_i} replaced by values_i, but where the label is -1."""
    kept = torch.where(labels >= 0, values, targets_of(cosines, labels))
    return cosines.scatter(1, labels.clamp_min(0).unsqueeze(1), kept.unsqueeze(1))
