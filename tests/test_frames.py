"""Frames: the greedy rule restated naively, and the inner products that the closed form promises."""

import pytest
import torch
from torch.nn import functional as F

from damnatio.errors import DamnatioError
from damnatio.frames import ClosedFrame, greedy_frame


def test_the_greedy_frame_is_the_greedy_choice() -> None:
    rows = F.normalize(torch.randn(20, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    frame = greedy_frame(6, rows, candidates=40, seed=5)
    pool = F.normalize(torch.randn(46, 8, generator=torch.Generator().manual_seed(5)), dim=1)
    placed: list[torch.Tensor] = []
    for target in frame:
        worst = [max(float(c @ other) for other in [*rows, *placed]) for c in pool]
        taken = [any(torch.equal(c, p) for p in placed) for c in pool]
        best = min((w, i) for i, (w, t) in enumerate(zip(worst, taken, strict=True)) if not t)[1]
        assert torch.equal(pool[best], target)
        placed.append(target)


def test_the_greedy_frame_is_unit_reproducible_and_less_coherent_than_chance() -> None:
    rows = F.normalize(torch.randn(50, 64, generator=torch.Generator().manual_seed(0)), dim=1)
    frame, again, other = (greedy_frame(40, rows, 2000, seed) for seed in (1, 1, 2))
    assert torch.equal(frame, again)
    assert not torch.equal(frame, other)
    assert torch.allclose(frame.norm(dim=1), torch.ones(40))
    chance = F.normalize(torch.randn(40, 64, generator=torch.Generator().manual_seed(9)), dim=1)
    assert (frame @ rows.T).max() < 0.8 * (chance @ rows.T).max()


@pytest.mark.parametrize(
    ("dim", "count", "coherence"), [(8, 64, 4 / 8), (16, 128, 4 / 16), (32, 1024, 8 / 32), (64, 2048, 8 / 64)]
)
def test_all_inner_products_of_the_closed_frame_are_zero_or_the_coherence(
    dim: int, count: int, coherence: float
) -> None:
    frame = ClosedFrame(dim, seed=1)
    assert (len(frame), frame.coherence) == (count, coherence)
    vectors = frame(torch.arange(count)).double()
    gram = vectors @ vectors.T
    assert torch.allclose(gram.diagonal(), torch.ones(count, dtype=torch.float64), atol=1e-6)
    off = gram[~torch.eye(count, dtype=torch.bool)].abs()
    assert bool(((off < 1e-5) | ((off - coherence).abs() < 1e-5)).all())


def test_the_closed_frame_at_the_papers_dimension() -> None:
    """At d = 512: 262,144 targets of coherence 0.0625."""
    frame = ClosedFrame(512, seed=1)
    assert (len(frame), frame.coherence) == (262_144, 0.0625)
    some = torch.randperm(len(frame), generator=torch.Generator().manual_seed(0))[:400]
    vectors = frame(some).double()
    off = (vectors @ vectors.T - torch.eye(len(some), dtype=torch.float64)).abs()
    assert off.max() < 0.0625 + 1e-6


def test_a_target_depends_on_its_index_and_the_seed_alone() -> None:
    frame = ClosedFrame(32, seed=1)
    assert torch.equal(frame(torch.tensor([7, 900]))[1], frame(torch.tensor([900]))[0])
    assert not torch.allclose(ClosedFrame(32, seed=2)(torch.tensor([7])), frame(torch.tensor([7])))


@pytest.mark.parametrize("dim", [4, 100, 513])
def test_other_dimensions_are_refused(dim: int) -> None:
    with pytest.raises(DamnatioError, match="power of two"):
        ClosedFrame(dim, seed=1)
