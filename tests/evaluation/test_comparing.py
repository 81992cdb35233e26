"""Scores of comparisons, each function against loops over single vectors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio.evaluation import scanning, searching
from damnatio.evaluation.comparing import leave_one_out, mated_across, mated_pairs, search, templates
from damnatio.evaluation.scanning import GRID, Scores, Units, dots, on_grid
from damnatio.metrics.identification import identification_curve
from damnatio.metrics.verification import calibrate
from damnatio.support.tables import Codes

DIM = 6


def drawn(sizes: list[int], seed: int = 0) -> tuple[Units, Codes]:
    """Random unit vectors, so many of each identity, in no order; the codes have gaps."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)) * 3 + 1, sizes)).astype(np.int64)
    units = rng.normal(size=(len(codes), DIM))
    return on_grid(units / np.linalg.norm(units, axis=1, keepdims=True)), codes


def uneven(seed: int) -> tuple[Units, Codes]:
    return drawn([1, 4, 2, 1, 7, 3], seed)


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
    assert identification_curve(own[:6], best[:6], np.array([point.threshold])).tolist() == [successes / 6]


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
    for module in (scanning, searching):
        monkeypatch.setattr(module, "ROWS", block)
        monkeypatch.setattr(module, "COLUMNS", block)
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
    assert [len(scores) for scores in search(*nothing, *some)] == [0, 0]
    assert len(leave_one_out(*nothing)) == 0


def test_search_in_an_empty_gallery_finds_nothing() -> None:
    own, best = search(*uneven(0), np.zeros((0, DIM)), np.zeros(0, dtype=np.int64))
    assert np.isneginf(own).all()
    assert np.isneginf(best).all()
