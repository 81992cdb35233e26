"""Choices of a kind by costs that are given, not measured."""

from collections.abc import Callable

import pytest

from damnatio.choosing import GAIN, PROMISE, SHARE, promising, trial


class Machine:
    """A clock that moves by what each kind takes for each part."""

    def __init__(self, costs: dict[str, float]) -> None:
        self.costs, self.now = costs, 0.0
        self.done: list[tuple[str, int, int]] = []
        self.prepared: list[str] = []

    def clock(self) -> float:
        return self.now

    def prepare(self, kind: str) -> None:
        self.prepared.append(kind)
        self.now += 1000  # what is prepared is prepared, whatever is chosen

    def run(self, kind: str, start: int, stop: int) -> None:
        self.done.append((kind, start, stop))
        self.now += self.costs[kind] * (stop - start)

    def choose(self, parts: int, size: int) -> tuple[str, int]:
        return trial(list(self.costs), self.prepare, self.run, parts, size, self.clock)


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        ({"float32": 1.0, "int8": 0.3, "bfloat16": 0.5}, "int8"),
        ({"float32": 1.0, "int8": 28.0, "bfloat16": 7.0}, "float32"),
        ({"float32": 1.0, "int8": 2.5, "bfloat16": 0.6}, "bfloat16"),
        ({"float32": 1.0, "int8": GAIN + 0.01}, "float32"),  # a gain that may be chance
        ({"float32": 1.0, "int8": GAIN - 0.01}, "int8"),
        ({"float32": 1.0, "bfloat16": 0.5, "int8": 0.49}, "int8"),
    ],
)
def test_kind_with_which_the_job_costs_least_is_chosen(costs: dict[str, float], expected: str) -> None:
    assert Machine(costs).choose(parts=1000, size=20)[0] == expected


def test_each_part_is_done_once_and_the_rest_is_left() -> None:
    machine = Machine({"float32": 1.0, "int8": 0.5, "bfloat16": 2.0})
    assert machine.choose(parts=1000, size=20) == ("int8", 60)
    assert machine.done == [("float32", 0, 20), ("int8", 20, 40), ("bfloat16", 40, 60)]


@pytest.mark.parametrize("parts", [0, 1, SHARE - 1])
def test_job_too_small_for_a_trial_takes_the_usual_kind(parts: int) -> None:
    machine = Machine({"float32": 1.0, "int8": 0.1})
    assert machine.choose(parts, size=20) == ("float32", 0)
    assert not machine.done
    assert not machine.prepared


def test_trial_is_a_small_share_of_the_job() -> None:
    machine = Machine({"float32": 1.0, "int8": 0.5})
    assert machine.choose(parts=100, size=20) == ("int8", 2 * (100 // SHARE))


def test_only_kind_needs_no_trial() -> None:
    machine = Machine({"int8": 1.0})
    assert machine.choose(parts=1000, size=20) == ("int8", 0)
    assert not machine.done


def tile(times: dict[str, list[float]]) -> Callable[[str], float]:
    """One time after the other, the last again and again; none where there is no such product."""

    def measure(kind: str) -> float:
        if not times[kind]:
            raise RuntimeError("not implemented for 'Char'")
        return times[kind].pop(0) if len(times[kind]) > 1 else times[kind][0]

    return measure


def test_kinds_with_a_quicker_tile_are_worth_a_trial() -> None:
    times = {"float32": [1.0], "int8": [40.0], "bfloat16": [PROMISE - 0.1]}
    assert promising("float32", ["int8", "bfloat16"], tile(times)) == ["bfloat16"]
    times = {"float32": [1.0], "int8": [0.3], "bfloat16": [PROMISE + 0.1]}
    assert promising("float32", ["int8", "bfloat16"], tile(times)) == ["int8"]


def test_slow_start_is_forgiven() -> None:
    times = {"float32": [9.0, 1.0], "int8": [3.0, 0.3]}
    assert promising("float32", ["int8"], tile(times)) == ["int8"]


def test_product_that_a_machine_lacks_is_passed_over() -> None:
    times: dict[str, list[float]] = {"float32": [1.0], "int8": [], "bfloat16": [0.5]}
    assert promising("float32", ["int8", "bfloat16"], tile(times)) == ["bfloat16"]
    assert promising("float32", ["int8"], tile(times)) == []
