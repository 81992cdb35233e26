"""CURE as reconstructed: its terms, and what it refuses."""

import math

import pytest
import torch
from torch.nn import functional as F

from damnatio.methods.base import Context, RetainBatch
from damnatio.methods.cure import CURE
from damnatio.support.errors import DamnatioError
from tests.methods.world import batch_of, method_named


def test_the_forget_term_is_repulsion_plus_contrast_by_loops() -> None:
    batch = batch_of([4, 4], seed=1)
    method, head = method_named("CURE", batch, clusters=3, temperature=0.2, repel=0.7, contrast=1.3)
    assert isinstance(method, CURE)
    method.begin_epoch(0, Context(method.forget, head, 0, lambda: batch.unit, lambda: batch.unit))
    assert batch.frozen is not None
    repulsion = sum(float(batch.unit[i] @ batch.frozen[i]) for i in range(8)) / 8
    contrast = 0.0
    for i in range(8):
        logits = [float(batch.unit[i] @ c) / 0.2 for c in method.loss.centroids]
        contrast += math.log(sum(math.exp(v) for v in logits)) - logits[int(method.loss.pseudo[i])]
    expected = 0.7 * repulsion + 1.3 * contrast / 8
    assert float(method.forget_loss(batch, head)) == pytest.approx(expected, abs=1e-9)


def test_an_image_is_sent_to_the_cluster_farthest_from_its_own() -> None:
    """Two tight clusters: each image's pseudo-label is the other one."""
    near = torch.tensor([[1.0, 0, 0], [0, 1.0, 0]], dtype=torch.float64)
    units = near.repeat_interleave(4, dim=0) + 0.01 * torch.arange(8, dtype=torch.float64)[:, None] / 8
    batch = batch_of([4, 4], units=units)
    method, head = method_named("CURE", batch, clusters=2)
    assert isinstance(method, CURE)
    method.begin_epoch(0, Context(method.forget, head, 0, lambda: batch.unit, lambda: batch.unit))
    own = (batch.unit @ method.loss.centroids.T).argmax(dim=1)
    assert torch.equal(method.loss.pseudo, 1 - own)


def test_the_retain_term_is_the_squared_distance_to_the_original() -> None:
    batch = batch_of([4, 3], seed=2)
    method, head = method_named("CURE", batch)
    assert batch.frozen is not None
    retain = RetainBatch(batch.raw, batch.frozen, torch.arange(7))
    expected = (2 - 2 * (batch.unit * batch.frozen).sum(dim=1)).mean()
    assert float(method.retain_loss(retain, head)) == pytest.approx(float(expected), abs=1e-12)
    with_head, _ = method_named("CURE", batch, classify=True)
    both = float(expected) + float(head(batch.raw, retain.labels).detach())
    assert float(with_head.retain_loss(retain, head).detach()) == pytest.approx(both, abs=1e-9)


def test_clusters_are_refreshed_at_the_interval() -> None:
    batch = batch_of([4, 4], seed=1)
    method, head = method_named("CURE", batch, clusters=2, refresh=2)
    assert isinstance(method, CURE)
    asked = []

    def embed() -> torch.Tensor:
        asked.append(True)
        return F.normalize(batch.raw + len(asked), dim=1)

    context = Context(method.forget, head, 0, embed, embed)
    for epoch in range(4):
        method.begin_epoch(epoch, context)
    assert len(asked) == 2


def test_impossible_clusterings_are_refused() -> None:
    batch = batch_of([2])
    with pytest.raises(DamnatioError, match="5 clusters of 2 forget images"):
        method_named("CURE", batch, clusters=5)
    with pytest.raises(DamnatioError, match="at least two clusters"):
        method_named("CURE", batch, clusters=1)
