"""Ten-fold accuracy, retrieval and compactness, against loops and cases worked by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from damnatio.metrics.benchmarks import compactness, retrieval, ten_fold, ten_fold_on_grid

coarse = st.floats(-1, 1).map(lambda x: round(x, 1))
pairs = st.lists(st.tuples(st.floats(-1, 1) | coarse, st.booleans()), min_size=6, max_size=40)


def naive_splits(n: int, folds: int) -> list[range]:
    """The first n mod folds are one longer."""
    splits, start = [], 0
    for fold in range(folds):
        length = n // folds + (fold < n % folds)
        splits.append(range(start, start + length))
        start += length
    return splits


def naive_folds(scores: list[float], same: list[bool], folds: int) -> tuple[list[float], list[float]]:
    accuracies, thresholds = [], []
    for fold in naive_splits(len(scores), folds):
        train = [i for i in range(len(scores)) if i not in fold]
        candidates = sorted({scores[i] for i in train}, reverse=True)
        candidates.insert(0, math.nextafter(candidates[0], math.inf))
        most, best = -1, math.nan
        for threshold in candidates:  # from the strictest: a later one must be better to be taken
            right = sum((scores[i] >= threshold) == same[i] for i in train)
            if right > most:
                most, best = right, threshold
        thresholds.append(best)
        accuracies.append(sum((scores[i] >= best) == same[i] for i in fold) / len(fold))
    return accuracies, thresholds


def naive_grid(distances: list[float], same: list[bool], folds: int) -> tuple[list[float], list[float]]:
    """InsightFace's: 400 thresholds, the first maximum, and `<`."""
    accuracies, thresholds = [], []
    grid = np.arange(0, 4, 0.01).tolist()
    for fold in naive_splits(len(distances), folds):
        train = [i for i in range(len(distances)) if i not in fold]
        right = [sum((distances[i] < t) == same[i] for i in train) / len(train) for t in grid]
        best = grid[right.index(max(right))]
        thresholds.append(best)
        accuracies.append(sum((distances[i] < best) == same[i] for i in fold) / len(fold))
    return accuracies, thresholds


@given(pairs, st.integers(2, 6))
def test_folds_against_loops(given: list[tuple[float, bool]], folds: int) -> None:
    scores, same = [score for score, _ in given], [label for _, label in given]
    found = ten_fold(np.array(scores), np.array(same), folds)
    accuracies, thresholds = naive_folds(scores, same, folds)
    assert found.accuracies.tolist() == pytest.approx(accuracies, abs=1e-15)
    assert found.thresholds.tolist() == thresholds
    assert found.mean == pytest.approx(sum(accuracies) / folds)
    variance = sum((a - sum(accuracies) / folds) ** 2 for a in accuracies) / folds
    assert found.deviation == pytest.approx(math.sqrt(variance), abs=1e-12)


@given(pairs)
def test_the_grid_is_insightfaces(given: list[tuple[float, bool]]) -> None:
    scores, same = [score for score, _ in given], [label for _, label in given]
    found = ten_fold_on_grid(np.array(scores), np.array(same), 3)
    accuracies, thresholds = naive_grid([2 - 2 * score for score in scores], same, 3)
    assert found.accuracies.tolist() == pytest.approx(accuracies, abs=1e-15)
    assert found.thresholds.tolist() == thresholds


def test_three_folds_by_hand() -> None:
    scores = np.array([0.9, 0.1, 0.8, 0.4, 0.3, 0.5])
    same = np.array([True, False, True, False, True, False])
    found = ten_fold(scores, same, 3)
    # without the first: 0.8+ 0.5- 0.4- 0.3+ -> at 0.8 three are right, and 0.9 and 0.1 are judged rightly
    # without the second: 0.9+ 0.5- 0.3+ 0.1- -> 0.9 and 0.3 get three each, the stricter wins and rejects 0.8
    # without the third: 0.9+ 0.8+ 0.4- 0.1- -> 0.8 gets all, and rejects 0.3+ and 0.5-
    assert found.thresholds.tolist() == [0.8, 0.9, 0.8]
    assert found.accuracies.tolist() == [1, 0.5, 0.5]
    assert found.mean == pytest.approx(2 / 3)
    assert found.deviation == pytest.approx(math.sqrt(Fraction(1, 18)))


def test_a_fold_of_one_kind_and_folds_that_teach_nothing() -> None:
    scores = np.array([0.2, 0.1, 0.9, 0.3])
    found = ten_fold(scores, np.array([False, False, True, True]), 2)
    # trained on mated pairs alone, all of them are accepted; on non-mated ones alone, none
    assert found.thresholds.tolist() == [0.3, math.nextafter(0.2, 1)]
    assert found.accuracies.tolist() == [1, 1]


def test_scores_at_the_threshold_are_accepted_and_distances_at_it_are_not() -> None:
    scores, same = np.array([0.5, 0.5, 0.0, 0.0]), np.array([True, True, False, False])
    assert ten_fold(scores[[0, 2, 1, 3]], same[[0, 2, 1, 3]], 2).mean == 1
    found = ten_fold_on_grid(scores[[0, 2, 1, 3]], same[[0, 2, 1, 3]], 2)
    assert (found.thresholds > 1).all()  # the distance of a cosine of 0.5 is 1
    assert found.thresholds.tolist() == pytest.approx([1.01, 1.01])


@pytest.mark.parametrize(("pairs", "folds"), [(9, 10), (5, 1)])
def test_too_few_pairs_or_folds(pairs: int, folds: int) -> None:
    with pytest.raises(ValueError, match="pair in each"):
        ten_fold(np.zeros(pairs), np.ones(pairs, dtype=bool), folds)


def naive_retrieval(scores: NDArray[np.float64], codes: list[int]) -> tuple[float, float, int]:
    """Sorts each list of candidates with every stranger before an equal score of the query's own identity."""
    hits, precisions = [], []
    for query, code in enumerate(codes):
        others = [i for i in range(len(codes)) if i != query]
        if not any(codes[i] == code for i in others):
            continue
        ranked = sorted(others, key=lambda i: (-scores[query, i], codes[i] == code))
        hits.append(codes[ranked[0]] == code)
        right, found = 0, []
        for place, i in enumerate(ranked, start=1):
            if codes[i] == code:
                right += 1
                found.append(right / place)
        precisions.append(sum(found) / len(found))
    n = len(hits)
    return (sum(hits) / n, sum(precisions) / n, n) if n else (math.nan, math.nan, 0)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=14), st.integers(1, 15), st.booleans(), st.integers(0, 99))
def test_retrieval_against_loops(codes: list[int], block: int, tied: bool, seed: int) -> None:
    scores = np.random.default_rng(seed).uniform(-1, 1, (len(codes), len(codes)))
    scores = np.round(scores, 1) if tied else scores
    blocks = (scores[start : start + block] for start in range(0, len(codes), block))
    found = retrieval(blocks, np.array(codes))
    recall, precision, queries = naive_retrieval(scores, codes)
    assert found.recall_at_1 == pytest.approx(recall, nan_ok=True)
    assert found.mean_average_precision == pytest.approx(precision, nan_ok=True)
    assert (found.queries, found.left_out) == (queries, len(codes) - queries)


def test_retrieval_by_hand() -> None:
    codes = np.array([7, 7, 7, 3, 9])
    scores = np.full((5, 5), 0.0)
    scores[0] = [1.0, 0.9, 0.2, 0.5, 0.2]  # own at ranks 1 and 4: 0.2 of a stranger goes before 0.2
    scores[1] = [0.8, 1.0, 0.7, 0.8, 0.1]  # a tie at rank one is no hit: own at ranks 2 and 3
    scores[2] = [0.3, 0.2, 1.0, 0.1, 0.0]  # own at ranks 1 and 2
    found = retrieval([scores[:2], scores[2:]], codes)
    assert found.recall_at_1 == pytest.approx(Fraction(2, 3))
    precisions = [(1 + Fraction(2, 4)) / 2, (Fraction(1, 2) + Fraction(2, 3)) / 2, Fraction(1)]
    assert found.mean_average_precision == pytest.approx(float(sum(precisions) / 3))
    assert (found.queries, found.left_out) == (3, 2)


def test_retrieval_needs_a_row_an_image() -> None:
    with pytest.raises(ValueError, match="2 rows of scores for 3 images"):
        retrieval([np.zeros((2, 3))], np.array([0, 0, 0]))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=14), st.integers(0, 99))
def test_compactness_against_loops(codes: list[int], seed: int) -> None:
    units = np.random.default_rng(seed).normal(size=(len(codes), 5))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    cosines = []
    for unit, code in zip(units, codes, strict=True):
        mine = [u for u, c in zip(units, codes, strict=True) if c == code]
        if len(mine) > 1:
            centroid = sum(mine, start=np.zeros(5)) / len(mine)
            cosines.append(unit @ centroid / np.linalg.norm(centroid))
    expected = sum(cosines) / len(cosines) if cosines else math.nan
    assert compactness(units, np.array(codes)) == pytest.approx(expected, nan_ok=True)
