"""CURE, a reconstruction: push forget embeddings from f*'s towards the farthest cluster, and distil the rest."""

from typing import Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from damnatio.heads.base import Head
from damnatio.methods import METHODS
from damnatio.methods.base import Context, ForgetBatch, ForgetSet, Method, MethodSettings, RetainBatch
from damnatio.methods.clusters import farthest, k_means
from damnatio.support.errors import DamnatioError


@METHODS.register("CURE")
class Cure(Method):
    """CURE (Shivam et al., arXiv 2509.19562), reconstructed: neither its code nor its full text is public.

        L_forget = w_repel mean cos(f(x), f*(x)) + w_contrast mean -log softmax_k(<f(x), c_k>/T) at k = phi(l(x))
        L_retain = w_distil mean |f(x) - f*(x)|^2                (+ the head's own loss if `classify`)

    l(x) is the K-means cluster of the image among the forget embeddings; phi(k) is the cluster farthest from k. The
    clusters are computed again every `refresh` epochs from the model in training. phi uses the raw centroids, the
    softmax the normalised ones. The weights, T, K and the interval are our choices. The retain term is CURE's own:
    `retain` does not apply.
    """

    class Settings(MethodSettings):
        repel: float = Field(1.0, ge=0)
        contrast: float = Field(1.0, ge=0)
        distil: float = Field(1.0, ge=0)
        temperature: float = Field(0.1, gt=0)
        clusters: int = Field(0, ge=0, description="K; 0 takes 256, or the number of forget images if it is less")
        refresh: int = Field(5, ge=1, description="epochs between two clusterings")
        classify: bool = Field(False, description="keep the head's retain loss beside the distillation")

    title = "CURE (reconstruction)"
    reference = "Shivam et al., arXiv 2509.19562"
    kind = "generic"
    reconstruction = True
    frozen_model = True
    centroids: Tensor
    pseudo: Tensor

    def __init__(self, settings: Any, forget: ForgetSet, head: Head) -> None:
        super().__init__(settings, forget, head)
        clusters = settings.clusters or min(len(forget), 256)
        if clusters > len(forget):
            raise DamnatioError(
                f"CURE: {clusters} clusters of {len(forget)} forget images are too many: lower 'clusters'."
            )
        if clusters < 2:
            raise DamnatioError(
                "CURE needs at least two clusters, and so at least two forget images, to have a farthest cluster."
            )
        self.register_buffer("centroids", torch.zeros(clusters, head.weight.shape[1]))
        self.register_buffer("pseudo", torch.zeros(len(forget), dtype=torch.long))

    def begin_epoch(self, epoch: int, context: Context) -> None:
        if epoch % self.settings.refresh == 0:
            centroids, members = k_means(context.embed(), len(self.centroids), context.seed + epoch)
            self.pseudo.copy_(farthest(centroids)[members])
            self.centroids.copy_(F.normalize(centroids, dim=1))

    def retain_loss(self, batch: RetainBatch, head: Head) -> Tensor:
        assert batch.frozen is not None
        loss: Tensor = self.settings.distil * (batch.unit - batch.frozen).square().sum(dim=1).mean()
        return loss + self.classification_loss(batch, head) if self.settings.classify else loss

    def forget_loss(self, batch: ForgetBatch, head: Head) -> Tensor:
        assert batch.frozen is not None
        repulsion: Tensor = self.settings.repel * (batch.unit * batch.frozen).sum(dim=1).mean()
        logits = batch.unit @ self.centroids.T / self.settings.temperature
        pseudo = self.pseudo[self.forget.places(batch.images)]
        contrast: Tensor = self.settings.contrast * F.cross_entropy(logits, pseudo)
        return repulsion + contrast
