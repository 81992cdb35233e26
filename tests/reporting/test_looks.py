"""One order and one look per method, which people tell apart."""

import itertools
import json
import re
from collections.abc import Mapping

import pytest

from damnatio.methods import METHODS
from damnatio.reporting import looks
from tests.reporting.vision import MACHADO, VISIONS, ciede2000, contrast, distance

BACKGROUNDS = {"colour": "#ffffff", "dark": "#16181d"}
GRAPHICS = 3.0
"""the contrast that WCAG 2.2 asks of graphics (1.4.11)"""
APART, DEFICIENT, SAME_DASH = 15.0, 9.0, 20.0
"""least CIEDE2000 between two methods: to full vision, with a colour deficiency, and to anybody (in grey too) where the
two have the same dash"""
OTHERS = {str(place): look for place, look in enumerate(looks.OTHERS)}


@pytest.mark.parametrize("theme", BACKGROUNDS)
@pytest.mark.parametrize("palette", [looks.METHODS, OTHERS], ids=["methods", "others"])
def test_people_tell_any_two_looks_apart(palette: Mapping[str, looks.Look], theme: str) -> None:
    for one, two in itertools.combinations(palette, 2):
        first, second = (getattr(palette[name], theme) for name in (one, two))
        seen = {vision: distance(first, second, vision) for vision in VISIONS}
        assert palette[one].marker != palette[two].marker
        assert seen["full"] >= APART, (one, two, seen)
        assert min(seen[vision] for vision in MACHADO) >= DEFICIENT, (one, two, seen)
        if palette[one].dash == palette[two].dash:
            assert min(seen.values()) >= SAME_DASH, (one, two, seen)


@pytest.mark.parametrize("theme", BACKGROUNDS)
def test_every_colour_stands_out_from_its_background(theme: str) -> None:
    for look in (*looks.METHODS.values(), *looks.OTHERS):
        assert contrast(getattr(look, theme), BACKGROUNDS[theme]) >= GRAPHICS
    scores = looks.DARK if theme == "colour" else looks.DARK.values()
    assert all(contrast(colour, BACKGROUNDS[theme]) >= GRAPHICS for colour in scores)


def test_scores_of_the_forgotten_and_of_others_differ_in_grey() -> None:
    """Both are solid lines, and only their lightness tells them apart."""
    for forget, retain in ((looks.FORGET, looks.RETAIN), (looks.DARK[looks.FORGET], looks.DARK[looks.RETAIN])):
        assert min(distance(forget, retain, vision) for vision in VISIONS) >= 15


def test_what_is_no_method_has_a_marker_and_a_colour_of_no_method() -> None:
    markers = {look.marker for look in looks.METHODS.values()}
    for other in looks.OTHERS:
        assert other.marker not in markers
        for theme in BACKGROUNDS:
            nearest = min(distance(getattr(other, theme), getattr(look, theme)) for look in looks.METHODS.values())
            assert nearest >= 8, other


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, -1, 2), (50, 0, 0), 2.3669),
        ((50, 2.49, -0.001), (50, -2.49, 0.0009), 7.1792),
        ((50, 2.49, -0.001), (50, -2.49, 0.0011), 7.2195),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_distance_of_colours_is_that_of_the_published_cases(
    one: tuple[float, ...], other: tuple[float, ...], expected: float
) -> None:
    assert ciede2000(one, other) == pytest.approx(expected, abs=5e-5)


def test_simulated_eyes_confuse_what_such_eyes_confuse() -> None:
    """Red and green of one lightness look alike without the long or the middle cones; white and grey stay."""
    assert distance("#ffffff", "#000000", "grey") == pytest.approx(100, abs=0.01)
    red, green = "#a04040", "#506a2c"
    assert distance(red, green) > 30
    assert distance(red, green, "deuteranopia") < 12
    assert distance(red, green, "tritanopia") > 20
    for matrix in MACHADO.values():
        assert [sum(row) for row in matrix] == pytest.approx([1, 1, 1], abs=2e-6)
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_every_method_of_the_package_has_a_place() -> None:
    built_in = {name for name in METHODS.names() if METHODS.get(name).__module__.startswith("damnatio.methods.")}
    assert set(looks.METHODS) == built_in | {"original"}


def test_order_is_the_papers_then_the_references_then_ours() -> None:
    variants = ["mine", "GS", "OF-wide", "HD", "FT", "OF", "original", "CURE"]
    assert looks.in_order(variants) == ["original", "CURE", "HD", "OF-wide", "OF", "FT", "GS", "mine"]


def test_look_does_not_depend_on_who_else_is_drawn() -> None:
    few, many = looks.looks_of(["HD", "mine"]), looks.looks_of(["OF", "HD", "OF-wide", "mine", "other"])
    assert few["HD"] == many["HD"] == looks.METHODS["HD"]
    assert len(set(many.values())) == 5


def test_tint_of_a_variant_is_that_of_its_method() -> None:
    assert looks.tint_of("OF-wide") == looks.tint_of("OF") == "ourrow"
    assert looks.tint_of("mine") == ""


def test_a_page_reads_every_look_as_json() -> None:
    page = json.loads(json.dumps(looks.for_a_page(["mine", "OF-wide", "OF", "NG+", "original"])))
    words = ["the model before forgetting", "NegGrad+", "orthonormal frame (OF-wide)", "orthonormal frame", "mine"]
    assert [each["words"] for each in page] == words
    assert [each["name"] for each in page] == ["original", "NG+", "OF-wide", "OF", "mine"]
    by_name = {each["name"]: each for each in page}
    assert by_name["OF"]["colour"] == looks.METHODS["OF"].colour
    assert by_name["OF"]["dark"] == looks.METHODS["OF"].dark
    assert (by_name["original"]["dash"], by_name["OF"]["dash"]) == ([], [3.5, 1.5])
    for each in page:
        assert re.fullmatch(r"M[-\d. LCZ]+Z", each["marker"])


def test_a_marker_is_drawn_upright_in_an_svg() -> None:
    """There y points down: the tip of the triangle is at the top, so at the least y."""
    assert looks.shape_of("s") == "M-0.5 0.5L0.5 0.5L0.5 -0.5L-0.5 -0.5Z"
    assert looks.shape_of("^") == "M0 -0.5L-0.5 0.5L0.5 0.5Z"


@pytest.mark.parametrize(
    ("variant", "title", "full"),
    [
        ("OF", "OF", "orthonormal frame (OF)"),
        ("OF-wide", "OF-wide", "orthonormal frame (OF-wide)"),
        ("CURE", "CURE‡", "CURE (reconstruction) (CURE‡)"),
        ("mine", "mine", "mine"),
    ],
)
def test_name_in_words_has_the_symbol_behind_it(variant: str, title: str, full: str) -> None:
    assert looks.in_full(variant, title) == full
