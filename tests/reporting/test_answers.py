"""The answers in words: every mark at, below and above its bounds, and the sentences with their numbers."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from damnatio.evaluation.protocol import AVERAGED
from damnatio.reporting import answers
from damnatio.reporting.answers import (
    HEADINGS,
    MARKS,
    MEANINGS,
    MET,
    NOT_MET,
    PARTLY,
    QUESTIONS,
    SIGNS,
    UNKNOWN,
    Answer,
    Model,
    recommend,
    worst,
)
from damnatio.reporting.lookup import Results
from damnatio.reporting.ranges import NOTHING, Range, Rate, first_choice
from damnatio.support.tables import Table

TARGET = 0.01
Counts = tuple[int, int, float, float]
"""accepted, count, and the ends of the interval"""
FORGOTTEN: Counts = (20, 1000, 0.01, 0.05)
LINKED: Counts = (950, 1000, 0.93, 0.97)
BEFORE: dict[tuple[str, str], Counts] = {
    ("TMR", "Ftr-Ftr"): LINKED,
    ("TMR", "Ftr-Fev"): LINKED,
    ("TMR", "Fev-Fev"): LINKED,
    ("TMR", AVERAGED): LINKED,
    ("TMR", "T"): (980, 1000, 0.97, 0.99),
    ("TMR", "R"): (990, 1000, 0.98, 0.995),
    ("FMR", "FtrxFtr"): (10, 1000, 0.005, 0.02),
    ("weakly_forgotten", "F"): (0, 12, 0.0, 0.3),
    ("linked_people", "F"): (12, 12, 0.7, 1.0),
}
AFTER = BEFORE | {("TMR", group): FORGOTTEN for group in ("Ftr-Ftr", "Ftr-Fev", "Fev-Fev", AVERAGED)}
AFTER[("linked_people", "F")] = (0, 12, 0.0, 0.1)
DISTANCES = {("R", "footprint"): 0.01, ("Ftr-Ftr", "W1"): 0.04}


def a_range(rates: Mapping[tuple[str, str], Counts], errors: int = 40) -> Range:
    names = ("task", "metric", "group", "target", "threshold", "errors", "accepted", "count", "low", "high")
    rows = [("1:1", metric, group, TARGET, 0.4, errors, *counts) for (metric, group), counts in rates.items()]
    return Range(Table.of_rows(names, rows))


def a_model(
    after: Mapping[tuple[str, str], Counts] | None = None,
    *,
    before: Mapping[tuple[str, str], Counts] | None = None,
    distances: Mapping[tuple[str, str], float] | None = None,
    legacy: float = 0.98,
    errors: int = 40,
    doubts: bool = False,
    maps: Sequence[str] = (),
    unmeasured: Sequence[str] = (),
) -> Model:
    """A model that meets everything, but for what is changed."""
    names = ("scale", "method", "task", "group", "operating_point", "metric", "value", "count", "low", "high")
    rows: list[tuple[Any, ...]] = [
        ("S1", "HD", "1:1", group, math.nan, metric, value, 9, math.nan, math.nan)
        for (group, metric), value in {**DISTANCES, **(distances or {})}.items()
    ]
    rows += [
        ("S1", "original", "1:1", "Ftr-Ftr", math.nan, "W1", 0.6, 9, math.nan, math.nan),
        ("S1", "original", "1:1", "T", TARGET, "TMR", 0.98, 1000, 0.97, 0.99),
        ("S1", "HD", "1:1", "T", TARGET, "TMR_legacy", legacy, 1234, 0.97, 0.99),
    ]
    warned = [("S1", "original", "1:1", "D", TARGET, "rests on few")] if doubts else []
    warnings = Table.of_rows(("scale", "method", "task", "group", "operating_point", "warning"), warned)
    results = Results(Table.of_rows(names, rows), warnings, {"original": "f*", "HD": "HD"}, maps)
    ranges = (a_range({**BEFORE, **(before or {})}, errors), a_range({**AFTER, **(after or {})}, errors))
    return Model("S1", "HD", *ranges, results, [TARGET], unmeasured)


def said(model: Model) -> dict[str, Answer]:
    return {answer.question: answer for answer in model.answers(TARGET)}


def test_every_question_is_answered_in_order() -> None:
    found = a_model().answers(TARGET)
    assert [answer.question for answer in found] == list(QUESTIONS)
    assert [key for keys in HEADINGS.values() for key in keys] == list(QUESTIONS)
    assert [answer.mark for answer in found] == [MET] * 7 + [UNKNOWN]
    assert set(SIGNS) == set(MARKS)
    assert len(set(SIGNS.values())) == 4
    assert set(MEANINGS) == set(HEADINGS)


# --- are they forgotten? ---------------------------------------------------------------------------------------------

PLACES = {"used": ["Ftr-Ftr"], "new": ["Fev-Fev", "Ftr-Fev"], "averaged": [AVERAGED]}


@pytest.mark.parametrize(("question", "group"), [(q, g) for q, groups in PLACES.items() for g in groups])
@pytest.mark.parametrize(
    ("counts", "mark"),
    [
        ((0, 1000, 0.0, 0.0999), MET),
        ((50, 1000, 0.0, 0.10), MET),  # at the bound
        ((50, 1000, 0.0, 0.1001), PARTLY),  # 95 % certainty is missing
        ((475, 1000, 0.4, 0.55), PARTLY),  # half of the 950 that linked before
        ((476, 1000, 0.4, 0.55), NOT_MET),
        ((0, 0, math.nan, math.nan), UNKNOWN),
        ((5, 1000, math.nan, math.nan), UNKNOWN),
    ],
)
def test_forgotten_is_marked_by_its_upper_end(question: str, group: str, counts: Counts, mark: str) -> None:
    found = said(a_model({("TMR", group): counts}))
    assert found[question].mark == mark
    others = {q for q in found if q not in (question, "holds")}
    assert all(found[q].mark == MET for q in others)


def test_new_photographs_count_by_the_worse_of_two() -> None:
    half = (400, 1000, 0.3, 0.5)
    found = said(a_model({("TMR", "Fev-Fev"): half, ("TMR", "Ftr-Fev"): LINKED}))
    assert found["new"].mark == NOT_MET


def test_few_people_are_too_little_to_judge_by() -> None:
    for people, mark in ((answers.FEW_PEOPLE - 1, UNKNOWN), (answers.FEW_PEOPLE, MET)):
        found = said(a_model({("weakly_forgotten", "F"): (0, people, 0.0, 0.5)}))
        assert [found[q].mark for q in ("used", "new", "averaged")] == [mark] * 3
        assert found["others"].mark == MET, "of others there are enough"


def test_threshold_on_few_errors_is_too_little_to_judge_by() -> None:
    for errors, mark in ((29, UNKNOWN), (30, MET)):
        found = said(a_model(errors=errors))
        assert [found[q].mark for q in ("people", "used", "new", "averaged", "others", "normal")] == [mark] * 6


# --- the people and the file -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "mark"),
    [
        ((0, 50, 0.0, 0.0711), MET),
        ((1, 50, 0.004, 0.105), PARTLY),  # with 95 % certainty at most a tenth
        ((6, 12, 0.2, 0.8), PARTLY),
        ((7, 12, 0.2, 0.8), NOT_MET),  # of the twelve before
        ((0, 4, 0.0, 0.05), UNKNOWN),  # of too few people
        ((0, 0, math.nan, math.nan), UNKNOWN),
    ],
)
def test_people_are_counted(counts: Counts, mark: str) -> None:
    found = said(a_model({("linked_people", "F"): counts}))["people"]
    assert found.mark == mark
    if counts[1]:
        assert found.text == (
            f"{counts[0]} of {counts[1]} people still link beyond chance; before, 12. By chance 1 pair in 100 links."
        )
    else:
        assert found.text.startswith("Nobody could be measured")


def test_people_without_a_measurement_are_named() -> None:
    text = said(a_model(unmeasured=["person 03", "person 11"]))["people"].text
    assert text.endswith("Not measured, for want of photographs: 2 (person 03, person 11).")
    many = said(a_model(unmeasured=[f"person {n}" for n in range(23)]))["people"].text
    assert many.endswith("person 19 and 3 more).")


def test_map_leaves_the_people_in_the_file() -> None:
    found = said(a_model(maps=["HD"]))["holds"]
    assert found.mark == NOT_MET
    assert "whoever cuts off the map behind it has everybody back" in found.text
    assert "template" not in found.text, "that is what GS has"


# --- the others ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("group", "before"), [("T", 980), ("R", 990)])
@pytest.mark.parametrize(("lost", "mark"), [(-5, MET), (4, MET), (5, MET), (6, PARTLY), (20, PARTLY), (21, NOT_MET)])
def test_others_are_marked_by_what_they_lost(group: str, before: int, lost: int, mark: str) -> None:
    """In thousandths: 0.5 % and 2 % of the comparisons are the bounds."""
    found = said(a_model({("TMR", group): (before - lost, 1000, 0.9, 1.0)}))
    assert found["others"].mark == mark


@pytest.mark.parametrize(
    ("changed", "mark"),
    [
        ({("R", "footprint"): 0.015}, MET),
        ({("R", "footprint"): 0.0151}, PARTLY),
        ({("R", "footprint"): 0.05}, PARTLY),
        ({("R", "footprint"): 0.0501}, NOT_MET),
        ({("Ftr-Ftr", "W1"): 0.05}, MET),
        ({("Ftr-Ftr", "W1"): 0.0501}, PARTLY),
        ({("Ftr-Ftr", "W1"): 0.2}, PARTLY),
        ({("Ftr-Ftr", "W1"): 0.2001}, NOT_MET),
        ({("Ftr-Ftr", "W1"): math.nan}, UNKNOWN),
    ],
)
def test_detectable_is_marked_by_the_worst_distance(changed: dict[tuple[str, str], float], mark: str) -> None:
    assert said(a_model(distances=changed))["normal"].mark == mark


@pytest.mark.parametrize(("accepted", "mark"), [(30, MET), (31, PARTLY), (300, PARTLY), (301, NOT_MET)])
def test_forgotten_people_who_match_each_other_can_be_told(accepted: int, mark: str) -> None:
    """1 % is allowed: three times and thirty times as much are the bounds."""
    found = said(a_model({("FMR", "FtrxFtr"): (accepted, 1000, 0.0, 0.4)}))
    assert found["normal"].mark == mark


@pytest.mark.parametrize(
    ("legacy", "mark"), [(0.99, MET), (0.975, MET), (0.9749, PARTLY), (0.96, PARTLY), (0.9599, NOT_MET)]
)
def test_gallery_is_marked_by_what_it_lost(legacy: float, mark: str) -> None:
    assert said(a_model(legacy=legacy))["gallery"].mark == mark


def test_gallery_without_numbers_or_with_a_doubtful_threshold_is_not_judged() -> None:
    nothing = said(a_model(legacy=math.nan))["gallery"]
    assert (nothing.mark, "not compared" in nothing.text) == (UNKNOWN, True)
    assert said(a_model(doubts=True))["gallery"].mark == UNKNOWN


def test_gallery_is_judged_at_the_nearest_point_of_the_recipe() -> None:
    model = a_model()
    assert model.answers(0.004)[6] == model.answers(0.05)[6] == model.answers(TARGET)[6]


# --- sentences -------------------------------------------------------------------------------------------------------


def test_sentences_hold_the_numbers() -> None:
    found = {q: answer.text.replace("\u00a0", " ") for q, answer in said(a_model()).items()}
    assert found["used"] == (
        "Two of the photographs used are taken for one person in 2 % of 1,000 pairs (1 to 5 %; chance 1 %); before, "
        "in 95 %."
    )
    assert (
        "Two new photographs link in 2 % of 1,000 pairs (1 to 5 %; chance 1 %), a new and a used one in 2 %"
        in found["new"]
    )
    assert found["new"].endswith("before, in 95 % and 95 %.")
    assert "matches a new one in 2 % of 1,000 comparisons (1 to 5 %; chance 1 %); before, in 95 %." in found["averaged"]
    assert "recognised in 98 % of 1,000 comparisons (97 to 99 %; chance 1 %), before in 98 %" in found["others"]
    assert "(retained) in 99 %, before in 99 %." in found["others"]
    assert "moved by 0.010 (footprint)" in found["normal"]
    assert "0.040 from the scores of strangers (W1; before 0.600)" in found["normal"]
    assert "match in 1 % of 1,000 pairs (0.5 to 2 %), where 1 % is allowed." in found["normal"]
    assert "in 98 % of 1,234 comparisons (97 to 99 %), before in 98 %" in found["gallery"]
    assert "threshold for 1 % false matches" in found["gallery"]


def test_sentence_about_nothing_says_so() -> None:
    text = said(a_model({("TMR", "Fev-Fev"): (0, 0, math.nan, math.nan)}))["new"].text
    assert "none, for there are no pairs" in text
    assert "nan" not in text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.5, "50 %"),
        (0.12345, "12.3 %"),
        (0.0123, "1.2 %"),
        (0.005, "0.5 %"),
        (0.00123, "0.12 %"),
        (0.99877, "99.88 %"),
        (0.99996, "99.996 %"),
        (0.0001, "0.01 %"),
        (1e-6, "0.0001 %"),
        (1.6e-6, "0.00016 %"),
        (math.nan, "an unknown share"),
    ],
)
def test_percent_can_be_told_from_nothing_and_from_all(share: float, text: str) -> None:
    assert answers._percent(share).replace("\u00a0", " ") == text


# --- which method ----------------------------------------------------------------------------------------------------


def marked(**marks: str) -> list[Answer]:
    text = "3 of 9 people still link beyond chance; before, 9."
    return [Answer(question, marks.get(question, MET), text) for question in QUESTIONS]


def test_worst_of_marks() -> None:
    assert worst([MET, PARTLY]) == PARTLY
    assert worst([MET, UNKNOWN]) == UNKNOWN
    assert worst([NOT_MET, UNKNOWN, MET]) == NOT_MET
    assert worst([UNKNOWN, PARTLY]) == UNKNOWN


def test_people_come_first_and_then_the_marks() -> None:
    titles = {"OF": "OF", "GS": "GS", "HD": "HD", "FT": "FT"}
    assert recommend({}, titles) is None
    each = {"OF": marked(gallery=NOT_MET), "GS": marked(normal=PARTLY), "HD": marked(new=UNKNOWN)}
    found = recommend(each, titles)
    assert found is not None
    assert found.variant == "GS"
    assert found.text == (
        "3 of 9 people still link beyond chance, under GS, which meets most; before, 9. Met: people, used photographs, "
        "new photographs, averaged template, everybody else, gallery valid, file holds nobody; partly met: scores look "
        "normal."
    )
    tie = recommend({"OF": marked(), "GS": marked()}, titles)
    assert tie is not None
    assert tie.variant == "OF", "the first of equals"


def test_control_is_named_and_never_chosen() -> None:
    titles = {"HD": "HD", "FT": "FT"}
    control = [Answer("people", NOT_MET, "9 of 9 people still link beyond chance; before, 9."), *marked()[1:]]
    found = recommend({"HD": marked(new=NOT_MET, others=NOT_MET), "FT": control}, titles, "FT")
    assert found is not None
    assert found.variant == "HD"
    assert found.text.startswith(
        "3 of 9 people still link beyond chance, under HD; before, 9. Under FT, the control, 9 of 9. Met"
    )
    alone = recommend({"FT": control}, titles, "FT")
    assert alone is not None
    assert "the control" not in alone.text


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_sentence_claims_more_than_its_mark(question: str) -> None:
    """One verdict: nothing falls short, is recommended or cannot be told."""
    found = recommend({"HD": marked(**{question: NOT_MET})}, {"HD": "HD"})
    assert found is not None
    assert f"not met: {answers.SHORT[question]}." in found.text
    for word in ("falls short", "ecommended", "obody can tell", "forgotten"):
        assert word not in found.text


# --- the range of one model ------------------------------------------------------------------------------------------


def test_range_looks_up_by_metric_group_and_target() -> None:
    found = a_range(BEFORE)
    assert found.targets == [TARGET]
    rate = found.at("TMR", "T", TARGET)
    assert (rate.value, rate.count, rate.low, rate.threshold, rate.errors) == (0.98, 1000, 0.97, 0.4, 40)
    assert found.at("TMR", "T", 0.02) is NOTHING
    assert found.at("TMR", "nobody", TARGET) is NOTHING
    assert NOTHING.thin
    assert math.isnan(NOTHING.value)
    assert Rate(3, 4, errors=30).value == 0.75


def test_range_ends_at_a_tenth_unless_nothing_lies_below() -> None:
    names = ("task", "metric", "group", "target", "threshold", "errors", "accepted", "count", "low", "high")

    def of(*targets: float) -> list[float]:
        rows = [("1:1", "TMR", "T", target, 0.4, 1, 1, 2, 0.0, 1.0) for target in targets]
        return Range(Table.of_rows(names, rows)).targets

    assert of(0.5, 0.01, 0.1, 0.125) == [0.01, 0.1]
    assert of(0.25, 0.5) == [0.25]


@pytest.mark.parametrize(
    ("points", "first"), [([1e-4, 0.01], 0.01), ([0.02], 0.01), ([0.5], 0.1), ([1e-5, 1e-4], 1e-3)]
)
def test_first_choice_is_the_loosest_point_or_the_nearest_below(points: list[float], first: float) -> None:
    assert first_choice(points, [1e-3, 0.01, 0.1]) == first
