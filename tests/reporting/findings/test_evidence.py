"""When one number is above another, and when that cannot be said."""

import math

import pytest

from damnatio.evaluation.rates import COLUMNS
from damnatio.reporting.findings.claims import every, no, some
from damnatio.reporting.findings.evidence import Evidence, Number
from damnatio.support.tables import Table

NAMES = ["backbone", "scale", "method", *COLUMNS]


def evidence(*rows: tuple[str, str, float, str, float, int, float, float, float, float]) -> Evidence:
    """Rows of (method, group, point, metric, value, subjects, low, high, wilson_low, wilson_high)."""
    full = [
        ["net", "S1", method, "1:1", group, point, metric, value, 99, subjects, *ends]
        for method, group, point, metric, value, subjects, *ends in rows
    ]
    return Evidence(Table.of_rows(NAMES, full))


def rate(method: str, value: float, low: float, high: float, metric: str = "TMR") -> tuple:  # type: ignore[type-arg]
    return (method, "T", 0.01, metric, value, 50, low, high, low, high)


def distance(method: str, value: float) -> tuple:  # type: ignore[type-arg]
    return (method, "T", math.nan, "W1", value, 0, math.nan, math.nan, math.nan, math.nan)


def test_difference_of_two_intervals_worked_by_hand() -> None:
    """3 below and 4 above make 5, as independent deviations add up."""
    difference = Number(0.5, 0.47, 0.6).minus(Number(0.2, 0.1, 0.24))
    assert difference.value == pytest.approx(0.3)
    assert difference.low == pytest.approx(0.3 - 0.05)
    assert difference.high == pytest.approx(0.3 + math.hypot(0.1, 0.1))


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ((0.9, 0.88, 0.92), (0.8, 0.78, 0.82), True),
        ((0.8, 0.78, 0.82), (0.9, 0.88, 0.92), False),
        ((0.9, 0.80, 0.99), (0.8, 0.70, 0.90), None),
        ((0.8, 0.7999, 0.8001), (0.8, 0.7999, 0.8001), False),  # surely no more than is negligible
        ((0.0, 0.0, 0.0), (0.02, 0.01, 0.05), False),
    ],
)
def test_rates_are_compared_by_their_intervals(
    one: tuple[float, float, float], other: tuple[float, float, float], wanted: bool | None
) -> None:
    n = evidence(rate("a", *one), rate("b", *other))
    assert n.exceeds(n.number("a", "T", "TMR", "S1"), n.number("b", "T", "TMR", "S1")) is wanted


def test_rate_has_the_wider_of_its_two_intervals() -> None:
    """No comparison was accepted, so every bootstrap replicate is zero; Wilson's interval is not."""
    n = evidence(("a", "T", 0.01, "TMR", 0.0, 10, 0.0, 0.0, 0.0, 0.07))
    number = n.number("a", "T", "TMR", "S1")
    assert (number.low, number.high) == (0.0, 0.07)


def test_distances_must_differ_by_the_papers_margin_or_more_for_fewer_people() -> None:
    pair = distance("a", 0.106), distance("b", 0.1)
    n = evidence(*pair)
    a, b = (n.number(method, "T", "W1", "S1") for method in "ab")
    assert n.exceeds(a, b) is True
    assert n.exceeds(b, a) is False
    few = evidence(*pair, rate("a", 0.5, 0.4, 0.6), rate("b", 0.5, 0.4, 0.6))  # fifty people: a margin of 0.009
    a, b = (few.number(method, "T", "W1", "S1") for method in "ab")
    assert a.minus(b).high - a.minus(b).value == pytest.approx(0.002 * math.sqrt(20))
    assert few.exceeds(a, b) is None


def test_false_match_rates_differ_by_less_than_other_rates() -> None:
    """Three in a thousand beside one in a thousand is within 0.002, and three times as many."""
    rows = [(m, "T", 0.001, "FMR", v, 50, v - 1e-4, v + 1e-4, v, v) for m, v in (("a", 0.0025), ("b", 0.001))]
    n = evidence(*rows)
    a, b = (n.number(method, "T", "FMR", "S1") for method in "ab")
    assert n.exceeds(a, b) is True
    assert n.exceeds(b, a) is False


def test_missing_number_decides_nothing() -> None:
    n = evidence(rate("a", 0.9, 0.88, 0.92))
    assert n.exceeds(n.number("a", "T", "TMR", "S1"), n.number("b", "T", "TMR", "S1")) is None


def test_three_valued_words() -> None:
    assert (every([True, None, False]), every([True, None]), every([True])) == (False, None, True)
    assert (some([True, None]), some([False, None]), some([False])) == (True, None, False)
    assert (no(True), no(False), no(None)) == (False, True, None)
