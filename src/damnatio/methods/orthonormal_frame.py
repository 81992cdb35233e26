"""OF: give each forget image a direction of its own, far from everybody and from each other, and align it there."""

from typing import Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from damnatio.heads.base import Head
from damnatio.methods import METHODS
from damnatio.methods.base import Context, ForgetBatch, ForgetSet, Method, MethodSettings


@METHODS.register("OF")
class OrthonormalFrame(Method):
    """Orthonormal frame (the paper, III-C):

        L = w/N sum_i (1 - <f(x_i), U_i>)

    U_i are unit targets, one an image, fixed before training by greedy furthest-point sampling: each is the random
    candidate whose largest cosine to the retain rows and the targets placed before it is least. w is the factor by
    which the forget term is scaled (IV-B).
    """

    class Settings(MethodSettings):
        lr: float = Field(5e-3, gt=0)  # IV-B
        weight: float = Field(100.0, gt=0, description="the factor w of the forget term (IV-B)")
        candidates: int = Field(4096, ge=1, description="random candidates for the first target; see `greedy_frame`")

    title = "Orthonormal frame"
    reference = "the paper, III-C"
    kind = "proposed"
    targets: Tensor

    def __init__(self, settings: Any, forget: ForgetSet, head: Head) -> None:
        super().__init__(settings, forget, head)
        self.register_buffer("targets", torch.zeros(len(forget), head.weight.shape[1]))

    def prepare(self, context: Context) -> None:
        rows = context.head.rows().detach()
        frame = greedy_frame(len(self.targets), rows, self.settings.candidates, context.seed)
        self.targets.copy_(frame)

    def forget_loss(self, batch: ForgetBatch, head: Head) -> Tensor:
        targets = self.targets[self.forget.places(batch.images)]
        weight: float = self.settings.weight
        return weight * (1 - (batch.unit * targets).sum(dim=1)).mean()


def greedy_frame(count: int, rows: Tensor, candidates: int, seed: int) -> Tensor:
    """`count` unit vectors, each the candidate whose largest cosine to `rows` and to those chosen before it is least.

    The candidates are drawn once (`candidates` of them and one more for each target, since a chosen one is used up),
    and each keeps the largest cosine seen so far: one pass of the candidates against the rows, then one matrix-vector
    product a target.
    """
    generator = torch.Generator().manual_seed(seed)
    pool = F.normalize(torch.randn(candidates + count, rows.shape[1], generator=generator), dim=1)
    worst = torch.full((len(pool),), -torch.inf)
    for block in torch.split(rows.to(pool), 8192):
        worst = torch.maximum(worst, (pool @ block.T).amax(dim=1))
    chosen = torch.empty(count, dtype=torch.long)
    for i in range(count):
        best = worst.argmin()
        chosen[i] = best
        worst = torch.maximum(worst, pool @ pool[best])
        worst[best] = torch.inf
    return pool[chosen]
