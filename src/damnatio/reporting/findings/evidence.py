"""What the findings are judged on: the numbers of one backbone, each with the interval in which it may lie.

A rate has the wider of its two intervals, that of the bootstrap over subjects and Wilson's: the first is empty where no
comparison was accepted, the second takes comparisons of one subject for independent. A distance, and each number that
the paper prints, has no interval. Two of them differ if they differ by more than the paper's own margin for calling two
values equal, 0.002. It belongs to the paper's thousand people; for fewer it grows as a standard error does, with the
square root: 0.02 for ten people.
"""

import math
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.reporting.lookup import Quantity, quantity_of
from damnatio.reporting.paper.facts import is_transformer
from damnatio.support.tables import Table

NOTHING = 0.002
"""the paper's margin for calling two values equal (the bold print of its tables)"""
PEOPLE = 1000
"""the people that the paper's distances rest on (Table II)"""
AT_A_POINT = ("TMR", "FMR", "TPIR")
"""metrics that are read at the judged operating point; any other has one value"""
TINY = 1e-9
"""what rounding in the last bits may do to a difference"""

Stated = frozenset[tuple[Quantity, Quantity]]
"""pairs of which the paper says in words that the first is above the second"""


@dataclass(frozen=True)
class Number:
    """A value and its interval. `negligible` is a difference too small to count; `quantity` says what was measured."""

    value: float
    low: float
    high: float
    negligible: float = NOTHING
    quantity: Quantity | None = None

    @property
    def missing(self) -> bool:
        return math.isnan(self.value)

    def times(self, share: float) -> "Number":
        return replace(self, value=share * self.value, low=share * self.low, high=share * self.high, quantity=None)

    def minus(self, other: "Number") -> "Number":
        """The difference, with the interval that follows from the two (the squares of the distances to their ends add
        up, as for independent numbers; two models see the same people, so the true interval is narrower)."""
        value = self.value - other.value
        low = value - math.hypot(self.value - self.low, other.high - other.value)
        high = value + math.hypot(self.high - self.value, other.value - other.low)
        return Number(value, low, high, max(self.negligible, other.negligible))


class Evidence:
    """The results of one backbone. `sound` lists the operating points that rest on enough comparisons, by task, from
    the lowest. Rates are read at the one of number `level`."""

    level = 0

    def __init__(self, results: Table, warnings: Table | None = None, stated: Stated = frozenset()) -> None:
        self.backbone = str(results["backbone"][0])
        self.scales = list(dict.fromkeys(results["scale"].tolist()))
        self.stated = stated
        self._rows = {}
        self._subjects: dict[tuple[str, str, str], int] = {}
        for row in results.rows():
            quantity = without_point(quantity_of(row))
            self._rows[quantity] = row
            if row["subjects"]:
                self._subjects[quantity.scale, quantity.variant, quantity.group] = row["subjects"]
        doubtful = {(row["task"], row["operating_point"]) for row in warnings.rows()} if warnings else set()
        self.sound: dict[str, list[float]] = {}
        for task in ("1:1", "1:N"):
            points = sorted({q.point for q in self._rows if q.task == task and q.point is not None})
            self.sound[task] = [point for point in points if (task, point) not in doubtful]

    def at_level(self, level: int) -> "Evidence":
        """The same evidence, read at another operating point."""
        other = copy(self)
        other.level = level
        return other

    @property
    def transformer(self) -> bool:
        return is_transformer(self.backbone)

    def larger(self, scale: str) -> bool:
        """Whether this scale stands for the paper's S2. Any that is not called so and comes first stands for S1."""
        return scale == "S2" or scale != self.scales[0]

    def has(self, metric: str) -> bool:
        return any(quantity.metric == metric for quantity in self._rows)

    def number(self, method: str, group: str, metric: str, scale: str, point: float | None = None) -> Number:
        """The number of this model and group, at the judged operating point unless another is named; NaN if there is
        none."""
        task = "1:N" if metric == "TPIR" else "1:1"
        judged = self.sound[task][min(self.level, len(self.sound[task]) - 1)] if self.sound[task] else None
        at = (judged if point is None else point) if metric in AT_A_POINT else None
        quantity = Quantity(scale, method, task, group, metric, at)
        row = self._rows.get(quantity)
        if row is None or math.isnan(row["value"]):
            return Number(math.nan, math.nan, math.nan, quantity=quantity)
        value = row["value"]
        ends = [row[name] for name in ("low", "high", "wilson_low", "wilson_high") if not math.isnan(row[name])]
        if ends:
            negligible = NOTHING if metric != "FMR" or at is None else min(NOTHING, at)
            return Number(value, min(value, *ends), max(value, *ends), negligible, quantity)
        subjects = self._subjects.get((scale, method, group), 0) or PEOPLE
        half = NOTHING * math.sqrt(max(PEOPLE / subjects, 1) / 2)  # so that two of them make the margin
        return Number(value, value - half, value + half, quantity=quantity)

    def numbers(self, methods: Iterable[str], group: str, metric: str, scale: str) -> dict[str, Number]:
        """The numbers of several models, by their names as people read them."""
        return {"f*" if method == ORIGINAL else method: self.number(method, group, metric, scale) for method in methods}

    def exceeds(self, one: Number, other: Number) -> bool | None:
        """Whether one number is above another: yes if the whole interval of their difference is above zero, no if it is
        below what is negligible, else None. Where a number is missing, what the paper says in words decides."""
        if one.missing or other.missing:
            pair = one.quantity, other.quantity
            return True if pair in self.stated else False if pair[::-1] in self.stated else None
        difference = one.minus(other)
        if difference.low > TINY:
            return True
        return False if difference.high <= difference.negligible + TINY else None


def without_point(quantity: Quantity) -> Quantity:
    """A metric that has one value is looked up without an operating point, though its row may name one."""
    return quantity if quantity.metric in AT_A_POINT else replace(quantity, point=None)


def named(numbers: Mapping[str, Number]) -> str:
    """Numbers as people read them, and the rows that are missing."""
    known = ", ".join(f"{name} {number.value:.4g}" for name, number in numbers.items() if not number.missing)
    points = {number.quantity.point for number in numbers.values() if number.quantity and not number.missing}
    known = "".join(f"at {point:g}: " for point in points if point is not None) + known
    rows: dict[str, list[str]] = {}
    for name, number in numbers.items():
        if number.missing:
            rows.setdefault(_row(number.quantity), []).append(name)
    return "; ".join([*([known] if known else []), *(f"no {row} for {', '.join(of)}" for row, of in rows.items())])


def _row(quantity: Quantity | None) -> str:
    if quantity is None:
        return "number"
    at = f" at {quantity.point:g}" if quantity.point is not None else ""
    return f"row {quantity.metric} of {quantity.group}{at}, {quantity.scale},"
