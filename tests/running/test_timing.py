"""The time left of a run, worked by hand."""

from damnatio.running.timing import Part, left_of


def part(
    key: str, expected: float | None, *needs: str, spent: float = 0, share: float | None = None, **more: bool
) -> Part:
    """`forget a` is of the kind `forget` and of the family `training`; so is `train`."""
    kind = key.split(maxsplit=1)[0]
    family = "training" if kind in ("train", "forget") else kind
    return Part(key, needs, kind, family, expected, spent, share, **more)


def test_before_anything_runs_the_plan_holds() -> None:
    parts = [
        part("train", 60),
        part("forget a", 20, "train"),
        part("forget b", 30, "train"),
        part("evaluate", 5, "forget a"),
    ]
    found = left_of(parts)
    assert found.parts == {"train": 60, "forget a": 20, "forget b": 30, "evaluate": 5}
    assert found.seconds(1) == 115
    assert found.seconds(2) == 60 + 30  # a and its evaluation beside b
    assert found.unknown == 0


def test_finished_work_corrects_its_kind_and_before_that_its_family() -> None:
    parts = [
        part("train", 60, spent=90, share=1),  # half as much again
        part("forget a", 20, "train"),
        part("forget b", 30, "train"),
        part("evaluate a", 5, "forget a"),
    ]
    assert left_of(parts).parts == {"forget a": 30, "forget b": 45, "evaluate a": 5}
    parts[1] = part("forget a", 20, "train", spent=15, share=1)  # faster than it was thought, unlike f*
    assert left_of(parts).parts == {"forget b": 22.5, "evaluate a": 5}
    parts[3] = part("evaluate a", 5, "forget a", spent=10, share=1)
    parts.append(part("evaluate b", 4, "forget b"))
    assert left_of(parts).parts == {"forget b": 22.5, "evaluate b": 8}
    assert left_of(parts).seconds(3) == 30.5


def test_a_training_goes_on_at_its_own_speed_and_corrects_the_others() -> None:
    parts = [part("train", 100, spent=50, share=0.25), part("forget a", 30, "train"), part("other", 7)]
    # a quarter of 100 expected seconds took 50: three times 50 are left, and the methods take twice as long
    assert left_of(parts).parts == {"train": 150, "forget a": 60, "other": 7}
    assert left_of(parts).seconds(1) == 217


def test_the_beginning_of_a_part_does_not_outweigh_what_is_finished() -> None:
    parts = [part("train", 90, spent=180, share=1), part("forget a", 100, spent=2, share=0.1), part("forget b", 50)]
    # 90 and 10 expected seconds took 180 and 2
    assert left_of(parts).parts == {"forget a": 18, "forget b": 91}
    parts[1] = part("forget a", 100, spent=20, share=1)
    assert left_of(parts).parts == {"forget b": 10}


def test_a_part_of_unknown_share_is_measured_by_the_clock() -> None:
    assert left_of([part("evaluate", 10, spent=4)]).parts == {"evaluate": 6}
    assert left_of([part("evaluate", 10, spent=14)]).parts == {"evaluate": 0}


def test_moments_correct_nothing() -> None:
    parts = [part("evaluate a", 0.5, spent=5, share=1), part("evaluate b", 10)]
    assert left_of(parts).parts == {"evaluate b": 10}
    parts.insert(0, part("evaluate c", 0.5, spent=5, share=1))
    assert left_of(parts).parts == {"evaluate b": 100}  # two of them: a second was expected


def test_work_of_another_machine_corrects_nothing() -> None:
    parts = [part("forget a", 20, spent=200, share=1, counts=False), part("forget b", 30)]
    assert left_of(parts).parts == {"forget b": 30}


def test_a_guess_is_used_when_it_was_corrected() -> None:
    parts = [part("train", 100, sure=False), part("forget a", 30, "train", sure=False)]
    assert left_of(parts).unknown == 2
    parts[0] = part("train", 100, spent=1, share=0.1, sure=False)
    found = left_of(parts)
    assert (found.parts["train"], found.parts["forget a"]) == (9, 3)
    assert found.seconds(1) == 12


def test_without_a_plan_parts_of_one_kind_take_as_long_as_each_other() -> None:
    parts = [
        part("forget a", None, spent=10, share=1),
        part("forget b", None, spent=20, share=1),
        part("forget c", None),
        part("forget d", None, spent=5),
        part("evaluate", None, "forget c"),
    ]
    found = left_of(parts)
    assert found.parts == {"forget c": 15, "forget d": 10, "evaluate": None}
    assert (found.unknown, found.seconds(1), found.seconds(2)) == (1, 25, 15)


def test_a_finished_run_has_nothing_left() -> None:
    found = left_of([part("train", 10, spent=9, share=1)])
    assert (found.parts, found.seconds(1), found.unknown) == ({}, 0, 0)
