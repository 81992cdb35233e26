"""Statistics of strangers' scores, and draws of strangers, against loops over people."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from damnatio.methods.strangers import (
    COSINE,
    Strangers,
    _across_people,
    matched,
    mean_direction,
    parted,
    scatter_of,
    statistics_of,
    subspace,
)
from damnatio.models.statistics import Statistics, Tail
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import groups_of


def people(count: int, images: int, dim: int = 64, noise: float = 0.7, seed: int = 0) -> Strangers:
    """People with a direction each, in a space that is wider in some directions than in others."""
    rng = np.random.default_rng(seed)
    widths = np.linspace(2, 0.2, dim)
    centres = rng.normal(size=(count, dim)) * widths
    units = np.repeat(centres, images, axis=0) + noise * rng.normal(size=(count * images, dim)) * widths
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    return Strangers(units, np.repeat(np.arange(count), images), [f"s{i}" for i in range(count)])


def test_mean_and_deviation_across_people_are_those_of_a_loop_over_all_pairs() -> None:
    """Each pair of people weighs the same, however many images they have."""
    rng = np.random.default_rng(1)
    codes = np.array([0, 0, 0, 1, 2, 2])
    units = rng.normal(size=(6, 5))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    groups = list(groups_of(codes))
    first, second = [], []
    for a, b in combinations(range(3), 2):
        scores = [float(units[i] @ units[j]) for i in groups[a] for j in groups[b]]
        first.append(sum(scores) / len(scores))
        second.append(sum(s * s for s in scores) / len(scores))
    mean = sum(first) / 3
    assert _across_people(units, groups) == pytest.approx((mean, math.sqrt(sum(second) / 3 - mean**2)))


def test_the_tail_is_the_mean_excess_over_the_highest_percent() -> None:
    """With the tail `share exp(-(z - at) / scale)`, the share beyond z(s) is s."""
    tail = Tail(share=0.01, at=2.5, scale=0.5)
    assert tail.z(0.01) == 2.5
    assert tail.z(0.0001) == pytest.approx(2.5 + 0.5 * math.log(100))
    assert tail.beyond(tail.z(1e-6)) == pytest.approx(1e-6)
    assert tail.beyond(0) == 0.01
    found = statistics_of(people(300, 3), "test")
    z = []
    units, codes = people(300, 3).few
    for group in groups_of(codes):
        scores = units[codes != codes[group[0]]] @ mean_direction(units[group])
        z.append((scores - scores.mean()) / scores.std())
    pooled = np.sort(np.concatenate(z))
    at = float(np.quantile(pooled, 0.99))
    assert found.tail.at == pytest.approx(at)
    assert found.tail.scale == pytest.approx(float((pooled[pooled > at] - at).mean()))


def test_statistics_of_mated_scores_are_those_of_all_pairs_of_one_person() -> None:
    strangers = people(80, 3)
    scores = [
        float(strangers.units[i] @ strangers.units[j]) for g in strangers.groups for i, j in combinations(g.tolist(), 2)
    ]
    found = statistics_of(strangers, "test")
    assert found.mated_mean == pytest.approx(np.mean(scores))
    assert found.mated_deviation == pytest.approx(np.std(scores))
    assert (found.people, found.source) == (80, "test")


@pytest.mark.parametrize("dim", [64, 128])
def test_scattered_embeddings_are_as_alike_as_strangers(dim: int) -> None:
    """Two draws have the mean score and the deviation that two people have, from fewer people than dimensions too."""
    strangers = people(60, 4, dim)
    statistics = statistics_of(strangers, "test")
    for known, least in ((strangers, 0.75), (None, 0.75)):
        scatter = scatter_of(dim, statistics, known, waves=2048, bandwidth=8.0, seed=3)
        rng = np.random.default_rng(0)
        x = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(600, dim)).astype(np.float32)), dim=1)
        drawn = scatter(x).double().numpy()
        scores = (drawn @ drawn.T)[np.triu_indices(600, 1)]
        assert scores.mean() == pytest.approx(statistics.nonmated_mean, abs=0.03)
        assert least < scores.std() / statistics.nonmated_deviation < 1 / least


def test_the_shrunk_covariance_has_the_wanted_likeness() -> None:
    strangers = people(30, 2, 64)
    mean, deviation = _across_people(strangers.units, strangers.groups)
    mu, factor = matched(strangers)
    covariance = factor @ factor.T
    likeness = np.square(covariance).sum() / np.trace(covariance) ** 2
    assert likeness == pytest.approx(max((deviation / (1 - mean)) ** 2, 1 / 64), rel=1e-6)
    assert mu @ mu == pytest.approx(max(mean, 0))
    assert np.trace(covariance) + mu @ mu == pytest.approx(1)


@given(st.floats(0.04, 0.3), st.floats(-0.05, 0.2))
def test_a_subspace_has_as_many_dimensions_as_the_deviation_asks_for(deviation: float, mean: float) -> None:
    statistics = COSINE.model_copy(update={"nonmated_deviation": deviation, "nonmated_mean": mean})
    mu, factor = subspace(64, statistics, np.random.default_rng(0))
    rank = np.linalg.matrix_rank(factor)
    assert rank == np.clip(round(((1 - max(mean, 0)) / deviation) ** 2), 2, 63)
    assert abs(mu @ factor).max() < 1e-9
    assert np.trace(factor @ factor.T) + mu @ mu == pytest.approx(1)


def test_few_dimensions_are_refused() -> None:
    with pytest.raises(DamnatioError, match="8 dimensions, and the scatter needs at least 16"):
        scatter_of(8, COSINE, None, waves=64, bandwidth=8.0, seed=0)


def test_near_copies_stay_alike_and_other_photographs_do_not() -> None:
    """The expected cosine of two draws is that of strangers plus exp(-w^2 |e - e'|^2 / 2)."""
    dim = 256
    statistics = Statistics(
        nonmated_mean=0.0,
        nonmated_deviation=1 / 15,
        tail=COSINE.tail,
        mated_mean=0.6,
        mated_deviation=0.1,
        people=0,
        source="test",
    )
    scatter = scatter_of(dim, statistics, None, waves=4096, bandwidth=8.0, seed=1)
    rng = np.random.default_rng(2)
    start = torch.from_numpy(rng.normal(size=(400, dim)).astype(np.float32))
    start = torch.nn.functional.normalize(start, dim=1)
    step = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(400, dim)).astype(np.float32)), dim=1)
    for distance in (0.02, 0.1, 0.2, 0.8):
        other = torch.nn.functional.normalize(start + distance * step, dim=1)
        apart = float((start - other).norm(dim=1).square().mean())
        cosine = float((scatter(start) * scatter(other)).sum(dim=1).mean())
        assert cosine == pytest.approx(math.exp(-64 * apart / 2), abs=0.05)


def test_nobody_dominates_the_statistics() -> None:
    """One stranger with a thousand images counts as one stranger."""
    few = people(60, 3)
    many = Strangers(
        np.concatenate([few.units, np.repeat(few.units[:1], 1000, axis=0)]),
        np.concatenate([few.codes, np.zeros(1000, np.int64)]),
        few.names,
    )
    assert len(many.few[0]) == 59 * 3 + 5


def test_the_halves_are_of_people_and_depend_on_their_names_alone() -> None:
    everyone = people(60, 3)
    fit, report = parted(everyone)
    assert fit is not None
    assert report is not None
    assert (len(fit), len(report), len(fit.units)) == (30, 30, 90)
    assert not set(fit.names) & set(report.names)
    backwards = Strangers(everyone.units[::-1], everyone.codes[::-1], everyone.names)
    again = parted(backwards)[1]
    assert again is not None
    assert again.names == report.names
    pooled = Strangers(everyone.units, everyone.codes, [f"retain/{name}" for name in everyone.names])
    assert parted(pooled)[1].names == [f"retain/{name}" for name in report.names]  # type: ignore[union-attr]
    few = people(19, 3)
    assert parted(few) == (few, None)
