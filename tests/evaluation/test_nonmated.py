"""Non-mated pairs within and across sets, drawn, held and streamed, against loops over single vectors."""

import math

import numpy as np
import pytest

from damnatio.evaluation import nonmated, pairings, scanning
from damnatio.evaluation.nonmated import Drawn, Held, NonMated, Streamed, nonmated_pairs
from damnatio.evaluation.pairings import Across, Pairing, Vectors, Within
from damnatio.evaluation.scanning import Units, on_grid
from damnatio.evaluation.thinning import Thinned
from damnatio.metrics.distributions import BIN, EDGES, wasserstein1
from damnatio.support.tables import Codes
from tests.evaluation.test_comparing import DIM, cosine, drawn, uneven

Set = tuple[Units, Codes]


def within(vectors: Set, most: int = 0, rng: np.random.Generator | None = None) -> NonMated:
    return nonmated_pairs(Within(Vectors(*vectors)), most, rng)


def between(first: Set, second: Set, most: int = 0, rng: np.random.Generator | None = None) -> NonMated:
    return nonmated_pairs(Across(Vectors(*first), Vectors(*second)), most, rng)


def generator() -> np.random.Generator:
    return np.random.default_rng(11)


def naive_nonmated(units: Units, codes: Codes) -> list[float]:
    n = len(codes)
    return [cosine(units[i], units[j]) for i in range(n) for j in range(i + 1, n) if codes[i] != codes[j]]


@pytest.mark.parametrize("seed", range(5))
def test_nonmated_pairs_are_all_pairs_of_different_identities_once(seed: int) -> None:
    units, codes = uneven(seed)
    naive = naive_nonmated(units, codes)
    for group in (within((units, codes)), within((units, codes), len(naive), generator())):
        assert isinstance(group, Held)
        assert group.count == len(naive)
        assert sorted(group.scores) == sorted(naive)


def across(seed: int) -> tuple[Set, Set, list[float]]:
    first, second = uneven(seed), drawn([3, 0, 2, 5, 1], seed + 100)
    naive = [
        cosine(a, b)
        for a, code_a in zip(*first, strict=True)
        for b, code_b in zip(*second, strict=True)
        if code_a != code_b
    ]
    return first, second, naive


@pytest.mark.parametrize("seed", range(5))
def test_nonmated_across_is_every_pair_of_different_identities_of_two_sets(seed: int) -> None:
    first, second, naive = across(seed)
    for group in (between(first, second), between(first, second, len(naive), generator())):
        assert isinstance(group, Held)
        assert group.count == len(naive)
        assert sorted(group.scores) == sorted(naive)


def one_hot(codes: list[int]) -> Set:
    """Each identity an axis of its own: a mated score is 1, a non-mated one 0."""
    return np.eye(max(codes) + 1)[codes], np.array(codes)


def test_sampled_nonmated_pairs_are_so_many_and_only_nonmated() -> None:
    units, codes = one_hot([0] * 12 + [1] * 3 + [2])  # mated pairs abound
    total = len(naive_nonmated(units, codes))
    for most in (1, 7, total - 1):
        group = within((units, codes), most, generator())
        assert group.count == most
        assert group.scores.tolist() == [0.0] * most


def test_sampled_nonmated_across_are_so_many_and_only_nonmated() -> None:
    first, second = one_hot([0] * 9 + [1, 2]), one_hot([0] * 9 + [2, 2])
    for most in (1, 7, 30):
        group = between(first, second, most, generator())
        assert group.count == most
        assert group.scores.tolist() == [0.0] * most


def test_sampled_scores_are_scores_of_real_pairs() -> None:
    units, codes = uneven(2)
    naive = naive_nonmated(units, codes)
    assert set(within((units, codes), len(naive) - 1, generator()).scores) <= set(naive)


def test_sample_is_decided_by_the_seed() -> None:
    once, again, other = (within(uneven(2), 30, np.random.default_rng(seed)).scores for seed in (5, 5, 6))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)


def test_sample_draws_evenly_from_all_pairs() -> None:
    """Three images, three non-mated pairs with scores of their own: each is drawn a third of the time."""
    angles = np.array([0.0, 1.0, 2.5])
    units = np.column_stack([np.cos(angles), np.sin(angles)])
    codes = np.arange(3)
    units, codes = np.tile(units, (2, 1)), np.tile(codes, 2)  # each twice, so that a sample is smaller than all
    groups = [within((units, codes), 11, np.random.default_rng(seed)) for seed in range(300)]
    scores = np.concatenate([group.scores for group in groups])
    shares = [np.isclose(scores, expected).mean() for expected in np.cos([1.0, 2.5, 1.5])]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.04)


def test_one_identity_has_no_nonmated_pair() -> None:
    units, codes = drawn([5])
    assert within((units, codes), 1, generator()).count == 0
    assert len(within((units, codes)).scores) == 0


def test_empty_sets_have_no_pairs() -> None:
    some = uneven(0)
    for group in (within(NOTHING), between(NOTHING, some), between(some, NOTHING), between(some, NOTHING, 1)):
        assert group.count == len(group.scores) == 0


@pytest.mark.parametrize("block", [1, 3, 64])
def test_size_of_the_blocks_does_not_matter(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    units, codes = uneven(3)
    first, second, naive = across(3)
    monkeypatch.setattr(nonmated, "ROWS", block)
    assert sorted(within((units, codes)).scores) == sorted(naive_nonmated(units, codes))
    assert sorted(between(first, second).scores) == sorted(naive)


# --- one pass over many ----------------------------------------------------------------------------------------------


def heavily_tied(seed: int) -> Set:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, (50, 3)) + np.array([0.25, 0, 0])
    return on_grid(rows / np.linalg.norm(rows, axis=1, keepdims=True)), rng.integers(0, 20, 50)


def pair_within(vectors: Set) -> Pairing[Vectors]:
    return Within(Vectors(*vectors))


def pair_across(first: Set, second: Set) -> Pairing[Vectors]:
    return Across(Vectors(*first), Vectors(*second))


NOTHING: Set = np.zeros((0, DIM)), np.zeros(0, np.int64)
PAIRINGS = {
    "within": lambda: pair_within(drawn([3] * 20, 1)),
    "across": lambda: pair_across(drawn([3] * 12, 2), drawn([4] * 15, 3)),
    "tied": lambda: pair_within(heavily_tied(4)),
    "tied across": lambda: pair_across(heavily_tied(5), heavily_tied(6)),
    "one identity": lambda: pair_within(drawn([5])),
    "no second": lambda: pair_across(drawn([5, 2]), NOTHING),
}


def pairs_of(top: nonmated.Top, pairing: Pairing[Vectors]) -> list[tuple[float, int, int]]:
    """Within one set a pair has no order."""
    pairs = zip(top.scores.tolist(), top.i.tolist(), top.j.tolist(), strict=True)
    return sorted((score, *(sorted((i, j)) if isinstance(pairing, Within) else (i, j))) for score, i, j in pairs)


@pytest.mark.parametrize("name", PAIRINGS)
@pytest.mark.parametrize("block", [3, 64])
def test_spread_is_the_same_held_and_streamed(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pairing = PAIRINGS[name]()
    group = Held(pairing)
    scores = np.sort(group.scores)
    thresholds = [-0.9, 0.0, *scores[:: max(1, len(scores) // 5)].tolist(), 0.99]  # some are scores: equality counts
    lowest = float(scores[len(scores) // 2]) if len(scores) else 0.0
    held = group.spread(thresholds, lowest)
    for module in (scanning, pairings):
        monkeypatch.setattr(module, "ROWS", block)
        monkeypatch.setattr(module, "COLUMNS", block)
    streamed = Streamed(pairing).spread(thresholds, lowest)
    assert held.accepted == {t: sum(score >= t for score in scores.tolist()) for t in thresholds}
    assert streamed.accepted == held.accepted
    assert streamed.sample.count == held.sample.count == group.count
    assert held.sample.error == 0
    assert streamed.sample.error == BIN / 2
    assert pairs_of(streamed.top, pairing) == pairs_of(held.top, pairing)
    assert pairs_of(streamed.top, pairing) == pairs_of(group.spread((), lowest).top, pairing)
    assert len(held.top.scores) == (scores >= lowest).sum()
    if group.count:
        assert np.array_equal(np.repeat(held.sample.values, held.sample.counts), scores)
        moved = np.repeat(streamed.sample.values, streamed.sample.counts) - scores
        assert np.abs(moved).max() <= BIN / 2
        assert wasserstein1(held.sample, streamed.sample) <= BIN / 2
        for spread in (held, streamed):
            histogram = spread.sample.histogram()
            assert len(histogram) == len(EDGES) - 1
            assert histogram.sum() == group.count


def test_streamed_scores_past_one_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the grid a vector may be a little longer than 1, and its score with its opposite below -1."""
    vector = on_grid(np.full((1, 3), 1 / math.sqrt(3)))
    assert vector[0] @ vector[0] > 1
    monkeypatch.setattr(nonmated, "HELD", 0)
    group = within((np.concatenate([vector, -vector, vector]), np.arange(3)))
    assert isinstance(group, Streamed)
    spread = group.spread([1.0, -1.0])
    assert spread.accepted == {1.0: 1, -1.0: 1}
    assert spread.sample.values.tolist() == [-1.0, 1.0]
    assert spread.sample.counts.tolist() == [2, 1]


def test_drawn_pairs_are_never_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nonmated, "HELD", 0)
    group = within(uneven(1), 20, generator())
    assert isinstance(group, Drawn)
    spread = group.spread([0.0], 0.0)
    assert spread.sample.error == 0
    assert spread.sample.count == 20
    assert spread.accepted[0.0] == (group.scores >= 0).sum() == len(spread.top.scores)


def test_more_pairs_than_are_listed_leave_an_even_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thinned.__init__, "__defaults__", (200,))
    group = within(drawn([1] * 60))
    top = group.spread((), -2.0).top
    assert top.share == 0.125
    assert len(top.scores) <= 200
    assert len(top.scores) == pytest.approx(group.count * top.share, rel=0.3)
    assert top.scores.tolist() == [
        cosine(group.first.units[i], group.second.units[j]) for i, j in zip(top.i, top.j, strict=True)
    ]


def test_streamed_scores_are_never_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nonmated, "HELD", 10)
    group = within(uneven(1))
    with pytest.raises(MemoryError, match="scores are streamed and not held"):
        _ = group.scores
