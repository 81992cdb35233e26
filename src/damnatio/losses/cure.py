"""CURE, a reconstruction: push forget embeddings from f*'s towards the farthest cluster."""

import torch
from torch import Tensor
from torch.nn import functional as F

from damnatio.losses.base import ForgetLoss, Given, rows_of
from damnatio.losses.clusters import farthest, k_means
from damnatio.support.errors import DamnatioError


class Cure(ForgetLoss):
    """The forget term of CURE (Shivam et al., arXiv 2509.19562), reconstructed:

        L = w_repel mean cos(f(x), f*(x)) + w_contrast mean -log softmax_k(<f(x), c_k>/T) at k = phi(l(x))

    l(x) is the K-means cluster of the image among the forget embeddings; phi(k) is the cluster farthest from k. phi
    uses the raw centroids, the softmax the normalised ones. `update` computes the clusters from all forget images: call
    it before the first step, and every `refresh` epochs. The weights, T, K and the interval are our choices. CURE's
    retain term is the squared distance to f*(x): `Distillation()` times two. One value per image.
    """

    needs = frozenset({"images", "before"})
    centroids: Tensor
    pseudo: Tensor

    def __init__(
        self,
        num_images: int,
        dim: int,
        clusters: int = 0,
        refresh: int = 5,
        *,
        repel: float = 1.0,
        contrast: float = 1.0,
        temperature: float = 0.1,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        clusters = clusters or min(num_images, 256)
        if clusters > num_images:
            raise DamnatioError(f"CURE: {clusters} clusters of {num_images} forget images are too many: choose fewer.")
        if clusters < 2:
            raise DamnatioError(
                "CURE needs at least two clusters, and so at least two forget images, to have a farthest cluster."
            )
        self.repel, self.contrast, self.temperature, self.updates = repel, contrast, temperature, refresh
        self.register_buffer("centroids", torch.zeros(clusters, dim))
        self.register_buffer("pseudo", torch.full((num_images,), -1))

    def update(self, embeddings: Tensor, identities: Tensor, seed: int = 0) -> None:
        if len(embeddings) != len(self.pseudo):
            raise DamnatioError(
                f"Cure.update wants all {len(self.pseudo)} forget images, in the order of their places, not "
                f"{len(embeddings)}."
            )
        centroids, members = k_means(F.normalize(embeddings, dim=1), len(self.centroids), seed)
        self.pseudo.copy_(farthest(centroids)[members])
        self.centroids.copy_(F.normalize(centroids, dim=1))

    def values(self, given: Given) -> Tensor:
        clusters = rows_of(self.pseudo, given.images, "Cure", "image")
        if len(clusters) and int(clusters[0]) < 0:
            raise DamnatioError(
                "Cure has no clusters yet: before the first step, call update(embeddings, identities) with all forget "
                "images."
            )
        units = given.unit
        repulsion = (units * given.before).sum(dim=1)
        logits = units @ self.centroids.to(units).T / self.temperature
        return self.repel * repulsion + self.contrast * F.cross_entropy(logits, clusters, reduction="none")
