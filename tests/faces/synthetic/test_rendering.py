"""Synthetic faces: the same bits from the same names, three levels of variation that keep their distances, depth."""

import os

import numpy as np
import pytest
from numpy.typing import NDArray

from damnatio.faces.synthetic import anatomy, rendering
from damnatio.faces.synthetic.anatomy import F32, Params
from damnatio.faces.synthetic.rendering import render
from damnatio.support.errors import DamnatioError


def names(count: int, start: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """As many images: four of each identity, two instances of two shots."""
    i = np.arange(start, start + count)
    return i // 4, i // 2 % 2, i % 2


def distances(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> NDArray[np.float64]:
    """L2 between normalised images, scaled to the number of values of a 112 x 112 image."""
    x, y = (v.reshape(len(v), -1).astype(np.float64) for v in (a, b))
    x, y = ((v - v.mean(1, keepdims=True)) / v.std(1, keepdims=True) for v in (x, y))
    far: NDArray[np.float64] = np.sqrt(37632 / x.shape[1]) * np.linalg.norm(x - y, axis=1)
    return far


@pytest.mark.parametrize("size", [32, 48, 112])
def test_images_fill_their_range(size: int) -> None:
    faces = render(1, *names(16), size)
    assert faces.shape == (16, size, size, 3)
    assert faces.dtype == np.uint8
    assert (faces.reshape(16, -1).std(1) > 15).all()
    assert 60 < faces.mean() < 190


@pytest.mark.parametrize("size", [31, 113, 0])
def test_a_size_out_of_range_is_a_sentence(size: int) -> None:
    with pytest.raises(DamnatioError, match=rf"^A synthetic face has a side of 32 to 112 pixels, not {size}\.$"):
        render(1, *names(1), size)


def test_no_faces_are_no_error() -> None:
    assert render(1, *names(0), 32).shape == (0, 32, 32, 3)


@pytest.mark.parametrize("size", [32, 45])
def test_an_image_depends_on_its_name_alone(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    who, when, which = names(40)
    faces = render(5, who, when, which, size)
    order = np.random.default_rng(0).permutation(40)
    np.testing.assert_array_equal(render(5, who[order], when[order], which[order], size), faces[order])
    for i in (0, 17, 39):
        np.testing.assert_array_equal(render(5, who[[i]], when[[i]], which[[i]], size)[0], faces[i])
    for chunk, block, threads in ((1, 7, 1), (3 * 4 * size**2, 256, 3)):
        monkeypatch.setattr(rendering, "_CHUNK", chunk)
        monkeypatch.setattr(rendering, "_BLOCK", block)
        monkeypatch.setattr(os, "cpu_count", lambda threads=threads: threads)
        np.testing.assert_array_equal(render(5, who, when, which, size), faces)


def test_every_counter_and_the_seed_make_another_image() -> None:
    zero, one = np.zeros(1, np.int64), np.ones(1, np.int64)
    images = [render(seed, zero, zero, zero, 32) for seed in (1, 2)]
    images += [render(1, *counters, 32) for counters in ((one, zero, zero), (zero, one, zero), (zero, zero, one))]
    assert len({image.tobytes() for image in images}) == 5


@pytest.mark.parametrize(("size", "count"), [(32, 300), (64, 60), (112, 20)])
def test_shots_of_an_instance_are_near_and_instances_are_not(size: int, count: int) -> None:
    who = np.arange(count)
    first, second = np.zeros_like(who), np.ones_like(who)
    faces = render(3, who, first, first, size)
    burst = distances(faces, render(3, who, first, second, size))
    apart = distances(faces, render(3, who, second, first, size))
    assert 5 < np.median(burst) < 20
    assert (burst < 30).mean() > 0.98
    assert burst.max() < 40 < 70 < apart.min()


def capture(who: NDArray[np.int64], size: int, **forced: float) -> tuple[Params, F32]:
    """Different people in one and the same capture, with some parameters forced."""
    same = np.zeros_like(who)
    face = anatomy.identity(1, who)
    face.update(anatomy.instance(1, same, same))
    face.update(anatomy.shot(1, same, same, same))
    for name, value in {"glasses": 0, "cap": 0, **forced}.items():
        face[name] = np.full_like(face[name], value)
    anatomy.express(face)
    anatomy.pose(face)
    return face, rendering._expose(face, size)


def test_identities_differ_under_the_same_capture() -> None:
    who = np.arange(60)
    face, light = capture(who, 32)
    images = rendering._develop(face, light, anatomy.key(1, 4, who))
    assert np.quantile(distances(images[:-1], images[1:]), 0.05) > 80


def test_ten_thousand_identities_are_ten_thousand() -> None:
    people = anatomy.identity(1, np.arange(10_000))
    traits = np.concatenate([column.reshape(-1, *column.shape[-2:])[0] for column in people.values()], axis=1)
    assert traits.shape[1] > 60
    assert len(np.unique(traits.round(3), axis=0)) == 10_000


def test_unlikeness_stretches_the_shapes_of_people_and_not_their_colours() -> None:
    who = np.arange(50)
    usual, stretched = anatomy.identity(1, who), anatomy.identity(1, who, 1.5)
    for name, (mean, *_) in anatomy._SHAPE.items():
        np.testing.assert_allclose(stretched[name] - mean, 1.5 * (usual[name] - mean), atol=1e-6)
    for name in ("skin", "hair", "iris", "beard", "hair_length"):
        np.testing.assert_array_equal(stretched[name], usual[name])


def test_variation_shrinks_how_far_captures_lie_from_their_mean() -> None:
    who, when = np.arange(50), np.arange(50)
    usual, less, none = (anatomy.instance(1, who, when, variation) for variation in (1.0, 0.6, 0.0))
    for name, mean in (("roll", 0.0), ("zoom", 1.0), ("brow_raise", 0.004), ("contrast", 0.0)):
        inside = np.abs(usual[name]) < 0.17  # the roll is cut off further out
        np.testing.assert_allclose((less[name] - mean)[inside], (0.6 * (usual[name] - mean))[inside], atol=1e-6)
    for name in ("yaw", "pitch", "light_x", "exposure"):
        assert np.ptp(none[name], axis=-2).max() == 0
        assert np.ptp(usual[name], axis=-2).max() > 0
    np.testing.assert_array_equal(less.glasses, usual.glasses)


def test_captures_stay_apart_where_they_vary_less() -> None:
    who = np.arange(300)
    first, second = np.zeros_like(who), np.ones_like(who)
    faces, others = (render(3, who, when, first, 32, unlikeness=1.5, variation=0.6) for when in (first, second))
    assert distances(faces, others).min() > 45  # one capture instance lies below 30


SIDE = 96
PLAIN = {"pitch": 0, "roll": 0, "freckles": 0, "beard": 0, "moustache": 0, "hairline": 0.7, "hairline_temple": 0.6}


def mark(x: float, y: float, yaw: float) -> tuple[float, float]:
    """Where in the frame (0..1 from the left) a mole at (x, y) of a turned face is seen, and how much of it."""
    where = {"mole0_x": x, "mole0_y": y, "mole0_size": 0.06, "mole1_x": 9, **PLAIN, "yaw": yaw}
    one = np.array([7])
    (_, bare), (_, marked) = (capture(one, SIDE, **where, moles=moles) for moles in (0, 1))
    change = np.abs(marked - bare).sum((0, 1)).reshape(SIDE, SIDE).sum(0)
    return float(change @ (np.arange(SIDE) + 0.5) / SIDE / change.sum()), float(change.sum())


def test_a_turning_head_has_parallax() -> None:
    """No map of the plane, however it aligns a frame, moves the nose against both cheeks."""
    tip = float(anatomy.identity(1, np.array([7])).nose_y[0, 0])
    between = {}
    for yaw in (-0.45, 0.0, 0.45):
        left, nose, right = (mark(x, y, yaw)[0] for x, y in ((-0.4, -0.35), (0, tip), (0.4, -0.35)))
        between[yaw] = (nose - left) / (right - left)
    assert between[-0.45] < 0.4 < 0.45 < between[0.0] < 0.55 < 0.6 < between[0.45]


def test_the_nose_hides_the_cheek_behind_it() -> None:
    (_, near), (_, far) = mark(0.2, -0.3, -0.6), mark(0.2, -0.3, 0.6)
    assert far < 0.2 * near
