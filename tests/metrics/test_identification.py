"""Open-set searches: nine probes worked by hand, and the rates against loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from damnatio.metrics.identification import cmc, identification_curve, ranks

# One row a probe: the score of its own template, the highest of any other.
NINE = np.array(
    [
        [0.90, 0.30],  # won
        [0.80, 0.79],  # won
        [0.70, 0.70],  # a tie at rank one loses, at any threshold
        [0.60, 0.10],  # won
        [0.50, 0.20],  # won; at threshold 0.5 the score equals it and is accepted
        [0.50, 0.60],  # beaten
        [0.40, 0.30],  # won
        [0.20, 0.90],  # beaten
        [-0.10, -0.20],  # won, with a negative score
    ]
)
OWN, OTHER = NINE[:, 0], NINE[:, 1]


@pytest.mark.parametrize(
    ("threshold", "successes"),
    [(-1.0, 6), (-0.1, 6), (0.0, 5), (0.4, 5), (0.41, 4), (0.5, 4), (0.51, 3), (0.7, 2), (0.8, 2), (0.9, 1), (0.91, 0)],
)
def test_nine_probes(threshold: float, successes: int) -> None:
    assert identification_curve(OWN, OTHER, np.array([threshold])).tolist() == [successes / 9]


def test_tie_at_rank_one_loses_and_score_at_the_threshold_is_accepted() -> None:
    won = [identification_curve(OWN[i : i + 1], OTHER[i : i + 1], np.array([0.5])).tolist() == [1.0] for i in range(9)]
    assert won == [True, True, False, True, True, False, False, False, False]


def naive_rate(own: list[float], other: list[float], threshold: float) -> float:
    successes = 0
    for mine, theirs in zip(own, other, strict=True):
        if mine >= threshold and not theirs >= mine:
            successes += 1
    return successes / len(own)


scores = st.floats(-1, 1) | st.floats(-1, 1).map(lambda x: round(x, 1))
searches = st.lists(st.tuples(scores, scores), min_size=1, max_size=50)


@given(searches, st.lists(scores, max_size=12))
def test_rates_and_curve_against_loops(pairs: list[tuple[float, float]], thresholds: list[float]) -> None:
    own, other = [a for a, _ in pairs], [b for _, b in pairs]
    thresholds = [*thresholds, *own]  # each own score is a threshold too: equality must count
    naive = [naive_rate(own, other, threshold) for threshold in thresholds]
    assert identification_curve(np.array(own), np.array(other), np.array(thresholds)).tolist() == naive


def test_probe_without_a_template_never_succeeds() -> None:
    assert identification_curve(np.array([-np.inf]), np.array([-np.inf]), np.array([-1.0])).tolist() == [0.0]


def test_rate_of_no_searches_is_no_number() -> None:
    empty = np.zeros(0)
    assert np.isnan(identification_curve(empty, empty, np.array([0.1, 0.5]))).tolist() == [True, True]


def naive_rank(scores: list[float], own: int, gallery: list[int]) -> int:
    best = {code: max(s for s, c in zip(scores, gallery, strict=True) if c == code) for code in gallery}
    return 1 + sum(1 for code, score in best.items() if code != own and score >= best[own])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(1, 9), st.booleans(), st.integers(0, 99))
def test_ranks_and_cmc_against_loops(gallery: list[int], block: int, tied: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    probes = rng.choice(gallery, size=9)
    found = rng.uniform(-1, 1, (9, len(gallery)))
    found = np.round(found, 1) if tied else found
    blocks = (found[start : start + block] for start in range(0, 9, block))
    got = ranks(blocks, probes, np.array(gallery))
    naive = [naive_rank(row.tolist(), int(own), gallery) for row, own in zip(found, probes, strict=True)]
    assert got.tolist() == naive
    at = [1, 2, 3, 20]
    assert cmc(got, at).tolist() == [sum(rank <= r for rank in naive) / 9 for r in at]


def test_ranks_by_hand() -> None:
    gallery = np.array([4, 2, 2, 8])  # two templates of 2: the better one speaks for it
    found = np.array([[0.5, 0.1, 0.5, 0.2], [0.5, 0.1, 0.6, 0.2], [0.3, 0.9, 0.8, 0.3], [0.1, 0.1, 0.1, 0.1]])
    got = ranks([found[:3], found[3:]], np.array([2, 2, 8, 4]), gallery)
    assert got.tolist() == [2, 1, 3, 3]  # a tie loses, whoever it is with
    assert cmc(got, [1, 2, 3]).tolist() == [1 / 4, 2 / 4, 1]


def test_rank_of_a_probe_without_a_template_and_rows_that_miss() -> None:
    with pytest.raises(ValueError, match="no template"):
        ranks([np.zeros((1, 2))], np.array([3]), np.array([1, 2]))
    with pytest.raises(ValueError, match="1 rows of scores for 2 probes"):
        ranks([np.zeros((1, 2))], np.array([1, 2]), np.array([1, 2]))
    assert np.isnan(cmc(np.zeros(0, np.int64), [1, 5])).all()
