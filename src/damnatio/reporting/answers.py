"""The answer of a report in words: how many people still link, who is still known, do scores look normal, is the
gallery still valid, does the file still hold the people.

Each answer is a sentence with its numbers, and a mark by the bounds below. They are the same for every method, data set
and operating point, and were chosen before any result was marked by them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from damnatio.evaluation.chance import FEWEST, LEVEL
from damnatio.evaluation.chance import LINKED as LINKED_PEOPLE
from damnatio.evaluation.measuring import ORIGINAL
from damnatio.evaluation.protocol import AVERAGED
from damnatio.metrics.verification import ENOUGH_ERRORS
from damnatio.reporting.grids import DOUBT
from damnatio.reporting.looks import method_of
from damnatio.reporting.lookup import Quantity, Results
from damnatio.reporting.ranges import Range, Rate

MET, PARTLY, NOT_MET, UNKNOWN = "met", "partly met", "not met", "not known"
MARKS = (MET, PARTLY, NOT_MET, UNKNOWN)
SIGNS = {MET: "✓", PARTLY: "~", NOT_MET: "✗", UNKNOWN: "?"}

LINKED, STILL_LINKED = 0.10, 0.50
"""Forgotten: the upper end of the interval of the linked share is at most the first. Partly: at most the second share
of what it was under the original model."""
LOST, LOST_MUCH = 0.005, 0.02
"""Others are still known, or the gallery still valid: the recognition rate fell by at most the first. Partly: by at
most the second."""
MOVED, MOVED_MUCH = 0.015, 0.05
"""Scores look normal: the footprint, which is how far the scores of others moved, is at most the first. Partly: the
second."""
APART, FAR_APART = 0.05, 0.20
"""And the scores of the forgotten lie at most so far (W1) from those of strangers."""
CONFUSED, CONFUSED_MUCH = 3.0, 30.0
"""And two different forgotten people match at most so many times as often as two strangers may."""
LISTED = 20
"""people who could not be measured and are named"""
FEW_PEOPLE = 5
"""fewer identities than this, and a share is too little to judge by"""

QUESTIONS = {
    "people": "How many people still link?",
    "used": "The photographs that were used",
    "new": "New photographs of them",
    "averaged": "Photographs averaged into a template",
    "others": "Is everybody else still known?",
    "normal": "Do scores look normal?",
    "gallery": "Is the gallery still valid?",
    "holds": "Does the file still hold the people?",
}
HEADINGS = {
    "How many people still link?": ("people",),
    "Which of their photographs link?": ("used", "new", "averaged"),
    "Is everybody else still known?": ("others",),
    "Do scores look normal?": ("normal",),
    "Is the gallery still valid?": ("gallery",),
    "Does the file still hold the people?": ("holds",),
}
MEANINGS = {
    "How many people still link?": (
        "A person links beyond chance if more of their pairs of photographs link than chance links of one stranger in "
        f"{1 / LEVEL:g}. Met: with 95 % certainty at most {LINKED:.0%} of the people do; partly: at most "
        f"{STILL_LINKED:.0%} of those who did before; not met: more. Who has fewer than {FEWEST} pairs is not measured."
    ),
    "Which of their photographs link?": (
        f"met: with 95 % certainty at most {LINKED:.0%} of the comparisons of a forgotten person still link; partly: "
        f"at most {STILL_LINKED:.0%} of those that linked before; not met: more. New photographs count by the worse "
        "of two: both new, and a new one with a used one."
    ),
    "Is everybody else still known?": (
        "met: people whom neither training nor forgetting saw (test) and people of the training (retained) are "
        f"recognised at most {LOST:.1%} less often than before; partly: at most {LOST_MUCH:.0%}; not met: more. The "
        "worse of both counts."
    ),
    "Do scores look normal?": (
        f"met: the scores of other people moved by at most {MOVED:g} (footprint), those of the forgotten lie at most "
        f"{APART:g} from the scores of strangers, and two different forgotten people match at most {CONFUSED:g} times "
        f"as often as strangers may; partly: {MOVED_MUCH:g}, {FAR_APART:g} and {CONFUSED_MUCH:g}; not met: more. The "
        "worst of the three counts. It does not follow that nobody can tell who was forgotten: slightly changed copies "
        "of a photograph can give a hidden person away (`damnatio audit`)."
    ),
    "Is the gallery still valid?": (
        "met: templates enrolled with the original model are matched by new photographs under the altered model at "
        f"most {LOST:.1%} less often, at the original model's threshold; partly: at most {LOST_MUCH:.0%}; not met: "
        "enrol everybody again. Measured at the operating points of the recipe alone."
    ),
    "Does the file still hold the people?": (
        "not met: the network is as it was, and a map behind it hides the people. Not known: the network was changed, "
        "and nothing here measures what can be brought back from it."
    ),
}
DATA = (
    f"too little data, or nobody has measured it. Too little are fewer than {FEW_PEOPLE} people, no comparison at "
    f"all, or a threshold that rests on fewer than {ENOUGH_ERRORS} false matches of the development set."
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
    unmeasured: Sequence[str] = ()
    """forget identities with too few pairs, as the page names them"""

    def answers(self, target: float) -> list[Answer]:
        """All answers at this false match rate."""
        return [
            self._still(target),
            self._used(target),
            self._new(target),
            self._averaged(target),
            self._others(target),
            self._normal(target),
            self._gallery(target),
            self._holds(),
        ]

    # --- who still links? -------------------------------------------------------------------------------------------

    def _still(self, target: float) -> Answer:
        was, now = self._both(LINKED_PEOPLE, "F", target)
        text = f"{still(now)}; before, {was.accepted:,}. By chance 1 pair in {1 / target:,.0f} links."
        if self.unmeasured:
            names = ", ".join(self.unmeasured[:LISTED])
            more = f" and {len(self.unmeasured) - LISTED:,} more" if len(self.unmeasured) > LISTED else ""
            text += f" Not measured, for want of photographs: {len(self.unmeasured):,} ({names}{more})."
        return Answer("people", _forgotten(was, now, now.count), text)

    def _used(self, target: float) -> Answer:
        was, now = self._both("TMR", "Ftr-Ftr", target)
        share = _share(now, "pairs", target)
        text = f"Two of the photographs used are taken for one person in {share}; before, in {_only(was)}."
        return Answer("used", self._linked([(was, now)]), text)

    def _new(self, target: float) -> Answer:
        new, mixed = self._both("TMR", "Fev-Fev", target), self._both("TMR", "Ftr-Fev", target)
        text = (
            f"Two new photographs link in {_share(new[1], 'pairs', target)}, a new and a used one in "
            f"{_share(mixed[1], 'pairs', target)}; before, in {_only(new[0])} and {_only(mixed[0])}."
        )
        return Answer("new", self._linked([new, mixed]), text)

    def _averaged(self, target: float) -> Answer:
        was, now = self._both("TMR", AVERAGED, target)
        share = _share(now, "comparisons", target)
        text = f"A template made of all photographs used matches a new one in {share}; before, in {_only(was)}."
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
            f"Strangers to the training (test people) are recognised in {_share(test[1], 'comparisons', target)}, "
            f"before in {_only(test[0])}; people of the training (retained) in {_only(retained[1])}, before in "
            f"{_only(retained[0])}."
        )
        return Answer("others", worst([_kept(test), _kept(retained)]), text)

    def _normal(self, target: float) -> Answer:
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
        marks.append(UNKNOWN if confused.thin else _within(times, CONFUSED, CONFUSED_MUCH))
        return Answer("normal", worst(marks), text)

    def _gallery(self, target: float) -> Answer:
        point = min(self.points, key=lambda each: abs(math.log(each / target)))
        was = self.results[Quantity(self.scale, ORIGINAL, "1:1", "T", "TMR", point)]
        legacy = Quantity(self.scale, self.variant, "1:1", "T", "TMR_legacy", point)
        now = self.results[legacy]
        if math.isnan(now.value):
            return Answer("gallery", UNKNOWN, "Templates of the original model were not compared.")
        low_high = "" if math.isnan(now.low) else f" ({_span(now.low, now.high)})"
        text = (
            f"New photographs match templates enrolled before in {_percent(now.value)} of {now.count:,} comparisons"
            f"{low_high}, before in {_percent(was.value)}, at the original model's threshold for {_percent(point)} "
            "false matches, which is chance."
        )
        doubtful = DOUBT in self.results.marks(legacy)
        return Answer("gallery", UNKNOWN if doubtful else _within(was.value - now.value, LOST, LOST_MUCH), text)

    def _holds(self) -> Answer:
        if self.variant in self.results.maps:
            text = "Yes: the network is as it was, and whoever cuts off the map behind it has everybody back."
            if method_of(self.variant) == "GS":
                text += " The map itself holds a template of each person."
            return Answer("holds", NOT_MET, text)
        return Answer("holds", UNKNOWN, "Nothing here measures what can be brought back from the network.")

    def _both(self, metric: str, group: str, target: float) -> tuple[Rate, Rate]:
        return self.before.at(metric, group, target), self.after.at(metric, group, target)

    def _distance(self, group: str, metric: str) -> float:
        return self.results[Quantity(self.scale, self.variant, "1:1", group, metric)].value


# --- marks ----------------------------------------------------------------------------------------------------------


def worst(marks: Sequence[str]) -> str:
    """Not met if one is not; too little data where no judgement could be worse than what is missing."""
    return max(marks, key=(MET, PARTLY, UNKNOWN, NOT_MET).index)


def _forgotten(was: Rate, now: Rate, people: int) -> str:
    if now.thin or people < FEW_PEOPLE or math.isnan(now.high):
        return UNKNOWN
    if now.high <= LINKED:
        return MET
    return PARTLY if now.value <= STILL_LINKED * was.value else NOT_MET


def _kept(both: tuple[Rate, Rate]) -> str:
    was, now = both
    return UNKNOWN if now.thin or was.thin else _within(was.value - now.value, LOST, LOST_MUCH)


def _within(value: float, good: float, fair: float) -> str:
    if math.isnan(value):
        return UNKNOWN
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


def still(rate: Rate) -> str:
    """How many people link beyond chance."""
    if not rate.count:
        return "Nobody could be measured"
    return f"{rate.accepted:,} of {rate.count:,} people still link beyond chance"


def _share(rate: Rate, things: str, chance: float | None = None) -> str:
    if not rate.count:
        return f"none, for there are no {things}"
    beside = [] if math.isnan(rate.low) else [_span(rate.low, rate.high)]
    beside += [] if chance is None else [f"chance {_percent(chance)}"]
    return f"{_percent(rate.value)} of {rate.count:,} {things}" + (f" ({'; '.join(beside)})" if beside else "")


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


def recommend(
    answers: Mapping[str, Sequence[Answer]], titles: Mapping[str, str], control: str | None = None
) -> Recommendation | None:
    """The method that meets most and fails least: how many people still link, and which questions it meets. `control`
    is a method that forgets nobody. None without a method."""
    if not answers:
        return None
    worth = {MET: 3, PARTLY: 1, UNKNOWN: 0, NOT_MET: -2}
    points = {variant: sum(worth[each.mark] for each in its) for variant, its in answers.items() if variant != control}
    best = max(points or answers, key=lambda variant: points.get(variant, 0))  # the first of equals
    its = {each.question: each.mark for each in answers[best]}
    named = {mark: [SHORT[question] for question in its if its[question] == mark] for mark in MARKS}
    marks = "; ".join(f"{mark}: {', '.join(names)}" for mark, names in named.items() if names)
    of = titles[best] if len(points) < 2 else f"{titles[best]}, which meets most"
    first, _, rest = answers[best][0].text.partition("; ")
    against = ""
    if control and control != best:
        against = f" Under {titles[control]}, the control, {answers[control][0].text.partition(' people')[0]}."
    return Recommendation(best, f"{first}, under {of}; {rest}{against} {marks[:1].upper()}{marks[1:]}.")


HEADS = dict(zip(QUESTIONS, ("people", "used", "new", "avg.", "others", "normal", "gallery", "file"), strict=True))
"""headings of the marks"""
SHORT = {
    "people": "people",
    "used": "used photographs",
    "new": "new photographs",
    "averaged": "averaged template",
    "others": "everybody else",
    "normal": "scores look normal",
    "gallery": "gallery valid",
    "holds": "file holds nobody",
}
