"""Which items go: worked by hand on a plan of six items."""

import pytest

from damnatio.erasure.planning.choosing import decide
from damnatio.erasure.planning.plan import Plan, PlannedItem, Standing
from damnatio.galleries.items import Item
from damnatio.support.errors import DamnatioError


def plan() -> Plan:
    """1 and 2 are sure, 3 and 4 candidates, 5 follows 3, 6 follows 3 and 4."""
    standings: list[tuple[Standing, list[int]]] = [
        ("sure", []), ("sure", []), ("candidate", []), ("candidate", []), ("follows", [3]), ("follows", [3, 4]),
    ]  # fmt: skip
    items = [
        PlannedItem(
            number=number, store=1, standing=standing, follows=follows,
            item=Item(store="s", place="p", id=str(number), kind="template", how="name"),
        )
        for number, (standing, follows) in enumerate(standings, 1)
    ]  # fmt: skip
    return Plan.model_construct(items=items)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("accept", "reject", "gone"),
    [
        ([], ["all"], [1, 2]),
        (["all"], [], [1, 2, 3, 4, 5, 6]),
        (["3"], ["4"], [1, 2, 3, 5, 6]),
        (["4"], ["3"], [1, 2, 4, 6]),
        (["3-4"], ["1,6"], [2, 3, 4, 5]),
        (["3", "4"], ["5-6"], [1, 2, 3, 4]),
    ],
)
def test_what_goes(accept: list[str], reject: list[str], gone: list[int]) -> None:
    assert decide(plan(), accept, reject, len(gone)).deleted == gone


@pytest.mark.parametrize(
    ("accept", "reject", "confirm", "words"),
    [
        ([], [], 2, r"2 candidates are not decided \(3, 4\)"),
        (["3"], [], 4, r"1 candidates are not decided \(4\)"),
        (["3-4"], ["4"], 4, "Item 4 is both accepted and rejected"),
        (["all"], [], 5, "--confirm 5: the plan deletes 6 items"),
        (["9"], ["all"], 2, "--accept 9: the plan has the items 1 to 6"),
        (["4-3"], ["all"], 2, "--accept 4-3: the plan has the items 1 to 6"),
        (["three"], ["all"], 2, "numbers of items are expected"),
    ],
)
def test_words_that_are_refused(accept: list[str], reject: list[str], confirm: int, words: str) -> None:
    with pytest.raises(DamnatioError, match=words):
        decide(plan(), accept, reject, confirm)
