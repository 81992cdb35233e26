"""CP: push every forget image away from its identity's mean direction."""

import torch
from torch import Tensor

from damnatio.losses.base import ForgetLoss, Given, directions, rows_of, unit


class CentroidPush(ForgetLoss):
    """Centroid push (the paper, III-C):

        L = 1/|F| sum_y 1/|X_y| sum_{x in X_y} (1 + f(x)^T c_y),        c_y = norm(sum_{x in X_y} f(x))

    The centroid is a constant of the step: no gradient flows through it, so the fixed point of each embedding is the
    antipode of the centroid. Without `centroids` it is the mean direction of the identity's images in the batch. With
    them, K x d, it is row y of the table, for identities 0 to K - 1, and `update` computes the table anew, once an
    epoch. One value per identity of the batch, in ascending order.

    >>> float(CentroidPush()(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([7, 7])))
    2.0
    """

    lambda_forget = 10.0
    centroids: Tensor | None

    def __init__(self, centroids: Tensor | None = None, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("centroids", None if centroids is None else unit(centroids.detach()))
        self.updates = 0 if centroids is None else 1

    def update(self, embeddings: Tensor, identities: Tensor, seed: int = 0) -> None:
        if self.centroids is not None:
            units = unit(embeddings).to(self.centroids)
            self.centroids.copy_(directions(units, identities.to(units.device), len(self.centroids)))

    def values(self, given: Given) -> Tensor:
        units = given.unit
        known, codes = torch.unique(given.identities, return_inverse=True)
        if self.centroids is None:
            own = directions(units.detach(), codes, len(known))[codes]
        else:
            own = rows_of(self.centroids.to(units), given.identities, "CentroidPush", "identity")
        pushed = 1 + (units * own).sum(dim=1)
        counts = torch.bincount(codes, minlength=len(known))
        return pushed.new_zeros(len(known)).index_add(0, codes, pushed) / counts
