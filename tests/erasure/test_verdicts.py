"""When a person counts as forgotten, by hand-worked cases."""

import numpy as np
import pytest

from damnatio.erasure.people import evenly, together
from damnatio.erasure.record import Line, Pairs, Verdict, verdict_of
from damnatio.erasure.trained import judged
from damnatio.erasure.verifying import Links
from damnatio.methods.strangers import Strangers


@pytest.mark.parametrize(
    ("pairs", "allowed"),
    [
        (0, 0),
        (10, 0),  # one pair is linked by chance in 1 of 1,000 such people
        (100, 0),  # exp(-0.01) = 0.99005
        (101, 1),  # exp(-0.0101) = 0.98995
        (780, 1),  # exp(-0.078) (1 + 0.078) = 0.9971
        (10_000, 4),  # exp(-1) (1 + 1 + 1/2 + 1/6) = 0.9810, and 1/24 more makes 0.9963
    ],
)
def test_so_many_linked_pairs_are_chance(pairs: int, allowed: int) -> None:
    assert Links(pairs, pairs, 0).allowed == allowed


@pytest.mark.parametrize(
    ("seen", "new", "verdict"),
    [
        ((20, 2), (10, 1), "forgotten"),
        ((20, 3), (10, 1), "partly"),
        ((20, 0), (10, 5), "partly"),
        ((20, 0), (10, 6), "not forgotten"),
        ((20, 1), None, "forgotten"),
    ],
)
def test_a_trained_model_is_judged_by_the_worse_of_seen_and_new(
    seen: tuple[int, int], new: tuple[int, int] | None, verdict: Verdict
) -> None:
    given = {"seen": seen, "new": new}
    linked = [Pairs(photographs=k, pairs=v[0], before=v[0], after=v[1]) for k, v in given.items() if v]
    found, reason = judged(linked, goal=0.9)
    assert found == verdict
    assert bool(reason) == (verdict != "forgotten")


def test_the_verdict_counts_everybody() -> None:
    verdicts: list[Verdict] = ["forgotten", "forgotten", "partly", "not forgotten"]
    lines = [Line(name=str(place), verdict=verdict) for place, verdict in enumerate(verdicts)]
    assert verdict_of(lines[:2]) == (True, "Everyone asked for was forgotten.")
    assert verdict_of(lines[:1]) == (True, "0 was forgotten.")
    assert verdict_of(lines) == (
        False,
        "Not everyone was forgotten: 2 of 4 were, 1 partly and 1 not forgotten.",
    )


def test_places_are_taken_evenly() -> None:
    assert evenly(3, 5).tolist() == [0, 1, 2]
    assert evenly(13, 5).tolist() == [0, 3, 6, 9, 12]
    assert evenly(9, 1).tolist() == [0]


def test_people_of_two_sources_stay_apart() -> None:
    units = np.eye(4)
    a = Strangers(units[:3], np.array([0, 1, 1]), ["retain/Ann", "retain/Bob"])
    b = Strangers(units[3:], np.array([0]), ["gallery/Ann"])
    both = together([a, b])
    assert both is not None
    assert both.names == ["gallery/Ann", "retain/Ann", "retain/Bob"]
    assert [both.names[code] for code in both.codes] == ["retain/Ann", "retain/Bob", "retain/Bob", "gallery/Ann"]
    assert together([]) is None
