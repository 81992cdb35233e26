"""What all forget losses share: one call, checks that end in a sentence, unit vectors in float32, and the reduction."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.heads.base import Head, Margins, at_least_float32, margin_softmax
from damnatio.support.errors import DamnatioError

REDUCTIONS = "mean", "sum", "none"
PLACES = "the place of each image in the forget set, 0 to n - 1, as damnatio.data.Numbered numbers them"
MEANINGS = {
    "images": PLACES,
    "before": "f*(x) of the same images under the original model, row by row",
    "head": "the class vectors of the other people, [classes, d], or a module with such a .weight",
}


@dataclass(frozen=True)
class Given:
    """What a call was given, checked. What the loss does not need may be missing, and is NOTHING then."""

    raw: Tensor
    identities: Tensor
    images: Tensor
    before: Tensor
    """of unit length"""
    head: Tensor | nn.Module

    @property
    def unit(self) -> Tensor:
        """f(x): N x d, of unit length, in float32 or float64."""
        return F.normalize(self.raw, dim=1)


NOTHING = torch.empty(0)


class ForgetLoss(nn.Module, ABC):
    """A term that makes the identities of a batch unlinkable.

    A loss owns only tensors of its own, as parameters or buffers: `state_dict`, `to` and an optimiser treat it as any
    module. What belongs to the batch or to the network comes with each call.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    """which of `images`, `before` and `head` each call must have"""
    lambda_retain: ClassVar[float] = 1.0
    lambda_forget: ClassVar[float] = 1.0
    """how strongly the paper, or the method's own, weighs a retain term and this one"""
    updates: int = 0
    """after how many epochs `update` is due again; 0: never"""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in REDUCTIONS:
            raise DamnatioError(f"reduction is one of {', '.join(REDUCTIONS)}, not {reduction!r}.")
        self.reduction = reduction

    def forward(
        self,
        embeddings: Tensor,
        identities: Tensor,
        images: Tensor | None = None,
        *,
        before: Tensor | None = None,
        head: Tensor | nn.Module | None = None,
    ) -> Tensor:
        """The loss of a batch: a scalar, or with `reduction="none"` one value per term of the loss.

        embeddings: N x d, raw; they are normalised here, in float32 also under autocast. identities: N whole numbers.
        images: N places in the forget set. before: N x d, raw or not. head: classes x d, or a module that has them.
        """
        given = {"images": images, "before": before, "head": head}
        for name in sorted(self.needs):
            if given[name] is None:
                raise DamnatioError(f"{type(self).__name__} needs {name}=: {MEANINGS[name]}.")
        if embeddings.ndim != 2 or len(embeddings) != len(identities):
            raise DamnatioError(
                f"{type(self).__name__} wants embeddings of shape [N, d] and N identities, not "
                f"{list(embeddings.shape)} and {list(identities.shape)}."
            )
        own = next((tensor for tensor in (*self.parameters(), *self.buffers())), None)
        if own is not None and own.device != embeddings.device:
            raise DamnatioError(
                f"{type(self).__name__} is on {own.device} and the embeddings are on {embeddings.device}: "
                f'call loss.to("{embeddings.device}").'
            )
        with torch.autocast(embeddings.device.type, enabled=False):
            known = NOTHING if before is None else unit(before)
            places = NOTHING if images is None else images
            raw = at_least_float32(embeddings)
            return self.reduced(self.values(Given(raw, identities, places, known, NOTHING if head is None else head)))

    @abstractmethod
    def values(self, given: Given) -> Tensor:
        """One value per term."""

    def update(self, embeddings: Tensor, identities: Tensor, seed: int = 0) -> None:
        """Renew what is computed from all forget images: M x d embeddings under the present network, in the order of
        their places, and their identities. A loss whose `updates` is 0 has nothing to renew."""

    def reduced(self, values: Tensor) -> Tensor:
        if self.reduction == "none":
            return values
        # the mean of nothing is 0, with a gradient of zeros: a batch without a pair stops no training
        return values.mean() if self.reduction == "mean" and len(values) else values.sum()


def unit(x: Tensor) -> Tensor:
    """Rows of unit length, in float32 or float64."""
    return F.normalize(at_least_float32(x), dim=1)


def mean_directions(before: Tensor, identities: Tensor) -> Tensor:
    """The mean direction of each identity, K x d for codes 0 to K - 1: norm(sum of its unit vectors).

    >>> mean_directions(torch.tensor([[3.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0]))
    tensor([[0.7071, 0.7071]])
    """
    return directions(unit(before), identities, int(identities.max()) + 1)


def directions(units: Tensor, codes: Tensor, count: int) -> Tensor:
    """norm(sum of the unit vectors) of each code; zero for a code without vectors."""
    return F.normalize(units.new_zeros(count, units.shape[1]).index_add(0, codes, units), dim=1)


def rows_of(table: Tensor, codes: Tensor, owner: str, what: str) -> Tensor:
    """The rows of a table by code; a code that it does not have is an error."""
    if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(table):
        wrong = codes[(codes < 0) | (codes >= len(table))][0]
        raise DamnatioError(f"{owner}: {what} {int(wrong)} is none of 0 to {len(table) - 1}.")
    return table[codes]


def class_softmax(
    head: Tensor | nn.Module,
    raw: Tensor,
    targets: Tensor,
    more: Tensor,
    *,
    margins: Margins | None = None,
    logit_scale: float | None = None,
) -> Tensor:
    """One value per image: -log softmax over the class vectors of `head` and, behind them, the vectors whose cosines
    are `more`. `targets` count from the first of `more`. A head of ours may be shared out among processes."""
    if isinstance(head, Head):
        places = head.classes + targets
        return head.softmax_loss(raw, places, more, margins=margins, logit_scale=logit_scale, reduction="none")
    vectors = getattr(head, "weight", None) if isinstance(head, nn.Module) else head
    if not isinstance(vectors, Tensor) or vectors.ndim != 2 or vectors.shape[1] != raw.shape[1]:
        shape = list(vectors.shape) if isinstance(vectors, Tensor) else "no tensor .weight"
        turned = " Give head.T." if isinstance(vectors, Tensor) and vectors.shape[:1] == raw.shape[1:] else ""
        raise DamnatioError(f"head wants class vectors of shape [classes, {raw.shape[1]}], and has {shape}.{turned}")
    return margin_softmax(raw, vectors, targets + len(vectors), more, margins=margins, logit_scale=logit_scale or 64.0)
