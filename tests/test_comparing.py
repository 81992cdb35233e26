"""Scores of comparisons, each function against loops over single vectors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio import comparing, scanning, searching
from damnatio.comparing import NonMated, leave_one_out, mated_across, mated_pairs, search, templates
from damnatio.metrics.distributions import BIN, EDGES, wasserstein1
from damnatio.metrics.identification import true_positive_rate
from damnatio.metrics.verification import calibrate
from damnatio.scanning import GRID, Codes, Scores, Units, dots, on_grid
from damnatio.thinning import Thinned

DIM = 6


def drawn(sizes: list[int], seed: int = 0) -> tuple[Units, Codes]:
    """Random unit vectors, so many of each identity, in no order; the codes have gaps."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)) * 3 + 1, sizes)).astype(np.int64)
    units = rng.normal(size=(len(codes), DIM))
    return on_grid(units / np.linalg.norm(units, axis=1, keepdims=True)), codes


def uneven(seed: int) -> tuple[Units, Codes]:
    return drawn([1, 4, 2, 1, 7, 3], seed)


def generator() -> np.random.Generator:
    return np.random.default_rng(11)


def cosine(a: Scores, b: Scores) -> float:
    return math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def naive_template(vectors: list[Scores]) -> Scores:
    mean = sum(vectors, np.zeros(DIM)) / len(vectors)
    return on_grid(mean / math.sqrt(cosine(mean, mean)))


def naive_templates(units: Units, codes: Codes) -> dict[int, Scores]:
    members: dict[int, list[Scores]] = {}
    for unit, code in zip(units, codes.tolist(), strict=True):
        members.setdefault(code, []).append(unit)
    return {code: naive_template(members[code]) for code in sorted(members)}


@pytest.mark.parametrize("seed", range(5))
def test_template_is_the_normalised_mean_of_the_identity(seed: int) -> None:
    units, codes = uneven(seed)
    naive = naive_templates(units, codes)
    made, present = templates(units, codes)
    assert present.tolist() == list(naive)
    assert np.allclose(
        made, list(naive.values()), rtol=0, atol=GRID
    )  # the mean rounds, and may cross to the next point


def test_template_of_one_image_is_the_image() -> None:
    units, codes = drawn([1, 1, 1])
    made, present = templates(units, codes)
    assert np.allclose(made, units[np.argsort(codes)], rtol=0, atol=GRID)
    assert present.tolist() == sorted(codes)


def test_template_of_opposite_images_has_no_direction_and_harms_no_other() -> None:
    """Its mean is the zero vector. Whatever is made of it, the searches of everybody else stay numbers."""
    units = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    made, present = templates(units, np.array([0, 0, 1]))
    own, best = search(np.array([[0.6, 0.8]]), np.array([1]), made, present)
    assert own == pytest.approx([0.8])
    assert not np.isnan(best).any()


@pytest.mark.parametrize("seed", range(5))
def test_mated_pairs_are_all_pairs_of_one_identity_once(seed: int) -> None:
    _, codes = uneven(seed)
    naive = {(i, j) for i in range(len(codes)) for j in range(i + 1, len(codes)) if codes[i] == codes[j]}
    a, b = mated_pairs(codes)
    assert len(a) == len(b) == len(naive)
    assert set(zip(a.tolist(), b.tolist(), strict=True)) == naive


@pytest.mark.parametrize("seed", range(5))
def test_mated_across_are_all_pairs_of_one_identity_of_two_sets(seed: int) -> None:
    _, first = uneven(seed)
    _, second = drawn([3, 0, 2, 5, 1], seed + 100)
    naive = {(i, j) for i in range(len(first)) for j in range(len(second)) if first[i] == second[j]}
    a, b = mated_across(first, second)
    assert len(a) == len(b) == len(naive)
    assert set(zip(a.tolist(), b.tolist(), strict=True)) == naive


def test_dots_are_the_cosines_of_the_listed_pairs() -> None:
    units, codes = uneven(0)
    others, other_codes = uneven(1)
    a, b = mated_across(codes, other_codes)
    naive = [cosine(units[i], others[j]) for i, j in zip(a, b, strict=True)]
    assert dots(units, a, others, b).tolist() == naive


def naive_nonmated(units: Units, codes: Codes) -> list[float]:
    n = len(codes)
    return [cosine(units[i], units[j]) for i in range(n) for j in range(i + 1, n) if codes[i] != codes[j]]


@pytest.mark.parametrize("seed", range(5))
def test_nonmated_pairs_are_all_pairs_of_different_identities_once(seed: int) -> None:
    units, codes = uneven(seed)
    naive = naive_nonmated(units, codes)
    for group in (NonMated((units, codes)), NonMated((units, codes), None, len(naive), generator())):
        assert group.drawn is None
        assert group.count == len(naive)
        assert sorted(group.scores) == sorted(naive)


def across(seed: int) -> tuple[tuple[Units, Codes], tuple[Units, Codes], list[float]]:
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
    for group in (NonMated(first, second), NonMated(first, second, len(naive), generator())):
        assert group.drawn is None
        assert group.count == len(naive)
        assert sorted(group.scores) == sorted(naive)


def one_hot(codes: list[int]) -> tuple[Units, Codes]:
    """Each identity an axis of its own: a mated score is 1, a non-mated one 0."""
    return np.eye(max(codes) + 1)[codes], np.array(codes)


def test_sampled_nonmated_pairs_are_so_many_and_only_nonmated() -> None:
    units, codes = one_hot([0] * 12 + [1] * 3 + [2])  # mated pairs abound
    total = len(naive_nonmated(units, codes))
    for most in (1, 7, total - 1):
        group = NonMated((units, codes), None, most, generator())
        assert group.count == most
        assert group.scores.tolist() == [0.0] * most


def test_sampled_nonmated_across_are_so_many_and_only_nonmated() -> None:
    first, second = one_hot([0] * 9 + [1, 2]), one_hot([0] * 9 + [2, 2])
    for most in (1, 7, 30):
        group = NonMated(first, second, most, generator())
        assert group.count == most
        assert group.scores.tolist() == [0.0] * most


def test_sampled_scores_are_scores_of_real_pairs() -> None:
    units, codes = uneven(2)
    naive = naive_nonmated(units, codes)
    assert set(NonMated((units, codes), None, len(naive) - 1, generator()).scores) <= set(naive)


def test_sample_is_decided_by_the_seed() -> None:
    once, again, other = (NonMated(uneven(2), None, 30, np.random.default_rng(seed)).scores for seed in (5, 5, 6))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)


def test_sample_draws_evenly_from_all_pairs() -> None:
    """Three images, three non-mated pairs with scores of their own: each is drawn a third of the time."""
    angles = np.array([0.0, 1.0, 2.5])
    units = np.column_stack([np.cos(angles), np.sin(angles)])
    codes = np.arange(3)
    units, codes = np.tile(units, (2, 1)), np.tile(codes, 2)  # each twice, so that a sample is smaller than all
    groups = [NonMated((units, codes), None, 11, np.random.default_rng(seed)) for seed in range(300)]
    scores = np.concatenate([group.scores for group in groups])
    shares = [np.isclose(scores, expected).mean() for expected in np.cos([1.0, 2.5, 1.5])]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.04)


def naive_search(
    probes: Units, probe_codes: Codes, gallery: Units, gallery_codes: Codes
) -> tuple[list[float], list[float]]:
    own, best = [], []
    for probe, code in zip(probes, probe_codes, strict=True):
        mine, theirs = -math.inf, -math.inf
        for template, whose in zip(gallery, gallery_codes, strict=True):
            score = cosine(probe, template)
            if whose == code:
                mine = max(mine, score)
            else:
                theirs = max(theirs, score)
        own.append(mine)
        best.append(theirs)
    return own, best


@pytest.mark.parametrize("seed", range(5))
def test_search_finds_the_own_score_and_the_best_other(seed: int) -> None:
    probes, gallery = uneven(seed), templates(*drawn([2, 3, 0, 1, 2], seed + 50))
    own, best = search(*probes, *gallery)
    naive_own, naive_best = naive_search(*probes, *gallery)
    assert own.tolist() == naive_own
    assert best.tolist() == naive_best
    assert np.isneginf(own).sum() == np.isin(probes[1], gallery[1], invert=True).sum() > 0


NINE = [
    (0, 0.75, 0.25, 0.0),  # won
    (0, 0.5, 0.5, 0.25),  # a tie at rank one loses
    (1, 0.25, 0.625, 0.0),  # won
    (1, 0.875, 0.5, 0.0),  # beaten
    (2, 0.0, 0.25, 0.5),  # won
    (2, 0.0, 0.0, 0.25),  # won
    (7, 0.5, 0.25, 0.0),  # not enrolled: an alarm up to 0.5
    (8, 0.125, 0.375, 0.25),  # up to 0.375
    (9, -0.5, -0.25, -0.125),  # below 0
]
"""An identity and its probe's scores with three templates, which are the axes."""


@pytest.mark.parametrize(
    ("target", "alarms", "successes"),
    [(0.1, 0, 2), (0.34, 1, 3), (0.67, 2, 3), (0.99, 2, 3)],  # just above 0.5; 0.5; 0.375; 0.375
)
def test_nine_probes_by_hand(target: float, alarms: int, successes: int) -> None:
    codes, probes = np.array([row[0] for row in NINE]), np.array([row[1:] for row in NINE])
    own, best = search(probes, codes, np.eye(3), np.arange(3))
    assert own.tolist() == [0.75, 0.5, 0.625, 0.5, 0.5, 0.25, *[-math.inf] * 3]
    assert best.tolist() == [0.25, 0.5, 0.25, 0.875, 0.25, 0.0, 0.5, 0.375, -0.125]
    (point,) = calibrate(best[6:], [target])
    assert point.rate == alarms / 3
    assert true_positive_rate(own[:6], best[:6], point.threshold) == successes / 6


def test_search_keeps_a_tie_a_tie() -> None:
    gallery = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    own, best = search(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([5, 6]), gallery, np.array([5, 6, 7]))
    assert own.tolist() == [1.0, 1.0]
    assert best.tolist() == [1.0, 0.0]


def test_search_in_a_gallery_of_the_own_template_alone_has_no_other() -> None:
    own, best = search(np.array([[0.6, 0.8]]), np.array([3]), np.array([[0.0, 1.0]]), np.array([3]))
    assert own == pytest.approx([0.8])
    assert np.isneginf(best).all()


@pytest.mark.parametrize("seed", range(5))
def test_leave_one_out_never_holds_the_image_itself(seed: int) -> None:
    units, codes = uneven(seed)
    naive = []
    for i in range(len(codes)):
        others = [units[j] for j in range(len(codes)) if codes[j] == codes[i] and j != i]
        naive.append(cosine(units[i], naive_template(others)) if others else -math.inf)
    scores = leave_one_out(units, codes)
    assert np.allclose(scores, naive, rtol=0, atol=2 * GRID)
    assert np.isneginf(scores).sum() == 2  # two identities of one image


def test_leave_one_out_of_orthogonal_images_is_zero() -> None:
    """A template that held the image would score 1/sqrt(n)."""
    assert leave_one_out(np.eye(5), np.zeros(5, dtype=np.int64)).tolist() == [0.0] * 5


def test_leave_one_out_where_the_others_cancel_is_zero() -> None:
    units = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
    assert leave_one_out(units, np.zeros(3, dtype=np.int64)).tolist()[0] == 0.0


@settings(deadline=None)
@given(st.integers(2, 40), st.integers(0, 10_000), st.lists(st.integers(2, 9), min_size=2, max_size=6))
def test_identical_embeddings_tie_with_everybody(dim: int, seed: int, sizes: list[int]) -> None:
    """A collapsed model gives everyone one vector. All its scores tie, however many images a template averages, so
    nobody may be the top candidate alone."""
    vector = np.random.default_rng(seed).normal(size=dim)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    units = on_grid(np.tile(vector / np.linalg.norm(vector), (len(codes), 1)))
    own, best = search(units, codes, *templates(units, codes))
    assert not (own > best).any()
    assert not (leave_one_out(units, codes) > best).any()


@pytest.mark.parametrize("block", [1, 3, 64])
def test_size_of_the_blocks_does_not_matter(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    units, codes = uneven(3)
    gallery = templates(*drawn([2, 3, 0, 1, 2], 50))
    first, second, naive = across(3)
    for module in (scanning, searching, comparing):
        monkeypatch.setattr(module, "ROWS", block)
        monkeypatch.setattr(module, "COLUMNS", block)
    assert sorted(NonMated((units, codes)).scores) == sorted(naive_nonmated(units, codes))
    assert sorted(NonMated(first, second).scores) == sorted(naive)
    own, best = search(units, codes, *gallery)
    assert (own.tolist(), best.tolist()) == naive_search(units, codes, *gallery)


def test_empty_sets_give_empty_scores() -> None:
    nothing: tuple[Units, Codes] = np.zeros((0, DIM)), np.zeros(0, dtype=np.int64)
    some = uneven(0)
    made, present = templates(*nothing)
    assert made.shape == (0, DIM)
    assert len(present) == 0
    assert [len(places) for places in mated_pairs(nothing[1])] == [0, 0]
    assert [len(places) for places in mated_across(some[1], nothing[1])] == [0, 0]
    assert [len(places) for places in mated_across(nothing[1], some[1])] == [0, 0]
    for group in (NonMated(nothing), NonMated(nothing, some), NonMated(some, nothing), NonMated(some, nothing, 1)):
        assert group.count == len(group.scores) == 0
    assert [len(scores) for scores in search(*nothing, *some)] == [0, 0]
    assert len(leave_one_out(*nothing)) == 0


def test_search_in_an_empty_gallery_finds_nothing() -> None:
    own, best = search(*uneven(0), np.zeros((0, DIM)), np.zeros(0, dtype=np.int64))
    assert np.isneginf(own).all()
    assert np.isneginf(best).all()


def test_one_identity_has_no_nonmated_pair() -> None:
    units, codes = drawn([5])
    assert NonMated((units, codes), None, 1, generator()).count == 0
    assert len(NonMated((units, codes)).scores) == 0


# --- one pass over many ----------------------------------------------------------------------------------------------


def heavily_tied(seed: int) -> tuple[Units, Codes]:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, (50, 3)) + np.array([0.25, 0, 0])
    return on_grid(rows / np.linalg.norm(rows, axis=1, keepdims=True)), rng.integers(0, 20, 50)


GROUPS = {
    "within": lambda: NonMated(drawn([3] * 20, 1)),
    "across": lambda: NonMated(drawn([3] * 12, 2), drawn([4] * 15, 3)),
    "tied": lambda: NonMated(heavily_tied(4)),
    "tied across": lambda: NonMated(heavily_tied(5), heavily_tied(6)),
    "one identity": lambda: NonMated(drawn([5])),
    "no second": lambda: NonMated(drawn([5, 2]), (np.zeros((0, DIM)), np.zeros(0, np.int64))),
}


def pairs_of(top: comparing.Top, group: NonMated) -> list[tuple[float, int, int]]:
    """Within one set a pair has no order."""
    pairs = zip(top.scores.tolist(), top.i.tolist(), top.j.tolist(), strict=True)
    return sorted((score, *(sorted((i, j)) if group.others is None else (i, j))) for score, i, j in pairs)


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("block", [3, 64])
def test_spread_is_the_same_held_and_streamed(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    group = GROUPS[name]()
    scores = np.sort(group.scores)
    thresholds = [-0.9, 0.0, *scores[:: max(1, len(scores) // 5)].tolist(), 0.99]  # some are scores: equality counts
    lowest = float(scores[len(scores) // 2]) if len(scores) else 0.0
    held = group.spread(thresholds, lowest)
    for module in (scanning, comparing):
        monkeypatch.setattr(module, "ROWS", block)
        monkeypatch.setattr(module, "COLUMNS", block)
    monkeypatch.setattr(comparing, "HELD", -1)
    streamed = group.spread(thresholds, lowest)
    assert held.accepted == {t: sum(score >= t for score in scores.tolist()) for t in thresholds}
    assert streamed.accepted == held.accepted
    assert streamed.sample.count == held.sample.count == group.count
    assert held.sample.error == 0
    assert streamed.sample.error == BIN / 2
    assert pairs_of(streamed.top, group) == pairs_of(held.top, group)
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
    monkeypatch.setattr(comparing, "HELD", 0)
    spread = NonMated((np.concatenate([vector, -vector, vector]), np.arange(3))).spread([1.0, -1.0])
    assert spread.accepted == {1.0: 1, -1.0: 1}
    assert spread.sample.values.tolist() == [-1.0, 1.0]
    assert spread.sample.counts.tolist() == [2, 1]


def test_drawn_pairs_are_never_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "HELD", 0)
    group = NonMated(uneven(1), None, 20, generator())
    spread = group.spread([0.0], 0.0)
    assert spread.sample.error == 0
    assert spread.sample.count == 20
    assert spread.accepted[0.0] == (group.scores >= 0).sum() == len(spread.top.scores)


def test_more_pairs_than_are_listed_leave_an_even_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thinned.__init__, "__defaults__", (200,))
    group = NonMated(drawn([1] * 60))
    top = group.top(-2.0)
    assert top.share == 0.125
    assert len(top.scores) <= 200
    assert len(top.scores) == pytest.approx(group.count * top.share, rel=0.3)
    assert top.scores.tolist() == [cosine(group.units[i], group.units[j]) for i, j in zip(top.i, top.j, strict=True)]
