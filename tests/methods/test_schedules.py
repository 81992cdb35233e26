"""The schedule of a variant: that of `forget`, unless the method or the variant has its own."""

from typing import Any

import pytest

from damnatio.methods.base import SCHEDULE, MethodSettings, schedule_of
from damnatio.recipe.files import load
from damnatio.recipe.schema import ForgetSettings
from damnatio.support.errors import DamnatioError

OWN: dict[str, Any] = {
    "epochs": 7,
    "batch": 96,
    "warmup_epochs": 0.5,
    "optimiser": "adamw",
    "weight_decay": 0.25,
    "batch_norm": "frozen",
    "identities_per_batch": 3,
    "images_per_identity": 5,
}


def test_every_setting_of_the_schedule_is_one_of_both_sections_and_unset_by_default() -> None:
    assert set(SCHEDULE) == set(OWN)
    for name in SCHEDULE:
        assert name in ForgetSettings.model_fields
        assert MethodSettings.model_fields[name].default is None


@pytest.mark.parametrize("name", SCHEDULE)
def test_a_variant_may_replace_each_of_them_for_itself(name: str) -> None:
    recipe = load("demo", [f"forget.settings.HD-own={{method: HD, {name}: {OWN[name]}}}"])
    assert schedule_of(recipe, "HD") == recipe.forget
    assert schedule_of(recipe, "HD-own") == recipe.forget.model_copy(update={name: OWN[name]})
    assert getattr(recipe.forget, name) != OWN[name]


def test_a_schedule_that_cannot_be_is_refused_when_the_recipe_is_read() -> None:
    with pytest.raises(
        DamnatioError, match=r"forget\.settings\.HD: warmup_epochs \(2\) must be less than epochs \(2\)"
    ):
        load("demo", ["forget.settings.HD.warmup_epochs=2"])
    with pytest.raises(DamnatioError, match=r"forget\.settings\.HD\.images_per_identity"):
        load("demo", ["forget.settings.HD.images_per_identity=1"])


def test_a_closed_form_has_no_schedule_of_its_own() -> None:
    recipe = load("demo")
    assert schedule_of(recipe, "GS") is recipe.forget
    with pytest.raises(DamnatioError, match=r"unknown key .forget\.settings\.GS\.epochs"):
        load("demo", ["forget.settings.GS.epochs=3"])
