"""The map of some people: t-SNE against its own definition, and who is chosen."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

from damnatio.evaluation import plane
from damnatio.evaluation.plane import gradient, lay_out, write_plane
from damnatio.partitions import Partitions
from damnatio.support.tables import Table
from tests.evaluation.small_world import SCALES, partitions, random_units


def people(count: int, images: int, noise: float, seed: int = 0) -> plane.Points:
    rng = np.random.default_rng(seed)
    raw = np.repeat(rng.normal(size=(count, 16)), images, axis=0) + noise * rng.normal(size=(count * images, 16))
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True))


def distances(points: plane.Points) -> plane.Points:
    return np.array([[float(((a - b) ** 2).sum()) for b in points] for a in points])


# --- t-SNE -----------------------------------------------------------------------------------------------------------


def naive_affinities(apart: plane.Points, perplexity: float) -> plane.Points:
    """By the definition: a Gaussian around each point, as wide as gives it the perplexity; the mean of both ways."""
    count = len(apart)
    own = np.zeros((count, count))
    for i in range(count):
        others = [j for j in range(count) if j != i]

        def given(beta: float, i: int = i, others: list[int] = others) -> plane.Points:
            weights = np.exp(-beta * (apart[i, others] - apart[i, others].min()))
            return np.asarray(weights / weights.sum())

        def entropy(log_beta: float, given: object = given) -> float:
            p = given(np.exp(log_beta))  # type: ignore[operator]
            return float(-(p * np.log(np.maximum(p, 1e-300))).sum() - np.log(perplexity))

        own[i, others] = given(float(np.exp(brentq(entropy, -10, 10))))
    return (own + own.T) / (2 * count)


@pytest.mark.parametrize(("count", "perplexity"), [(40, plane.NEIGHBOURS), (13, 4.0)])
def test_affinities_have_the_perplexity_that_is_asked_for(count: int, perplexity: float) -> None:
    """Few points cannot have so many neighbours: a third of the others."""
    apart = distances(people(count, 1, 0.0))
    found = plane._affinities(apart)
    assert np.array_equal(found, found.T)
    assert found.sum() == pytest.approx(1, abs=1e-6)
    assert found == pytest.approx(naive_affinities(apart, perplexity), abs=1e-7)


def naive_divergence(alike: plane.Points, points: plane.Points) -> float:
    apart, places = distances(points), range(len(points))
    student = {(i, j): 1 / (1 + float(apart[i, j])) for i in places for j in places if i != j}
    whole = sum(student.values())
    parts = [float(alike[i, j]) * math.log(alike[i, j] / (value / whole)) for (i, j), value in student.items()]
    return math.fsum(parts)


def test_gradient_is_the_slope_of_the_divergence() -> None:
    rng = np.random.default_rng(1)
    alike, points = plane._affinities(distances(people(9, 1, 0.0))), rng.normal(size=(9, 2))
    found, step = gradient(alike, points), 1e-5
    for place in np.ndindex(points.shape):
        there = np.zeros_like(points)
        there[place] = step
        slope = (naive_divergence(alike, points + there) - naive_divergence(alike, points - there)) / (2 * step)
        assert found[place] == pytest.approx(slope, abs=1e-7), place


def test_layout_fits_far_better_than_chance() -> None:
    units = people(6, 5, 0.5)
    found = lay_out(units)
    alike = plane._affinities(distances(units))
    chance = np.random.default_rng(0).permutation(found)
    assert naive_divergence(alike, found) < 0.5 * naive_divergence(alike, chance)
    assert np.array_equal(lay_out(units), found)


def test_people_lie_together_and_apart_from_others() -> None:
    """Of nearly the same photographs, the nearest neighbours are those of the same person."""
    found = distances(lay_out(people(8, 6, 0.05)))
    whose = np.repeat(np.arange(8), 6)
    for i, row in enumerate(found):
        assert {whose[j] for j in np.argsort(row)[1:6]} == {whose[i]}


def test_unchanged_embeddings_hardly_move() -> None:
    units = people(20, 6, 0.5)
    before = lay_out(units)
    moved = np.linalg.norm(lay_out(units, before) - before, axis=1) / np.abs(before).max()
    assert np.median(moved) < 0.05
    assert moved.mean() < 0.08


def test_who_changed_leaves_his_place_and_the_others_keep_theirs() -> None:
    """One person's photographs become those of different strangers."""
    units = people(20, 6, 0.4)
    before = lay_out(units)
    scattered = units.copy()
    scattered[:6] = units[6 * np.array([3, 6, 9, 12, 15, 18])]
    after = lay_out(scattered, before)
    moved = np.linalg.norm(after - before, axis=1) / np.abs(before).max()
    assert np.median(moved[:6]) > 3 * np.median(moved[6:])
    spread = [np.linalg.norm(points[:6] - points[:6].mean(axis=0), axis=1).mean() for points in (before, after)]
    assert spread[1] > 3 * spread[0]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_hardly_anybody_has_a_place_too(count: int) -> None:
    found = lay_out(people(5, 1, 0.0)[:count])
    assert found.shape == (count, 2)
    assert np.isfinite(found).all()
    assert np.isfinite(lay_out(people(5, 1, 0.0)[:count], found)).all()


def test_equal_photographs_have_places() -> None:
    """A collapsed model: every image has one embedding."""
    found = lay_out(np.tile(people(1, 1, 0.0), (12, 1)))
    assert np.isfinite(found).all()
    assert np.isfinite(lay_out(np.tile(people(1, 1, 0.0), (12, 1)), people(12, 1, 0.0)[:, :2])).all()


# --- who is chosen ---------------------------------------------------------------------------------------------------


def test_table_has_some_images_of_some_people_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"FORGOTTEN": 3, "KEPT": 2, "SEEN": 4, "UNSEEN": 2, "IMAGES": 3}.items():
        monkeypatch.setattr(plane, name, value)
    table = partitions()
    units, rows = random_units(table, 1)
    write_plane(units, rows, Partitions(table, SCALES), "S2", 1, None, tmp_path / "plane.parquet")
    found = Table.read(tmp_path / "plane.parquet").rows()
    wanted = {"seen": ("F", "train", 3, 4), "unseen": ("F", "eval", 3, 2), "retain": ("R", "", 2, 3)}
    wanted["test"] = ("T", "", 2, 3)
    assert {row["kind"] for row in found} == set(wanted)
    assert len({row["row"] for row in found}) == len(found)
    for kind, (partition, role, most, images) in wanted.items():
        mine = [row for row in found if row["kind"] == kind]
        who = {row["identity"] for row in mine}
        assert 1 <= len(who) <= most
        for row in mine:
            assert (table["image"][row["row"]], table["identity"][row["row"]]) == (row["image"], row["identity"])
            assert table["partition"][row["row"]] == partition
            assert not role or table["role"][row["row"]] == role
        for name in who:
            assert sum(row["identity"] == name for row in mine) <= images
    both = [{row["identity"] for row in found if row["kind"] == kind} for kind in ("seen", "unseen")]
    assert both[0] == both[1], "the same people, photographs used and new"


def test_altered_model_has_the_places_of_the_same_images(tmp_path: Path) -> None:
    table = partitions()
    units, rows = random_units(table, 1)
    members = Partitions(table, SCALES)
    write_plane(units, rows, members, "S2", 1, None, tmp_path / "first")
    write_plane(units, rows, members, "S2", 1, tmp_path / "first", tmp_path / "same")
    kept = rows != Table.read(tmp_path / "first")["row"][0]  # an image that this model has not embedded
    write_plane(units[kept], rows[kept], members, "S2", 1, tmp_path / "first", tmp_path / "fewer")
    first, same, fewer = (Table.read(tmp_path / name) for name in ("first", "same", "fewer"))
    assert same["row"].tolist() == first["row"].tolist()
    assert set(fewer["row"].tolist()) <= set(first["row"].tolist())
    write_plane(units, rows, members, "S2", 2, None, tmp_path / "other")
    assert Table.read(tmp_path / "other")["row"].tolist() != first["row"].tolist(), "another seed, other people"
