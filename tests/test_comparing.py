"""Scores of comparisons, each function against loops over single vectors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio import comparing
from damnatio.comparing import (
    Codes,
    Scores,
    Units,
    leave_one_out,
    mated_across,
    mated_pairs,
    nonmated_across,
    nonmated_pairs,
    pair_scores,
    search,
    templates,
)

DIM = 6
ALL = 1_000_000


def drawn(sizes: list[int], seed: int = 0) -> tuple[Units, Codes]:
    """Random unit vectors, so many of each identity, in no order; the codes have gaps."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)) * 3 + 1, sizes)).astype(np.int64)
    units = rng.normal(size=(len(codes), DIM))
    return units / np.linalg.norm(units, axis=1, keepdims=True), codes


def uneven(seed: int) -> tuple[Units, Codes]:
    return drawn([1, 4, 2, 1, 7, 3], seed)


def generator() -> np.random.Generator:
    return np.random.default_rng(11)


def cosine(a: Scores, b: Scores) -> float:
    return math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def naive_template(vectors: list[Scores]) -> Scores:
    mean = sum(vectors, np.zeros(DIM)) / len(vectors)
    return mean / math.sqrt(cosine(mean, mean))


def naive_templates(units: Units, codes: Codes) -> dict[int, Scores]:
    members: dict[int, list[Scores]] = {}
    for unit, code in zip(units, codes.tolist(), strict=True):
        members.setdefault(code, []).append(unit)
    return {code: naive_template(members[code]) for code in sorted(members)}


def close(scores: Scores, naive: list[float]) -> bool:
    return len(scores) == len(naive) and bool(np.allclose(np.sort(scores), sorted(naive), rtol=0, atol=1e-12))


@pytest.mark.parametrize("seed", range(5))
def test_template_is_the_normalised_mean_of_the_identity(seed: int) -> None:
    units, codes = uneven(seed)
    naive = naive_templates(units, codes)
    made, present = templates(units, codes)
    assert present.tolist() == list(naive)
    assert np.allclose(made, list(naive.values()), rtol=0, atol=1e-12)


def test_template_of_one_image_is_the_image() -> None:
    units, codes = drawn([1, 1, 1])
    made, present = templates(units, codes)
    assert np.allclose(made, units[np.argsort(codes)], rtol=0, atol=1e-15)
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


def test_pair_scores_are_the_cosines_of_the_listed_pairs() -> None:
    units, codes = uneven(0)
    others, other_codes = uneven(1)
    a, b = mated_across(codes, other_codes)
    naive = [cosine(units[i], others[j]) for i, j in zip(a, b, strict=True)]
    assert np.allclose(pair_scores(units, a, others, b), naive, rtol=0, atol=1e-12)


def naive_nonmated(units: Units, codes: Codes) -> list[float]:
    n = len(codes)
    return [cosine(units[i], units[j]) for i in range(n) for j in range(i + 1, n) if codes[i] != codes[j]]


@pytest.mark.parametrize("seed", range(5))
def test_nonmated_pairs_are_all_pairs_of_different_identities_once(seed: int) -> None:
    units, codes = uneven(seed)
    naive = naive_nonmated(units, codes)
    assert close(nonmated_pairs(units, codes, ALL, generator()), naive)
    assert close(nonmated_pairs(units, codes, len(naive), generator()), naive)


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
    assert close(nonmated_across(*first, *second, ALL, generator()), naive)
    assert close(nonmated_across(*first, *second, len(naive), generator()), naive)


def one_hot(codes: list[int]) -> tuple[Units, Codes]:
    """Each identity an axis of its own: a mated score is 1, a non-mated one 0."""
    return np.eye(max(codes) + 1)[codes], np.array(codes)


def test_sampled_nonmated_pairs_are_so_many_and_only_nonmated() -> None:
    units, codes = one_hot([0] * 12 + [1] * 3 + [2])  # mated pairs abound
    total = len(naive_nonmated(units, codes))
    for most in (1, 7, total - 1):
        scores = nonmated_pairs(units, codes, most, generator())
        assert scores.tolist() == [0.0] * most


def test_sampled_nonmated_across_are_so_many_and_only_nonmated() -> None:
    first, second = one_hot([0] * 9 + [1, 2]), one_hot([0] * 9 + [2, 2])
    for most in (1, 7, 30):
        scores = nonmated_across(*first, *second, most, generator())
        assert scores.tolist() == [0.0] * most


def test_sampled_scores_are_scores_of_real_pairs() -> None:
    units, codes = uneven(2)
    naive = np.array(naive_nonmated(units, codes))
    for score in nonmated_pairs(units, codes, len(naive) - 1, generator()):
        assert np.abs(naive - score).min() < 1e-12


def test_sample_is_decided_by_the_seed() -> None:
    units, codes = uneven(2)
    once = nonmated_pairs(units, codes, 30, np.random.default_rng(5))
    assert np.array_equal(once, nonmated_pairs(units, codes, 30, np.random.default_rng(5)))
    assert not np.array_equal(once, nonmated_pairs(units, codes, 30, np.random.default_rng(6)))


def test_sample_draws_evenly_from_all_pairs() -> None:
    """Three images, three non-mated pairs with scores of their own: each is drawn a third of the time."""
    angles = np.array([0.0, 1.0, 2.5])
    units = np.column_stack([np.cos(angles), np.sin(angles)])
    codes = np.arange(3)
    units, codes = np.tile(units, (2, 1)), np.tile(codes, 2)  # each twice, so that a sample is smaller than all
    scores = np.concatenate([nonmated_pairs(units, codes, 11, np.random.default_rng(seed)) for seed in range(300)])
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
    assert np.allclose(own, naive_own, rtol=0, atol=1e-12)
    assert np.allclose(best, naive_best, rtol=0, atol=1e-12)
    assert np.isneginf(own).sum() == np.isin(probes[1], gallery[1], invert=True).sum() > 0


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
    assert np.allclose(scores, naive, rtol=0, atol=1e-12)
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
    units = np.tile(vector / np.linalg.norm(vector), (len(codes), 1))
    own, best = search(units, codes, *templates(units, codes))
    assert not (own > best).any()
    assert not (leave_one_out(units, codes) > best).any()


@pytest.mark.parametrize("block", [1, 3, 1024])
def test_size_of_the_blocks_does_not_matter(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    units, codes = uneven(3)
    gallery = templates(*drawn([2, 3, 0, 1, 2], 50))
    first, second, naive = across(3)
    naive_own, naive_best = naive_search(units, codes, *gallery)
    monkeypatch.setattr(comparing, "BLOCK", block)
    assert close(nonmated_pairs(units, codes, ALL, generator()), naive_nonmated(units, codes))
    assert close(nonmated_across(*first, *second, ALL, generator()), naive)
    own, best = search(units, codes, *gallery)
    assert np.allclose(own, naive_own, rtol=0, atol=1e-12)
    assert np.allclose(best, naive_best, rtol=0, atol=1e-12)


def test_empty_sets_give_empty_scores() -> None:
    nothing: tuple[Units, Codes] = np.zeros((0, DIM)), np.zeros(0, dtype=np.int64)
    some = uneven(0)
    made, present = templates(*nothing)
    assert made.shape == (0, DIM)
    assert len(present) == 0
    assert [len(places) for places in mated_pairs(nothing[1])] == [0, 0]
    assert [len(places) for places in mated_across(some[1], nothing[1])] == [0, 0]
    assert [len(places) for places in mated_across(nothing[1], some[1])] == [0, 0]
    assert len(nonmated_pairs(*nothing, ALL, generator())) == 0
    assert len(nonmated_across(*nothing, *some, ALL, generator())) == 0
    assert len(nonmated_across(*some, *nothing, ALL, generator())) == 0
    assert [len(scores) for scores in search(*nothing, *some)] == [0, 0]
    assert len(leave_one_out(*nothing)) == 0


def test_search_in_an_empty_gallery_finds_nothing() -> None:
    own, best = search(*uneven(0), np.zeros((0, DIM)), np.zeros(0, dtype=np.int64))
    assert np.isneginf(own).all()
    assert np.isneginf(best).all()


def test_one_identity_has_no_nonmated_pair() -> None:
    units, codes = drawn([5])
    assert len(nonmated_pairs(units, codes, 1, generator())) == 0
