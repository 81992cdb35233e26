"""EC: make each forget image a class of its own under the margin head."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from damnatio.heads.cosface import margin_of
from damnatio.losses.base import ForgetLoss, Given, class_softmax, rows_of


class ExtendedCosFace(ForgetLoss):
    """Extended CosFace with one fake class per image (the paper, III-C):

        L = -sum_i log pi_{c_i}(x_i; W),
        pi_t(x; W) = exp(s_f (<f(x), W_t> - m_f)) / sum_k exp(s_f (<f(x), W_k> - m_f 1[k = t]))

    W holds the class vectors of the head and one trained vector per image, drawn at random: give the optimiser
    `loss.parameters()` too. One value per image; the mean is over the images of the batch, the paper's sum is
    `reduction="sum"`.

    >>> loss = ExtendedCosFace(num_images=2, dim=4)
    >>> loss(torch.eye(4)[:2], torch.tensor([0, 0]), torch.tensor([0, 1]), head=torch.eye(4)).shape
    torch.Size([])
    """

    needs = frozenset({"images", "head"})

    def __init__(
        self,
        num_images: int,
        dim: int,
        margin: float = 0.65,
        logit_scale: float = 64.0,
        *,
        reduction: str = "mean",
        seed: int = 0,
    ) -> None:
        super().__init__(reduction)
        self.margin, self.logit_scale = margin, logit_scale
        self.vectors = nn.Parameter(torch.zeros(num_images, dim))
        self.draw(seed)

    @torch.no_grad()
    def draw(self, seed: int) -> None:
        """Draw the vectors of the images anew."""
        generator = torch.Generator().manual_seed(seed)
        self.vectors.copy_(F.normalize(torch.randn(self.vectors.shape, generator=generator), dim=1))

    def values(self, given: Given) -> Tensor:
        rows_of(self.vectors, given.images, "ExtendedCosFace", "image")
        more = (given.unit @ F.normalize(self.vectors, dim=1).T).clamp(-1, 1)
        own = margin_of(self.margin)
        return class_softmax(given.head, given.raw, given.images, more, margins=own, logit_scale=self.logit_scale)
