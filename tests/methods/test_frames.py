"""Frames: the greedy rule restated naively, and the inner products that the closed form promises."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from damnatio import frames
from damnatio.frames import Closed, greedy
from damnatio.support.errors import DamnatioError


def drawn(target: int, candidates: int, dim: int, seed: int) -> torch.Tensor:
    """The candidates of a target, by itself."""
    normal = np.random.default_rng([seed, 12, target]).standard_normal((candidates, dim), dtype=np.float32)
    return F.normalize(torch.from_numpy(normal), dim=1)


def unit(count: int, dim: int, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(count, dim, generator=torch.Generator().manual_seed(seed)), dim=1)


@pytest.mark.parametrize("held", [1, 40, 120, 65_536])
def test_the_greedy_frame_is_the_greedy_choice(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each target by loops over all that was there before it, with blocks of one, three and all targets."""
    monkeypatch.setattr(frames, "DRAWN", held)
    monkeypatch.setattr(frames, "ROWS", 30)
    monkeypatch.setattr(frames, "COLUMNS", 7)
    others = unit(20, 8)
    frame = greedy(7, others, candidates=40, seed=5)
    placed: list[torch.Tensor] = []
    for i, target in enumerate(frame):
        pool = drawn(i, 40, 8, 5)
        worst = [max(float(c.double() @ other.double()) for other in [*others, *placed]) for c in pool]
        (chosen,) = [k for k, c in enumerate(pool) if torch.equal(c, target)]
        assert worst[chosen] <= min(worst) + 1e-6, "the best up to the rounding of a cosine"
        placed.append(target)


def test_class_vectors_may_come_in_blocks() -> None:
    others = unit(50, 16)
    assert torch.equal(greedy(9, iter(torch.split(others, 20)), 30, 1), greedy(9, others, 30, 1))
    assert torch.equal(greedy(9, others[:0], 30, 1)[0], drawn(0, 30, 16, 1)[0]), "nothing to keep away from yet"


def test_the_greedy_frame_is_unit_reproducible_and_less_coherent_than_chance() -> None:
    others = unit(50, 64)
    frame, again, other = (greedy(40, others, 200, seed) for seed in (1, 1, 2))
    assert torch.equal(frame, again)
    assert not torch.equal(frame, other)
    assert torch.allclose(frame.norm(dim=1), torch.ones(40))
    assert (frame @ others.T).max() < 0.8 * (unit(40, 64, 9) @ others.T).max()


def highest(frame: torch.Tensor, others: torch.Tensor) -> float:
    """The mean over the targets of their highest cosine to all others."""
    cosines = frame @ torch.cat([others, frame]).T
    cosines[:, len(others) :].fill_diagonal_(-1)
    return float(cosines.amax(dim=1).mean())


def test_fresh_candidates_serve_the_last_targets_as_the_first() -> None:
    """A pool that 86 % of is used up leaves the last targets what nobody wanted: hardly better than random."""
    others = unit(300, 64)
    count = 200
    shared = list(unit(round(count / 0.86), 64, 3))
    used: list[torch.Tensor] = []
    for _ in range(count):
        worst = (torch.stack(shared) @ torch.stack([*others, *used]).T).amax(dim=1)
        used.append(shared.pop(int(worst.argmin())))
    fresh, pool, random = (
        highest(frame, others) for frame in (greedy(count, others, 64, 1), torch.stack(used), unit(count, 64, 4))
    )
    assert random - pool < 0.25 * (random - fresh)


def test_a_frame_that_was_stopped_goes_on_to_the_same_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "DRAWN", 100)  # blocks of five targets
    others = unit(40, 16)
    whole = greedy(23, others, 20, 3)
    asked: list[int] = []
    draw = frames._drawn

    def until(stop: int) -> Callable[..., torch.Tensor]:
        def drawing(targets: slice, *rest: int) -> torch.Tensor:
            if targets.start == stop:
                raise KeyboardInterrupt
            asked.append(targets.start)
            return draw(targets, *rest)

        return drawing

    monkeypatch.setattr(frames, "_drawn", until(15))
    with pytest.raises(KeyboardInterrupt):
        greedy(23, others, 20, 3, tmp_path)
    monkeypatch.setattr(frames, "_drawn", until(-1))
    asked.clear()
    assert torch.equal(greedy(23, others, 20, 3, tmp_path), whole)
    assert asked == [15, 20], "finished blocks are not computed again"
    assert torch.equal(greedy(23, others, 21, 3, tmp_path)[0], greedy(1, others, 21, 3)[0])


@pytest.mark.parametrize(
    ("dim", "count", "coherence"), [(8, 64, 4 / 8), (16, 128, 4 / 16), (32, 1024, 8 / 32), (64, 2048, 8 / 64)]
)
def test_all_inner_products_of_the_closed_frame_are_zero_or_the_coherence(
    dim: int, count: int, coherence: float
) -> None:
    """To the last bit: a target's entries are whole numbers over d^2, and float64 holds their products and sums."""
    frame = Closed(dim, seed=1)
    assert (len(frame), frame.coherence) == (count, coherence)
    vectors = frame(torch.arange(count)).double()
    assert torch.equal(vectors * dim**2, (vectors * dim**2).round())
    gram = vectors @ vectors.T
    assert torch.equal(gram.diagonal(), torch.ones(count, dtype=torch.float64))
    off = gram[~torch.eye(count, dtype=torch.bool)].abs()
    assert bool(((off == 0) | (off == coherence)).all())


def test_the_closed_frame_at_the_papers_dimension() -> None:
    """At d = 512: 262,144 targets of coherence 0.0625."""
    frame = Closed(512, seed=1)
    assert (len(frame), frame.coherence) == (262_144, 0.0625)
    some = torch.randperm(len(frame), generator=torch.Generator().manual_seed(0))[:400]
    vectors = frame(some).double()
    off = (vectors @ vectors.T - torch.eye(len(some), dtype=torch.float64)).abs()
    assert off.max() == 0.0625


@pytest.mark.parametrize("dim", [64, 128, 512])
def test_the_entries_of_a_target_are_spread_as_those_of_a_random_direction(dim: int) -> None:
    """No target stays near an axis or a corner of the cube, nor do the first ones, whose signs are the most regular."""
    frame = Closed(dim, seed=1)
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
    frame = Closed(dim, seed=1)
    indices = torch.randint(len(frame), (1500,), generator=torch.Generator().manual_seed(0))
    together = frame(indices)
    for count in (1, 2):
        torch.set_num_threads(count)
        again = Closed(dim, seed=1)
        assert torch.equal(again(indices), together)
        assert torch.equal(again(indices.flip(0)).flip(0), together)
        for size in (1, 7, 64):
            assert torch.equal(again(indices[40 : 40 + size]), together[40 : 40 + size])
    assert not torch.allclose(Closed(dim, seed=2)(indices[:9]), together[:9])


@pytest.mark.parametrize(("dim", "seed"), [(8, 1), (16, 7), (128, 2**63 - 1)])
def test_a_target_is_the_rotation_of_its_signs_in_whole_numbers(dim: int, seed: int) -> None:
    """(H D_3)(H D_2)(H D_1) restated with Python's integers, entry by entry."""
    frame = Closed(dim, seed)
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
    targets = Closed(16, seed=1)(torch.tensor([0, 7, 100])) * 4
    assert targets.tolist() == [
        [0, 0, -1, -1, -1, -1, 0, 0, -1, 1, 0, -2, 0, 2, -1, 1],
        [1, 1, 0, 0, 0, 0, 1, 1, 0, -2, 1, -1, 1, -1, 0, 2],
        [0, 0, -1, 1, -1, 1, 0, 0, -1, -1, 2, 0, 0, 2, 1, 1],
    ]


@pytest.mark.parametrize("dim", [4, 100, 513])
def test_other_dimensions_are_refused(dim: int) -> None:
    with pytest.raises(DamnatioError, match="power of two"):
        Closed(dim, seed=1)
