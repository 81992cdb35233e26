"""The protocol on arrays: embeddings, identities and roles in, a table of rates out; no files and no recipe."""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from damnatio.evaluation.measuring import FALSE_RATES, Measured, measure, reference_from
from damnatio.evaluation.protocol import compare_members
from damnatio.evaluation.rates import COLUMNS, Result
from damnatio.protocol import roles as words
from damnatio.protocol.roles import Members
from damnatio.support.arrays import unit_rows
from damnatio.support.errors import DamnatioError

if TYPE_CHECKING:
    import pyarrow as pa

AFTER, BEFORE = "after", "before"
ONE = "one embedding per image"
SHOWN = (
    ("Ftr-Ftr", "TMR", "forgotten: two seen photographs are linked"),
    ("Fev-Fev", "TMR", "forgotten: two new photographs are linked"),
    ("avg(Ftr)-Fev", "TMR", "forgotten: a new photograph and an averaged template"),
    ("Fev", "TPIR", "forgotten: identified by a new photograph"),
    ("R", "TMR", "kept: retain people are recognised"),
    ("T", "TMR", "kept: people whom the network never saw"),
    ("T", "TPIR", "kept: identified"),
    ("D", "FMR", "chance: strangers who match"),
    ("D", "FPIR", "chance: strangers who are found in the gallery"),
)
"""what `print(results)` shows of all rows"""


@dataclass(frozen=True)
class Rate:
    """A number, how many comparisons it rests on, and its 95 % interval (NaN where none is known)."""

    value: float
    count: int
    low: float
    high: float


class Results:
    """All numbers of an evaluation. `results["Fev-Fev", "TMR", 1e-2]` is one of them, and
    `results["before", "Fev-Fev", "TMR", 1e-2]` that of f*; without an operating point it is one that has none, such as
    `results["Fev-Fev", "W1"]`. docs/protocol.md explains every row."""

    def __init__(self, rows: dict[str, list[Result]], warnings: list[str]) -> None:
        self.rows, self.warnings = rows, warnings
        self._by_key = {(model, *_key(row)): row for model, found in rows.items() for row in found}

    def __getitem__(self, key: tuple[Any, ...]) -> Rate:
        model, rest = (key[0], key[1:]) if key and key[0] in (AFTER, BEFORE) else (AFTER, key)
        whole = (model, *rest, *([None] if len(rest) == 2 else []))
        row = self._by_key.get(whole)
        if row is None:
            alike = sorted({str(known[1:]) for known in self._by_key if known[1:2] == whole[1:2]})
            raise KeyError(f"no number {key}; of this group there are {', '.join(alike) or 'none'}")
        low, high = (row.low, row.high) if not math.isnan(row.low) else (row.wilson_low, row.wilson_high)
        return Rate(row.value, row.count, low, high)

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def table(self) -> "pa.Table":
        """An Arrow table, which pandas, Polars and DuckDB take: one row per number, and the model that it is of."""
        import pyarrow as pa

        each = [(model, row) for model, found in self.rows.items() for row in found]
        columns: dict[str, list[Any]] = {"model": [model for model, _ in each]}
        return pa.table(columns | {name: [getattr(row, name) for _, row in each] for name in COLUMNS})

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        return self.table.to_pandas()

    def __str__(self) -> str:
        models = [model for model in (BEFORE, AFTER) if model in self.rows]
        lines = [f"{'':54}{'at':>8}" + "".join(f"{model:>10}" for model in models) + "   95 %"]
        points = sorted({row.operating_point for row in self.rows[AFTER] if not math.isnan(row.operating_point)})
        for group, metric, text in SHOWN:
            for point in (point for point in points if (AFTER, group, metric, point) in self._by_key):
                values = "".join(f"{self[model, group, metric, point].value:>10.4f}" for model in models)
                rate = self[group, metric, point]
                lines.append(f"{text:54}{point:>8g}{values}   {rate.low:.4f} to {rate.high:.4f}")
        return "\n".join([*lines, *self.warnings])


def evaluate(
    after: ArrayLike,
    identities: ArrayLike,
    roles: ArrayLike,
    *,
    before: ArrayLike | None = None,
    fmr: Sequence[float] = (1e-3, 1e-2),
    fpir: Sequence[float] = (1e-2,),
    bystanders: ArrayLike | None = None,
    replicates: int = 0,
    seed: int = 0,
) -> Results:
    """Measure embeddings as a recipe does, from arrays or tensors.

    after: N x d embeddings of the altered model; before: those of f*, of the same images. identities: N numbers or
    texts. roles: N words of `damnatio.protocol`; the least are `development`, on which thresholds are calibrated, and
    one of the forget roles. A missing role removes its numbers and nothing else. `fmr` and `fpir` are the operating
    points of 1:1 and 1:N. bystanders: N times true or false, for test images that are bystanders too. With
    `replicates` the intervals are those of a bootstrap over people, else Wilson's.
    """
    if isinstance(after, str | os.PathLike):
        raise DamnatioError("evaluate takes arrays. For stored embeddings and partitions call damnatio.recheck.")
    members = Members.of(identities, roles, bystanders)
    if not members.has(words.DEVELOPMENT).any():
        raise DamnatioError("roles has no 'development' image: thresholds are calibrated on people of their own.")
    if not members.has(words.SEEN, words.NEW).any():
        raise DamnatioError("roles has no 'forget-train' and no 'forget-eval' image: nobody is to be forgotten.")
    now = unit_rows(after, "after", ONE, len(members.roles))
    then = None if before is None else unit_rows(before, "before", ONE, len(members.roles))
    targets = sorted({*fmr, *fpir})
    rows: dict[str, list[Result]] = {}
    reference = None
    if then is not None:
        first = measure(compare_members(then, members, 0, seed), targets, None, replicates)
        rows[BEFORE], reference = _kept(first, fmr, fpir), reference_from(first)
    found = measure(compare_members(now, members, 0, seed, then), targets, reference, replicates)
    rows[AFTER] = _kept(found, fmr, fpir)
    return Results(rows, list(dict.fromkeys(_warnings(found, fmr, fpir))))


def _key(row: Result) -> tuple[str, str, float | None]:
    return row.group, row.metric, None if math.isnan(row.operating_point) else row.operating_point


def _kept(found: Measured, fmr: Sequence[float], fpir: Sequence[float]) -> list[Result]:
    """The rows of the points asked for that rest on something."""
    asked = {"1:1": fmr, "1:N": fpir}
    return [
        row
        for row in found.results
        if row.count
        and not math.isnan(row.value)
        and (math.isnan(row.operating_point) or row.operating_point in asked[row.task])
    ]


def _warnings(found: Measured, fmr: Sequence[float], fpir: Sequence[float]) -> Iterator[str]:
    asked = {"1:1": fmr, "1:N": fpir}
    for warning in found.warnings:
        if warning["operating_point"] in asked[warning["task"]] and FALSE_RATES[warning["task"]] in warning["warning"]:
            yield f"{warning['task']}: {warning['warning']}"
