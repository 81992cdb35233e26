"""One order and one colour per method."""

from damnatio.methods import METHODS
from damnatio.reporting import looks


def test_every_method_of_the_package_has_a_place_and_a_colour_of_its_own() -> None:
    built_in = {name for name in METHODS.names() if METHODS.get(name).__module__.startswith("damnatio.methods.")}
    assert set(looks.METHODS) == built_in | {"original"}
    assert len({colour for colour, _ in looks.METHODS.values()}) == len(looks.METHODS)


def test_order_is_the_papers_then_the_references_then_ours() -> None:
    variants = ["mine", "GS", "OF-wide", "HD", "FT", "OF", "original", "CURE"]
    assert looks.in_order(variants) == ["original", "CURE", "HD", "OF-wide", "OF", "FT", "GS", "mine"]


def test_colour_does_not_depend_on_who_else_is_drawn() -> None:
    few, many = looks.colours_of(["HD", "mine"]), looks.colours_of(["OF", "HD", "OF-wide", "mine", "other"])
    assert few["HD"] == many["HD"]
    assert len(set(many.values())) == 5


def test_tint_of_a_variant_is_that_of_its_method() -> None:
    assert looks.tint_of("OF-wide") == looks.tint_of("OF") == "ourrow"
    assert looks.tint_of("mine") == ""
