"""When a person counts as forgotten, by hand-worked cases."""

import numpy as np
import pytest

from damnatio.erasure.people import together
from damnatio.erasure.record import Pairs
from damnatio.erasure.trained import judged
from damnatio.erasure.verdict import (
    FORGOTTEN,
    NOT,
    PARTLY,
    UNMEASURED,
    Judged,
    Verdict,
    on_model,
    on_person,
    still_holds,
)
from damnatio.erasure.verifying import Links
from damnatio.methods.strangers import Strangers, evenly
from damnatio.models.statistics import Held, Touched


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
    found = judged(linked, pairs_held(100, 0), goal=0.9)
    assert found.verdict == verdict
    assert bool(found.reason) == (verdict != "forgotten")
    few = judged(linked, pairs_held(1, 0), goal=0.9)
    assert few.verdict == (UNMEASURED if verdict == FORGOTTEN else verdict)


def pairs_held(pairs: int, linked: int, **more: int) -> Held:
    return Held(photographs=0, hidden=0, pairs=pairs, before=pairs, linked=linked, goal=0.9).model_copy(update=more)


@pytest.mark.parametrize(
    ("held", "verdict"),
    [
        (None, UNMEASURED),
        (pairs_held(0, 0), UNMEASURED),  # one photograph
        (pairs_held(5, 0), UNMEASURED),
        (pairs_held(6, 0), UNMEASURED),  # z^2 / (n + z^2) = 3.8415 / 9.8415 = 0.390
        (pairs_held(9, 0), UNMEASURED),  # seven photographs: 0.299
        (pairs_held(12, 0), FORGOTTEN),  # eight photographs: 0.2425
        (pairs_held(12, 1), UNMEASURED),  # 0.354
        (pairs_held(20, 1), FORGOTTEN),  # ten photographs: 0.236
        (pairs_held(12, 6), PARTLY),  # from 0.254 on: more than a quarter for sure
        (pairs_held(12, 5), UNMEASURED),  # from 0.193 on
        (pairs_held(12, 7), NOT),
        (pairs_held(12, 0, given=28, given_linked=1), PARTLY),
        (pairs_held(12, 0, photographs=8, hidden=7), FORGOTTEN),
        (pairs_held(12, 0, photographs=8, hidden=4), PARTLY),  # at most 0.785, and the goal is 0.9
    ],
)
def test_a_person_is_forgotten_if_that_was_measured(held: Held | None, verdict: Verdict) -> None:
    found = on_person(held)
    assert found.verdict == verdict
    assert bool(found.reason) == (verdict != FORGOTTEN)


KNOWN, UNKNOWN = Touched(how="measured", people=55, photographs=220), Touched(how="unknown")


@pytest.mark.parametrize(
    ("people", "touched", "accept", "complete", "code", "verdicts"),
    [
        ([36, 36, 36], KNOWN, False, True, 0, [FORGOTTEN] * 3),  # 108 pairs: at most 0.034
        ([81], KNOWN, False, True, 0, [FORGOTTEN]),  # nineteen photographs: 0.0453
        ([72], KNOWN, False, False, 3, [UNMEASURED]),  # eighteen: 0.0507
        ([12] * 6, KNOWN, False, False, 3, [UNMEASURED] * 6),
        ([12] * 7, KNOWN, False, True, 0, [FORGOTTEN] * 7),
        ([36, 36, 36], UNKNOWN, False, False, 3, [FORGOTTEN] * 3),
        ([36, 36, 36], UNKNOWN, True, False, 0, [FORGOTTEN] * 3),
        ([36, 36, 36, 0], KNOWN, False, False, 3, [FORGOTTEN] * 3 + [UNMEASURED]),
        ([36, 36, 36, 0], KNOWN, True, False, 0, [FORGOTTEN] * 3 + [UNMEASURED]),
        ([36, 36, 36, -1], KNOWN, True, False, 3, [FORGOTTEN] * 3 + [NOT]),
    ],
)
def test_the_exit_code_is_0_only_if_everybody_was_measured(
    people: list[int], touched: Touched, accept: bool, complete: bool, code: int, verdicts: list[Verdict]
) -> None:
    held = [pairs_held(pairs, 0) if pairs >= 0 else None for pairs in people]
    judged = [on_person(each) if each is not None else Judged(NOT, "no image in the folder") for each in held]
    found = on_model(list(zip(judged, held, strict=True)), touched, accept=accept)
    assert [each.verdict for each in found.people] == verdicts
    assert (found.complete, found.code) == (complete, code)
    assert ("unknown" in found.sentence) == (touched == UNKNOWN)
    assert ("accepted" in found.sentence) == (accept and code == 0)
    assert ("Everyone" in found.sentence) == (set(verdicts) == {FORGOTTEN})


def test_what_was_measured_of_a_wider_gate_does_not_hold() -> None:
    held = pairs_held(12, 0).model_copy(update={"begins": [0.3, 0.4]})
    assert still_holds(held, [0.3, 0.35]) == held
    assert still_holds(held, [0.3, 0.41]) is None
    assert still_holds(None, [0.3]) is None


def test_photographs_of_one_stranger_are_no_separate_witnesses() -> None:
    assert Touched(how="measured", people=100, photographs=400).bound == pytest.approx(3.8415 / 103.8415, abs=1e-4)
    assert Touched(how="measured", people=100, photographs=400, touched=8).bound == pytest.approx(0.0700, abs=1e-4)


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
