"""Frames: the greedy rule restated naively, and the inner products that the closed form promises."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from damnatio.methods.frames import ClosedFrame, greedy_frame
from damnatio.support.errors import DamnatioError


def test_the_greedy_frame_is_the_greedy_choice() -> None:
    others = F.normalize(torch.randn(20, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    frame = greedy_frame(6, others, candidates=40, seed=5)
    pool = F.normalize(torch.randn(46, 8, generator=torch.Generator().manual_seed(5)), dim=1)
    placed: list[torch.Tensor] = []
    for target in frame:
        worst = [max(float(c.double() @ other.double()) for other in [*others, *placed]) for c in pool]
        free = [i for i, c in enumerate(pool) if not any(torch.equal(c, p) for p in placed)]
        (chosen,) = [i for i in free if torch.equal(pool[i], target)]
        assert worst[chosen] <= min(worst[i] for i in free) + 1e-6, "the best up to the rounding of a cosine"
        placed.append(target)


def test_the_greedy_frame_is_unit_reproducible_and_less_coherent_than_chance() -> None:
    others = F.normalize(torch.randn(50, 64, generator=torch.Generator().manual_seed(0)), dim=1)
    frame, again, other = (greedy_frame(40, others, 2000, seed) for seed in (1, 1, 2))
    assert torch.equal(frame, again)
    assert not torch.equal(frame, other)
    assert torch.allclose(frame.norm(dim=1), torch.ones(40))
    chance = F.normalize(torch.randn(40, 64, generator=torch.Generator().manual_seed(9)), dim=1)
    assert (frame @ others.T).max() < 0.8 * (chance @ others.T).max()


@pytest.mark.parametrize(
    ("dim", "count", "coherence"), [(8, 64, 4 / 8), (16, 128, 4 / 16), (32, 1024, 8 / 32), (64, 2048, 8 / 64)]
)
def test_all_inner_products_of_the_closed_frame_are_zero_or_the_coherence(
    dim: int, count: int, coherence: float
) -> None:
    """To the last bit: a target's entries are whole numbers over d^2, and float64 holds their products and sums."""
    frame = ClosedFrame(dim, seed=1)
    assert (len(frame), frame.coherence) == (count, coherence)
    vectors = frame(torch.arange(count)).double()
    assert torch.equal(vectors * dim**2, (vectors * dim**2).round())
    gram = vectors @ vectors.T
    assert torch.equal(gram.diagonal(), torch.ones(count, dtype=torch.float64))
    off = gram[~torch.eye(count, dtype=torch.bool)].abs()
    assert bool(((off == 0) | (off == coherence)).all())


def test_the_closed_frame_at_the_papers_dimension() -> None:
    """At d = 512: 262,144 targets of coherence 0.0625."""
    frame = ClosedFrame(512, seed=1)
    assert (len(frame), frame.coherence) == (262_144, 0.0625)
    some = torch.randperm(len(frame), generator=torch.Generator().manual_seed(0))[:400]
    vectors = frame(some).double()
    off = (vectors @ vectors.T - torch.eye(len(some), dtype=torch.float64)).abs()
    assert off.max() == 0.0625


@pytest.mark.parametrize("dim", [64, 128, 512])
def test_the_entries_of_a_target_are_spread_as_those_of_a_random_direction(dim: int) -> None:
    """No target stays near an axis or a corner of the cube, nor do the first ones, whose signs are the most regular."""
    frame = ClosedFrame(dim, seed=1)
    entries = frame(torch.arange(0, len(frame), len(frame) // 2048)) * dim**0.5
    first = frame(torch.arange(dim)) * dim**0.5
    for normal in (entries, first):
        assert float(normal.pow(4).mean()) == pytest.approx(3, abs=0.2)
        assert float(normal.pow(4).mean(dim=1).max()) < 10  # an axis has d, a corner 1
        assert float(normal.pow(4).mean(dim=1).min()) > 1.3
        assert float(normal.abs().max()) < 6.5
        assert float(normal.mean()) == pytest.approx(0, abs=0.05)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("dim", [32, 64, 512])
def test_a_target_depends_on_its_index_and_the_seed_alone(dim: int, threads: None) -> None:
    frame = ClosedFrame(dim, seed=1)
    indices = torch.randint(len(frame), (1500,), generator=torch.Generator().manual_seed(0))
    together = frame(indices)
    for count in (1, 2):
        torch.set_num_threads(count)
        again = ClosedFrame(dim, seed=1)
        assert torch.equal(again(indices), together)
        assert torch.equal(again(indices.flip(0)).flip(0), together)
        for size in (1, 7, 64):
            assert torch.equal(again(indices[40 : 40 + size]), together[40 : 40 + size])
    assert not torch.allclose(ClosedFrame(dim, seed=2)(indices[:9]), together[:9])


@pytest.mark.parametrize(("dim", "seed"), [(8, 1), (16, 7), (128, 2**63 - 1)])
def test_a_target_is_the_rotation_of_its_signs_in_whole_numbers(dim: int, seed: int) -> None:
    """(H D_3)(H D_2)(H D_1) restated with Python's integers, entry by entry."""
    frame = ClosedFrame(dim, seed)
    diagonals = np.random.PCG64(seed).random_raw(3 * dim).reshape(3, dim).tolist()
    indices = [0, 1, dim, len(frame) // 2 + 3, len(frame) - 1]
    signs = (1 - 2 * frame._bits(torch.tensor(indices))).tolist()
    for target, start in zip(frame(torch.tensor(indices)), signs, strict=True):
        entries = start
        for words in diagonals:
            signed = [-x if word >> 63 else x for x, word in zip(entries, words, strict=True)]
            entries = [sum(-x if (i & j).bit_count() % 2 else x for j, x in enumerate(signed)) for i in range(dim)]
        assert [float(x) * dim**2 for x in target] == entries


def test_targets_are_these_numbers_on_every_machine() -> None:
    """A change here changes what every run with `frame: closed` trains towards."""
    targets = ClosedFrame(16, seed=1)(torch.tensor([0, 7, 100])) * 4
    assert targets.tolist() == [
        [0, 0, -1, -1, -1, -1, 0, 0, -1, 1, 0, -2, 0, 2, -1, 1],
        [1, 1, 0, 0, 0, 0, 1, 1, 0, -2, 1, -1, 1, -1, 0, 2],
        [0, 0, -1, 1, -1, 1, 0, 0, -1, -1, 2, 0, 0, 2, 1, 1],
    ]


@pytest.mark.parametrize("dim", [4, 100, 513])
def test_other_dimensions_are_refused(dim: int) -> None:
    with pytest.raises(DamnatioError, match="power of two"):
        ClosedFrame(dim, seed=1)
