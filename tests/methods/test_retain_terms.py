"""The retain terms, `classify` and `distil`: their values, and which of them applies to which variant."""

import dataclasses

import pytest
import torch

from damnatio.methods import METHODS
from damnatio.methods.base import ForgetBatch, Method, MethodSettings, RetainBatch, fine_tuning, method_settings
from damnatio.recipe.files import load
from damnatio.recipe.schema import Recipe
from damnatio.support.errors import DamnatioError
from tests.methods.world import batch_of, method_named

OWN = ["CURE"]
EVERY = [name for name in METHODS.names() if issubclass(METHODS.get(name), Method)]  # now: other tests register more
CHOOSES = [name for name in EVERY if fine_tuning(name).retain_loss is Method.retain_loss]


def term_of(recipe: Recipe, variant: str) -> str | None:
    settings = method_settings(recipe, variant)
    assert isinstance(settings, MethodSettings)
    return settings.retain


def retained(batch: ForgetBatch) -> RetainBatch:
    return RetainBatch(batch.raw, batch.frozen, torch.arange(len(batch.raw)) % 7)


def test_every_method_takes_either_term_but_for_those_with_their_own() -> None:
    assert set(EVERY) - set(CHOOSES) == set(OWN)


@pytest.mark.parametrize("name", CHOOSES)
@pytest.mark.parametrize("seed", range(3))
def test_distillation_is_the_mean_of_one_minus_the_cosine_to_the_original(name: str, seed: int) -> None:
    batch = batch_of([4, 3, 2], seed=seed)
    method, head = method_named(name, batch, retain="distil")
    assert batch.frozen is not None
    total = 0.0
    for ours, theirs in zip(batch.unit, batch.frozen, strict=True):
        total += 1 - sum(float(a) * float(b) for a, b in zip(ours, theirs, strict=True))
    assert float(method.retain_loss(retained(batch), head)) == pytest.approx(total / 9, abs=1e-12)


def test_two_images_by_hand() -> None:
    """One embedding is 60 degrees from f*'s, the other opposite to it: (1/2 + 2) / 2."""
    angles = torch.deg2rad(torch.tensor([60.0, 180.0], dtype=torch.float64))
    batch = batch_of([2], units=torch.stack([angles.cos(), angles.sin()], dim=1))
    method, head = method_named("HD", batch, retain="distil")
    frozen = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    retain = dataclasses.replace(retained(batch), frozen=frozen)
    assert float(method.retain_loss(retain, head)) == pytest.approx(1.25)


def test_distillation_uses_neither_labels_nor_head() -> None:
    batch = batch_of([4, 3])
    method, head = method_named("HD", batch, retain="distil")
    raw = batch.raw.clone().requires_grad_()
    retain = RetainBatch(raw, batch.frozen, torch.full((7,), -1))
    method.retain_loss(retain, head).backward()  # type: ignore[no-untyped-call]
    assert raw.grad is not None
    assert head.weight.grad is None


@pytest.mark.parametrize("name", [name for name in CHOOSES if name not in ("NG+", "GA")])
def test_classification_is_the_loss_of_the_head(name: str) -> None:
    batch = batch_of([4, 3])
    default = METHODS.get(name).Settings.model_fields["retain"].default
    for words in ({}, {"retain": "classify"}) if default is None else ({"retain": "classify"},):
        method, head = method_named(name, batch, **words)
        expected = head(batch.raw, retained(batch).labels)
        assert torch.equal(method.retain_loss(retained(batch), head), expected)


def test_a_variant_has_its_own_term_or_that_of_all() -> None:
    pair = "forget.settings.HD-other={method: HD, retain: %s}"
    plain = load("demo", [pair % "distil"])
    assert term_of(plain, "HD") == "classify"
    assert term_of(plain, "HD-other") == "distil"
    changed = load("demo", ["forget.retain=distil", pair % "classify"])
    assert term_of(changed, "HD") == "distil"
    assert term_of(changed, "HD-other") == "classify"


@pytest.mark.parametrize("name", OWN)
def test_a_method_with_a_term_of_its_own_keeps_it_and_refuses_another(name: str) -> None:
    assert term_of(load("demo", ["forget.retain=distil"]), name) is None
    with pytest.raises(DamnatioError, match=rf"forget.settings.{name}.retain: {name} has a retain term of its own"):
        load("demo", [f"forget.settings.{name}.retain=distil"])


def test_an_unknown_term_is_named() -> None:
    with pytest.raises(DamnatioError, match=r"forget\.retain: .*'classify' or 'distil' \(given: 'destil'\)"):
        load("demo", ["forget.retain=destil"])
