"""Which images make a batch: balanced, distinct, and a function of seed and step alone."""

from collections import Counter
from typing import cast

import numpy as np
import pytest

from damnatio.faces.base import Faces, Images
from damnatio.methods.base import ForgetSet
from damnatio.models.card import Card
from damnatio.models.inputs import Pixels, Rows
from damnatio.support.errors import DamnatioError
from damnatio.training.sampling import Batches, ForgetSampler, RetainSampler

SIZES = {10: 1, 11: 2, 12: 5, 13: 1, 14: 9, 15: 4, 16: 3}
"""Forget images of each identity; two have a single one."""


def forget_set(sizes: dict[int, int]) -> ForgetSet:
    identities = np.repeat(list(sizes), list(sizes.values()))
    images = np.random.default_rng(0).permutation(len(identities)) + 100
    return ForgetSet(images, identities)


def forget_batches(identities: int = 4, images: int = 4, seed: int = 1, steps: int = 60) -> list[tuple[Rows, Rows]]:
    sampler = ForgetSampler(forget_set(SIZES), identities, images, seed)
    return [sampler(step) for step in range(steps)]


def test_forget_batch_never_holds_an_identity_of_a_single_image() -> None:
    seen: set[int] = set()
    for _, identities in forget_batches():
        assert min(Counter(identities.tolist()).values()) >= 2
        seen |= set(identities.tolist())
    assert seen == {11, 12, 14, 15, 16}


def test_forget_batch_is_balanced_over_identities() -> None:
    """So many identities, so many images of each; one with fewer gives all it has."""
    for _, identities in forget_batches(identities=3, images=4):
        numbers = Counter(identities.tolist())
        assert len(numbers) == 3
        assert dict(numbers) == {person: min(SIZES[person], 4) for person in numbers}


def test_forget_identities_are_drawn_alike_whatever_their_number_of_images() -> None:
    drawn = Counter(person for _, ids in forget_batches(identities=1, steps=1000) for person in set(ids.tolist()))
    assert all(150 < drawn[person] < 250 for person in (11, 12, 14, 15, 16))


def test_forget_images_of_a_batch_are_distinct_and_belong_to_their_identity() -> None:
    forget = forget_set(SIZES)
    owner = dict(zip(forget.images.tolist(), forget.identities.tolist(), strict=True))
    for images, identities in forget_batches():
        assert len(set(images.tolist())) == len(images)
        assert [owner[image] for image in images.tolist()] == identities.tolist()


def test_every_forget_image_with_a_partner_is_drawn_in_time() -> None:
    forget = forget_set(SIZES)
    wanted = {int(i) for i, person in zip(forget.images, forget.identities, strict=True) if SIZES[int(person)] > 1}
    assert {image for images, _ in forget_batches() for image in images.tolist()} == wanted


def test_more_identities_asked_for_than_there_are_gives_all() -> None:
    for _, identities in forget_batches(identities=50, steps=3):
        assert set(identities.tolist()) == {11, 12, 14, 15, 16}


def test_no_forget_identity_with_a_pair_is_reported() -> None:
    with pytest.raises(DamnatioError, match="no pair to forget"):
        ForgetSampler(forget_set({1: 1, 2: 1, 3: 1}), 8, 8, seed=1)


def retain_sampler(count: int = 23, batch: int = 5, seed: int = 1) -> RetainSampler:
    rows = np.arange(count) * 7
    return RetainSampler(rows, rows // 7 % 4, batch, seed)


def test_retain_image_comes_at_most_once_an_epoch_with_its_label() -> None:
    sampler = retain_sampler()
    assert sampler.steps_per_epoch == 4
    for epoch in range(3):
        batches = [sampler(epoch * 4 + place) for place in range(4)]
        rows = np.concatenate([rows for rows, _ in batches])
        assert [len(rows) for rows, _ in batches] == [5] * 4
        assert len(set(rows.tolist())) == 20
        for chosen, labels in batches:
            assert labels.tolist() == (chosen // 7 % 4).tolist()


def test_full_epoch_covers_every_retain_image() -> None:
    sampler = retain_sampler(count=20)
    rows = np.concatenate([sampler(step)[0] for step in range(4)])
    assert sorted(rows.tolist()) == [7 * i for i in range(20)]


def test_each_epoch_and_each_seed_has_an_order_of_its_own() -> None:
    sampler = retain_sampler()
    assert sampler(0)[0].tolist() != sampler(4)[0].tolist()
    assert sampler(0)[0].tolist() != retain_sampler(seed=2)(0)[0].tolist()


def test_fewer_retain_images_than_a_batch_are_reported() -> None:
    with pytest.raises(DamnatioError, match="4 retain images, fewer than one batch of 5"):
        retain_sampler(count=4)
    assert retain_sampler(count=5).steps_per_epoch == 1


def test_batches_of_a_step_are_the_same_in_whatever_order_they_are_asked_for() -> None:
    forwards, backwards = retain_sampler(), retain_sampler()
    first = [forwards(step) for step in range(12)]
    last = [backwards(step) for step in reversed(range(12))][::-1]
    for (rows, labels), (same_rows, same_labels) in zip(first, last, strict=True):
        assert rows.tolist() == same_rows.tolist()
        assert labels.tolist() == same_labels.tolist()
    sampler = ForgetSampler(forget_set(SIZES), 3, 3, seed=1)
    later = sampler(7)
    for step in (0, 3, 7):
        asked = sampler(step)
    assert asked[0].tolist() == later[0].tolist()
    assert asked[0].tolist() != sampler(8)[0].tolist()
    assert asked[0].tolist() != ForgetSampler(forget_set(SIZES), 3, 3, seed=2)(7)[0].tolist()


# --- pixels ----------------------------------------------------------------------------------------------------------

PIXELS: Images = np.random.default_rng(0).integers(0, 256, (200, 8, 8, 3), dtype=np.uint8)


class Memory:
    """Pixels by row, as `Faces` gives them."""

    def read(self, rows: Rows) -> Images:
        return PIXELS[rows]


def batches(flip: bool = True, forget: bool = True, seed: int = 1) -> Batches:
    sampler = ForgetSampler(forget_set(SIZES), 3, 3, seed) if forget else None
    pixels = Pixels(cast(Faces, Memory()), Card(backbone="iresnet-tiny", dim=2, size=8))
    return Batches(pixels, retain_sampler(), sampler, flip, seed)


def test_batch_is_the_retain_images_and_then_the_forget_images() -> None:
    batch = batches(flip=False)[3]
    rows, labels = retain_sampler()(3)
    forget_rows, forget_identities = ForgetSampler(forget_set(SIZES), 3, 3, seed=1)(3)
    assert np.array_equal(batch.inputs, PIXELS[np.concatenate([rows, forget_rows])])
    assert batch.labels.tolist() == labels.tolist()
    assert batch.forget_rows.tolist() == forget_rows.tolist()
    assert batch.forget_identities.tolist() == forget_identities.tolist()


def test_batch_without_a_method_holds_retain_images_only() -> None:
    batch = batches(flip=False, forget=False)[0]
    assert len(batch.inputs) == 5
    assert len(batch.forget_rows) == len(batch.forget_identities) == 0


def test_flipped_image_is_mirrored_left_to_right_and_about_half_are() -> None:
    before = PIXELS.copy()
    flipped = total = 0
    for step in range(40):
        plain, mirrored = batches(flip=False)[step].inputs, batches()[step].inputs
        for original, image in zip(plain, mirrored, strict=True):
            turned = not np.array_equal(image, original)
            assert np.array_equal(image, original.flip(1) if turned else original)
            flipped += turned
            total += 1
    assert 0.4 < flipped / total < 0.6
    assert np.array_equal(PIXELS, before)


def test_flips_are_decided_by_seed_and_step() -> None:
    data = batches()
    late = data[9].inputs.clone()
    data[2]
    assert np.array_equal(data[9].inputs, late)
    assert np.array_equal(batches()[9].inputs, late)
    assert not np.array_equal(batches(flip=False)[9].inputs, late)


def test_each_step_has_flips_of_its_own() -> None:
    plain, mirrored = batches(flip=False), batches()
    turned = [(plain[step].inputs[:5] != mirrored[step].inputs[:5]).flatten(1).any(dim=1) for step in range(20)]
    assert len({tuple(pattern.tolist()) for pattern in turned}) > 5
