"""The answer of a report in words: who is forgotten, who is still known, can anyone tell, is the gallery still valid.

Each answer is a sentence with its numbers, and a mark by the bounds below. They are the same for every method, data set
and operating point, and were chosen before any result was marked by them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.evaluation.protocol import AVERAGED
from damnatio.metrics.verification import ENOUGH_ERRORS
from damnatio.reporting.grids import DOUBT
from damnatio.reporting.lookup import Quantity, Results
from damnatio.reporting.ranges import Range, Rate

MET, PARTLY, NOT_MET, THIN = "met", "partly met", "not met", "too little data"
MARKS = (MET, PARTLY, NOT_MET, THIN)
SIGNS = {MET: "✓", PARTLY: "~", NOT_MET: "✗", THIN: "?"}

LINKED, STILL_LINKED = 0.10, 0.50
"""Forgotten: the upper end of the interval of the linked share is at most the first. Partly: at most the second share
of what it was under the original model."""
LOST, LOST_MUCH = 0.005, 0.02
"""Others are still known, or the gallery still valid: the recognition rate fell by at most the first. Partly: by at
most the second."""
MOVED, MOVED_MUCH = 0.015, 0.05
"""Nobody can tell: the footprint, which is how far the scores of others moved, is at most the first. Partly: the
second."""
APART, FAR_APART = 0.05, 0.20
"""And the scores of the forgotten lie at most so far (W1) from those of strangers."""
CONFUSED, CONFUSED_MUCH = 3.0, 30.0
"""And two different forgotten people match at most so many times as often as two strangers may."""
FEW_PEOPLE = 5
"""fewer identities than this, and a share is too little to judge by"""

QUESTIONS = {
    "used": "The photographs that were used",
    "new": "New photographs of them",
    "averaged": "Photographs averaged into a template",
    "others": "Is everybody else still known?",
    "detectable": "Can anyone tell?",
    "gallery": "Is the gallery still valid?",
}
HEADINGS = {
    "Are they forgotten?": ("used", "new", "averaged"),
    "Is everybody else still known?": ("others",),
    "Can anyone tell?": ("detectable",),
    "Is the gallery still valid?": ("gallery",),
}
MEANINGS = {
    "Are they forgotten?": (
        f"met: with 95 % certainty at most {LINKED:.0%} of the comparisons of a forgotten person still link; partly: "
        f"at most {STILL_LINKED:.0%} of those that linked before; not met: more. New photographs count by the worse "
        "of two: both new, and a new one with a used one."
    ),
    "Is everybody else still known?": (
        "met: people whom neither training nor forgetting saw (test) and people of the training (retained) are "
        f"recognised at most {LOST:.1%} less often than before; partly: at most {LOST_MUCH:.0%}; not met: more. The "
        "worse of both counts."
    ),
    "Can anyone tell?": (
        f"met: the scores of other people moved by at most {MOVED:g} (footprint), those of the forgotten lie at most "
        f"{APART:g} from the scores of strangers, and two different forgotten people match at most {CONFUSED:g} times "
        f"as often as strangers may; partly: {MOVED_MUCH:g}, {FAR_APART:g} and {CONFUSED_MUCH:g}; not met: more. The "
        "worst of the three counts."
    ),
    "Is the gallery still valid?": (
        "met: templates enrolled with the original model are matched by new photographs under the altered model at "
        f"most {LOST:.1%} less often, at the original model's threshold; partly: at most {LOST_MUCH:.0%}; not met: "
        "enrol everybody again. Measured at the operating points of the recipe alone."
    ),
}
DATA = (
    f"too little data: fewer than {FEW_PEOPLE} people, no comparison at all, or a threshold that rests on fewer than "
    f"{ENOUGH_ERRORS} false matches of the development set."
)


@dataclass(frozen=True)
class Answer:
    question: str
    mark: str
    text: str


@dataclass(frozen=True)
class Model:
    """An altered model at one scale, and the original one beside it."""

    scale: str
    variant: str
    before: Range
    after: Range
    results: Results
    points: Sequence[float]
    """the operating points of the recipe"""

    def answers(self, target: float) -> list[Answer]:
        """All answers at this false match rate."""
        return [
            self._used(target),
            self._new(target),
            self._averaged(target),
            self._others(target),
            self._detectable(target),
            self._gallery(target),
        ]

    # --- are they forgotten? ----------------------------------------------------------------------------------------

    def _used(self, target: float) -> Answer:
        was, now = self._both("TMR", "Ftr-Ftr", target)
        text = (
            f"Two of the photographs used are taken for one person in {_share(now, 'pairs')}; before, in {_only(was)}."
        )
        return Answer("used", self._linked([(was, now)]), text)

    def _new(self, target: float) -> Answer:
        new, mixed = self._both("TMR", "Fev-Fev", target), self._both("TMR", "Ftr-Fev", target)
        text = (
            f"Two new photographs link in {_share(new[1], 'pairs')}, a new and a used one in "
            f"{_share(mixed[1], 'pairs')}; before, in {_only(new[0])} and {_only(mixed[0])}."
        )
        return Answer("new", self._linked([new, mixed]), text)

    def _averaged(self, target: float) -> Answer:
        was, now = self._both("TMR", AVERAGED, target)
        text = (
            f"A template made of all photographs used matches a new one in {_share(now, 'comparisons')}; before, in "
            f"{_only(was)}."
        )
        return Answer("averaged", self._linked([(was, now)]), text)

    def _linked(self, pairs: Sequence[tuple[Rate, Rate]]) -> str:
        return worst([_forgotten(was, now, self._people) for was, now in pairs])

    @property
    def _people(self) -> int:
        """Forget identities."""
        return max((rate.count for rate in self.after.series.get(("weakly_forgotten", "F"), {}).values()), default=0)

    # --- the others -------------------------------------------------------------------------------------------------

    def _others(self, target: float) -> Answer:
        test, retained = self._both("TMR", "T", target), self._both("TMR", "R", target)
        text = (
            f"Strangers to the training (test people) are recognised in {_share(test[1], 'comparisons')}, before in "
            f"{_only(test[0])}; people of the training (retained) in {_only(retained[1])}, before in "
            f"{_only(retained[0])}."
        )
        return Answer("others", worst([_kept(test), _kept(retained)]), text)

    def _detectable(self, target: float) -> Answer:
        moved, apart = self._distance("R", "footprint"), self._distance("Ftr-Ftr", "W1")
        was = self.results[Quantity(self.scale, ORIGINAL, "1:1", "Ftr-Ftr", "W1")].value
        confused = self.after.at("FMR", "FtrxFtr", target)
        times = confused.value / target
        text = (
            f"The scores of other people moved by {_number(moved)} (footprint); those of the forgotten lie "
            f"{_number(apart)} from the scores of strangers (W1; before {_number(was)}); two different forgotten "
            f"people match in {_share(confused, 'pairs')}, where {_percent(target)} is allowed."
        )
        marks = [_within(moved, MOVED, MOVED_MUCH), _within(apart, APART, FAR_APART)]
        marks.append(THIN if confused.thin else _within(times, CONFUSED, CONFUSED_MUCH))
        return Answer("detectable", worst(marks), text)

    def _gallery(self, target: float) -> Answer:
        point = min(self.points, key=lambda each: abs(math.log(each / target)))
        was = self.results[Quantity(self.scale, ORIGINAL, "1:1", "T", "TMR", point)]
        legacy = Quantity(self.scale, self.variant, "1:1", "T", "TMR_legacy", point)
        now = self.results[legacy]
        if math.isnan(now.value):
            return Answer("gallery", THIN, "Templates of the original model were not compared.")
        low_high = "" if math.isnan(now.low) else f" ({_span(now.low, now.high)})"
        text = (
            f"New photographs match templates enrolled before in {_percent(now.value)} of {now.count:,} comparisons"
            f"{low_high}, before in {_percent(was.value)}, at the original model's threshold for {_percent(point)} "
            "false matches."
        )
        doubtful = DOUBT in self.results.marks(legacy)
        return Answer("gallery", THIN if doubtful else _within(was.value - now.value, LOST, LOST_MUCH), text)

    def _both(self, metric: str, group: str, target: float) -> tuple[Rate, Rate]:
        return self.before.at(metric, group, target), self.after.at(metric, group, target)

    def _distance(self, group: str, metric: str) -> float:
        return self.results[Quantity(self.scale, self.variant, "1:1", group, metric)].value


# --- marks ----------------------------------------------------------------------------------------------------------


def worst(marks: Sequence[str]) -> str:
    """Not met if one is not; too little data where no judgement could be worse than what is missing."""
    return max(marks, key=(MET, PARTLY, THIN, NOT_MET).index)


def _forgotten(was: Rate, now: Rate, people: int) -> str:
    if now.thin or people < FEW_PEOPLE or math.isnan(now.high):
        return THIN
    if now.high <= LINKED:
        return MET
    return PARTLY if now.value <= STILL_LINKED * was.value else NOT_MET


def _kept(both: tuple[Rate, Rate]) -> str:
    was, now = both
    return THIN if now.thin or was.thin else _within(was.value - now.value, LOST, LOST_MUCH)


def _within(value: float, good: float, fair: float) -> str:
    if math.isnan(value):
        return THIN
    rounded = value - 1e-9  # 0.98 - 0.975 is a little more than 0.005
    return MET if rounded <= good else PARTLY if rounded <= fair else NOT_MET


# --- words ----------------------------------------------------------------------------------------------------------


PERCENT = "\u00a0%"
"""with a space that does not end a line"""


def _percent(share: float) -> str:
    """With as many digits as tell it from 0 and from 100."""
    if math.isnan(share):
        return "an unknown share"
    percent = 100 * share
    near = min(percent, 100 - percent)
    digits = 1 if near >= 0.95 or near == 0 else min(6, 1 - math.floor(math.log10(near)))
    text = f"{percent:.{digits}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + PERCENT


def _share(rate: Rate, things: str) -> str:
    if not rate.count:
        return f"none, for there are no {things}"
    ends = "" if math.isnan(rate.low) else f" ({_span(rate.low, rate.high)})"
    return f"{_percent(rate.value)} of {rate.count:,} {things}{ends}"


def _only(rate: Rate) -> str:
    return _percent(rate.value)


def _span(low: float, high: float) -> str:
    return f"{_percent(low).removesuffix(PERCENT)} to {_percent(high)}"


def _number(value: float) -> str:
    return "an unknown distance" if math.isnan(value) else f"{value:.3f}"


# --- which method ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recommendation:
    variant: str
    text: str


def recommend(answers: Mapping[str, Sequence[Answer]], titles: Mapping[str, str]) -> Recommendation | None:
    """The method that meets most and fails least, and what it does not meet. It is recommended only if people are at
    least partly forgotten and everybody else at least partly known. None without a method."""
    if not answers:
        return None
    worth = {MET: 3, PARTLY: 1, THIN: 0, NOT_MET: -2}
    points = {variant: sum(worth[each.mark] for each in its) for variant, its in answers.items()}
    best = max(points, key=lambda variant: points[variant])  # the first of equals, in the order of the tables
    its = {each.question: each.mark for each in answers[best]}
    missed = {mark: [_SHORT[question] for question in its if its[question] == mark] for mark in (PARTLY, NOT_MET, THIN)}
    rest = "; ".join(f"{mark}: {', '.join(names)}" for mark, names in missed.items() if names)
    met = f"{sum(mark == MET for mark in its.values())} of {len(its)} questions{f' ({rest})' if rest else ''}"
    fit = all(its[question] in (MET, PARTLY) for question in ("used", "new", "others"))
    if len(answers) == 1:
        name = titles[best][:1].upper() + titles[best][1:]
        return Recommendation(best, f"{name} {'meets' if fit else 'falls short: it meets'} {met}.")
    if not fit:
        return Recommendation(best, f"No method can be recommended. The nearest, {titles[best]}, meets {met}.")
    equals = [titles[variant] for variant in points if variant != best and points[variant] == points[best]]
    also = f" As good by these marks: {', '.join(equals)}." if equals else ""
    return Recommendation(best, f"Recommended: {titles[best]}. It meets {met}.{also}")


_SHORT = {
    "used": "photographs used",
    "new": "new photographs",
    "averaged": "averaged template",
    "others": "everybody else",
    "detectable": "nobody can tell",
    "gallery": "gallery valid",
}
