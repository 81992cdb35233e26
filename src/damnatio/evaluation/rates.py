"""Rates of groups at thresholds, with the intervals of the bootstrap over subjects."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import numpy as np

from damnatio.evaluation.chance import CHANCE, LINKED, linked_people, unlinked
from damnatio.evaluation.legacy import Legacy
from damnatio.evaluation.nonmated import NonMated, Spread
from damnatio.evaluation.operating_range import UNLINKED, highest_scores
from damnatio.evaluation.protocol import (
    FALSE_MATCHES,
    FORGET_GROUPS,
    KEPT_GROUPS,
    SEARCH_GROUPS,
    SINGLE_GROUPS,
    Comparisons,
)
from damnatio.evaluation.scanning import Scores
from damnatio.evaluation.scored import Mated, Searches
from damnatio.evaluation.thresholds import Threshold, Thresholds
from damnatio.metrics import intervals
from damnatio.metrics.verification import mean_of_people
from damnatio.support.tables import Codes, codes_of

NONE = (math.nan, math.nan)
"""an interval that is not known"""
Resample = Callable[[Scores, Codes, intervals.Draws, Scores], Scores]
"""scores, their subjects, draws of subjects and thresholds to a number in each replicate"""
FIXED = "_fixed"
"""marks the metrics of a model at the thresholds of f*"""


@dataclass(frozen=True)
class Result:
    """One row of the results: a value and what it rests on."""

    task: str
    group: str
    operating_point: float
    """the target rate; NaN for distances and equal error rates"""
    metric: str
    value: float
    count: int
    subjects: int = 0
    low: float = math.nan
    high: float = math.nan
    wilson_low: float = math.nan
    wilson_high: float = math.nan


COLUMNS = tuple(column.name for column in fields(Result))
VERSION = 1
"""the version of the results: another one where a column or a row gets another meaning, not where rows are added"""


@dataclass(frozen=True)
class What:
    """What a rate measures: the first columns of its row."""

    task: str
    group: str
    target: float
    metric: str

    def row(
        self,
        value: float,
        count: int,
        subjects: int,
        ends: tuple[float, float] = NONE,
        wilson: tuple[float, float] = NONE,
    ) -> Result:
        return Result(self.task, self.group, self.target, self.metric, value, count, subjects, *ends, *wilson)


def rate_of(what: What, accepted: int, count: int, subjects: int = 0, ends: tuple[float, float] = NONE) -> Result:
    """A share of so many comparisons, with Wilson's interval."""
    value = accepted / count if count else math.nan
    return what.row(value, count, subjects, ends, intervals.wilson(accepted, count))


class Rates:
    """The rates of every group at given thresholds. The subjects of each group are drawn once for all its intervals."""

    def __init__(self, c: Comparisons, spreads: dict[str, Spread], replicates: int) -> None:
        self._c, self._spreads, self._replicates = c, spreads, replicates
        self._draws: dict[tuple[str, int], intervals.Draws] = {}

    def at(self, target: float, thresholds: Thresholds, suffix: str = "") -> Iterator[Result]:
        """The suffix marks the metrics where the thresholds are not the model's own."""
        threshold = thresholds.of("1:1", "D", target)
        yield from self._true_matches(target, threshold, suffix)
        for group, name in FALSE_MATCHES.items():
            what = What("1:1", name, target, f"FMR{suffix}")
            yield self._false_matches(what, group, self._c.nonmated[group], self._spreads[group], threshold)
        if not suffix:
            yield from self._weakly_forgotten(target, threshold)
        for group, gallery in SEARCH_GROUPS.items():
            limit, won = thresholds.of("1:N", gallery, target), _won(self._c.searches[group])
            yield self._share(What("1:N", group, target, f"TPIR{suffix}"), f"search {group}", won, limit)
            if not suffix and group in KEPT_GROUPS:
                yield self._person(What("1:N", group, target, "TPIR_person"), f"search {group}", won, limit)

    def reached(self, metric: str, threshold: Threshold) -> Iterator[Result]:
        """The share of each mated group that reaches a threshold of no operating point."""
        for group, mated in self._c.mated.items():
            yield self._share(What("1:1", group, math.nan, metric), group, mated, threshold)

    def legacy(self, target: float, thresholds: Thresholds, legacy: Legacy, spread: Spread) -> Iterator[Result]:
        """The rates of probes against what f* has enrolled, at the thresholds of f*. `spread` is that of the non-mated
        test scores. Subjects are drawn as for the ordinary rates of a group."""
        threshold, limit = thresholds.of("1:1", "D", target), thresholds.of("1:N", "D", target)
        for group, mated in legacy.mated.items():
            yield self._share(What("1:1", group, target, "TMR_legacy"), group, mated, threshold)
        yield self._false_matches(What("1:1", "TxT", target, "FMR_legacy"), "T", legacy.nonmated, spread, threshold)
        for group, searches in legacy.searches.items():
            yield self._share(What("1:N", group, target, "TPIR_legacy"), f"search {group}", _won(searches), limit)
        yield self._share(What("1:N", "D", target, "FPIR_legacy"), "alarms D", legacy.alarms, limit)

    def drift(self, legacy: Legacy) -> Iterator[Result]:
        """How far the embeddings of each group moved from those of f*, and the share of those that did not move."""
        half = Threshold(0.5, np.full(self._replicates, 0.5) if self._replicates else None)
        for group, drift in legacy.drift.items():
            count = len(drift.cosines)
            mean = math.fsum(drift.cosines) / count
            yield What("1:1", group, math.nan, "drift_cosine").row(mean, count, _distinct(drift.subjects))
            same = Mated(drift.unchanged.astype(np.float64), drift.subjects)
            yield self._share(What("1:1", group, math.nan, "unchanged"), f"drift {group}", same, half)

    # --- one kind of rate each; `name` says whose draws the interval takes ------------------------------------------

    def _true_matches(self, target: float, threshold: Threshold, suffix: str) -> Iterator[Result]:
        for group in (*KEPT_GROUPS, *FORGET_GROUPS):
            if group in self._c.mated:
                mated = self._c.mated[group]
                yield self._share(What("1:1", group, target, f"TMR{suffix}"), group, mated, threshold)
                if not suffix:
                    yield self._person(What("1:1", group, target, "TMR_person"), group, mated, threshold)

    def _false_matches(self, what: What, name: str, pairs: NonMated, spread: Spread, threshold: Threshold) -> Result:
        ends = self._pair_interval(name, pairs, spread, threshold)
        return rate_of(what, spread.accepted[threshold.value], pairs.count, len(pairs.people), ends)

    def _weakly_forgotten(self, target: float, threshold: Threshold) -> Iterator[Result]:
        """The share of identities none of whose pairs is linked (their highest score stays below the threshold), what
        chance alone gives, and the share of those who link beyond chance."""
        for group in (*SINGLE_GROUPS, "F"):
            found = highest_scores(self._c, group)
            highest, count = found.scores, len(found.scores)
            low, high = self._interval(f"weakly {group}", found, threshold)
            free = int(np.count_nonzero(highest < threshold.value))
            yield rate_of(What("1:1", group, target, UNLINKED), free, count, count, (1 - high, 1 - low))
            members = SINGLE_GROUPS if group == "F" else (group,)
            pairs = np.unique(np.concatenate([self._c.mated[name].subjects for name in members]), return_counts=True)[1]
            yield What("1:1", group, target, f"{UNLINKED}{CHANCE}").row(unlinked(pairs, target), count, count)
        linked, measured = linked_people(self._c, [threshold.value], [target])
        yield rate_of(What("1:1", "F", target, LINKED), linked[0], measured, measured)

    def _share(self, what: What, name: str, mated: Mated, threshold: Threshold) -> Result:
        """The share of accepted scores."""
        ends = self._interval(name, mated, threshold)
        accepted = int(np.count_nonzero(mated.scores >= threshold.value))
        return rate_of(what, accepted, len(mated.scores), _distinct(mated.subjects), ends)

    def _person(self, what: What, name: str, mated: Mated, threshold: Threshold) -> Result:
        """The mean over people of their own shares of accepted scores."""
        codes, people = codes_of(mated.subjects)
        value = mean_of_people(mated.scores >= threshold.value, codes)
        ends = self._interval(name, mated, threshold, intervals.person_rates)
        return what.row(value, len(people), len(people), ends)

    # --- intervals --------------------------------------------------------------------------------------------------

    def _interval(
        self, name: str, mated: Mated, threshold: Threshold, resample: Resample = intervals.rates
    ) -> tuple[float, float]:
        """Of the share of accepted scores, or of its mean over people."""
        if threshold.replicates is None or not len(mated.scores):
            return NONE
        codes, people = codes_of(mated.subjects)
        draws = self.drawn(name, len(people))
        return intervals.interval(resample(mated.scores, codes, draws, threshold.replicates))

    def _pair_interval(self, name: str, pairs: NonMated, spread: Spread, threshold: Threshold) -> tuple[float, float]:
        """Of the share of accepted non-mated pairs."""
        if threshold.replicates is None or not pairs.count:
            return NONE
        draws, top = self.drawn(f"pairs {name}", len(pairs.people)), spread.top
        first, second = pairs.numbered()
        totals = pairs.pairing.weights(draws, first, second)
        people, share = (first[top.i], second[top.j]), top.share * pairs.share
        return intervals.interval(intervals.pair_rates(top.scores, *people, share, totals, draws, threshold.replicates))

    def drawn(self, name: str, subjects: int) -> intervals.Draws:
        """The draws of so many subjects, the same for all intervals of this name."""
        if (name, subjects) not in self._draws:
            rng = np.random.default_rng([self._c.seed, 9, *name.encode()])
            self._draws[name, subjects] = intervals.draw_subjects(subjects, self._replicates, rng)
        return self._draws[name, subjects]


def _won(searches: Searches) -> Mated:
    return Mated(searches.won, searches.subjects)


def _distinct(codes: Codes) -> int:
    return len(np.unique(codes))
