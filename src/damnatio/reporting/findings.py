"""The paper's eight findings (V-A) as predicates over the results of a run: holds, does not hold, or cannot be judged.

A finding is a list of claims; it holds if all of them hold. A word such as "nearly" can be checked only with a number.
The constants below are these numbers. They were chosen from the paper's own tables before any result of ours was looked
at, and they are never tuned to a run. A claim about rates is decided only if one comparison more or less in any group
would not turn it. If small data contradicts the paper, the findings say so.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.reporting.lookup import Quantity, quantity_of
from damnatio.support.tables import Table

CONFUSERS, HIDERS, GENERIC = ("PD", "HD", "CP"), ("EC", "OF"), ("CURE", "NG+")
SPECIFIC = (*CONFUSERS, *HIDERS)
DISTANCES = ("W1", "deformation", "footprint")

ONTO = 0.1  # "onto the non-mated distribution": W1 at most this share of f*'s (paper: 0.006 of 0.480)
LEVEL = 0.9  # "at the level of f*": at least this share of its rate (paper: 0.998 of 0.912)
DEGENERATE = 0.5  # "no longer identified": at most this share of f*'s TPIR (paper: 0.137 of 0.902)
HALVED = 0.5  # "weak forgetting to some extent": at most this share of f*'s TMR (paper: 0.106 to 0.485 of 0.912)
NOTHING = 0.002  # the paper's margin for calling two values equal

EXPLANATION = (
    "Rates are judged at the lowest operating point that rests on enough comparisons, and only where one comparison "
    "more or less would not turn the claim."
)
HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "cannot be judged here"


@dataclass(frozen=True)
class Claim:
    """One checkable statement, with the numbers behind it; `true` is None if it cannot be decided."""

    text: str
    true: bool | None
    numbers: str


@dataclass(frozen=True)
class Finding:
    number: int
    text: str
    claims: list[Claim]

    @property
    def verdict(self) -> str:
        truths = [claim.true for claim in self.claims]
        if False in truths:
            return FAILS
        return UNKNOWN if None in truths or not truths else HOLDS


@dataclass(frozen=True)
class Number:
    """A value, and the step by which one comparison more or less would move it; a distance has no such step."""

    value: float
    step: float = 0.0


class Numbers:
    """The results of one backbone, looked up at the judged operating point of each task."""

    def __init__(self, results: Table, warnings: Table) -> None:
        self.values = {
            quantity_of(r): Number(r["value"], 0.0 if r["metric"] in DISTANCES else 1 / max(r["count"], 1))
            for r in results.rows()
        }
        self.scales = list(dict.fromkeys(results["scale"].tolist()))
        self.backbone = str(results["backbone"][0])
        doubtful = {(r["task"], r["operating_point"]) for r in warnings.rows()}
        self.points = {}
        for task in ("1:1", "1:N"):
            points = sorted({q.point for q in self.values if q.task == task and q.point is not None})
            sound = [point for point in points if (task, point) not in doubtful]
            self.points[task] = sound[0] if sound else None

    def __call__(self, variant: str, group: str, metric: str, scale: str | None = None) -> Number:
        """The number at the lowest operating point that rests on enough comparisons; NaN if there is none."""
        task = "1:N" if metric in ("TPIR", "FPIR") else "1:1"
        point = None if metric in DISTANCES else self.points[task]
        if point is None and metric not in DISTANCES:
            return Number(math.nan)
        quantity = Quantity(scale or self.scales[0], variant, task, group, metric, point)
        return self.values.get(quantity, Number(math.nan))


def judge(runs: Sequence[tuple[Table, Table]]) -> list[Finding]:
    """Judge the findings on the (results, warnings) of one run, or of several runs with other scales or backbones. All
    findings but the seventh are judged on the first backbone only."""
    every = []
    for backbone in dict.fromkeys(str(results["backbone"][0]) for results, _ in runs):
        mine = [run for run in runs if run[0]["backbone"][0] == backbone]
        every.append(Numbers(Table.joined([results for results, _ in mine]), Table.joined([w for _, w in mine])))
    n = every[0]
    return [
        Finding(1, "Forgetting is either confusion (PD, HD, CP) or manifold hiding (EC, OF)", list(_mechanisms(n))),
        Finding(2, "Generic baselines are not competitive", list(_generic(n))),
        Finding(3, "Strong forgetting is the frame's, where at least one image was seen", list(_strong(n))),
        Finding(4, "Unseen images are harder to forget than seen ones, yet weakly forgotten", list(_generalise(n))),
        Finding(5, "Averaging partly recovers a forgotten identity", list(_averaging(n))),
        Finding(6, "Each method leaves a footprint of its own", list(_footprint(n))),
        Finding(7, "Forgetting carries to other backbones", list(_backbones(every))),
        Finding(8, "No method is best on every requirement: OF forgets more, HD costs less", list(_verdict(n))),
    ]


def _claim(text: str, values: dict[str, Number], check: Callable[..., bool]) -> Claim:
    """A claim about named numbers; `check` takes their values in this order."""
    numbers = ", ".join(f"{name} {number.value:.4g}" for name, number in values.items())
    if any(math.isnan(number.value) for number in values.values()):
        return Claim(text, None, numbers)
    around = [sorted({n.value - n.step, n.value, n.value + n.step}) for n in values.values()]
    outcomes = {check(*near) for near in product(*around)}
    return Claim(text, outcomes.pop() if len(outcomes) == 1 else None, numbers)


def _mechanisms(n: Numbers) -> Iterator[Claim]:
    w1 = {method: n(method, "Ftr-Ftr", "W1") for method in (*HIDERS, *CONFUSERS)}
    yield _claim(
        "both hiders come nearer to the non-mated scores (W1, Ftr-Ftr) than every confuser",
        w1,
        lambda *v: max(v[:2]) < min(v[2:]),
    )
    calibrated = Number(n.points["1:1"] or math.nan)
    cross = {method: n(method, "FtrxFtr", "FMR") for method in SPECIFIC}
    yield _claim(
        "every confuser links distinct forget identities above the calibrated FMR",
        {"FMR": calibrated, **{m: cross[m] for m in CONFUSERS}},
        lambda rate, *v: min(v) > rate,
    )
    yield _claim(
        "no hider does",
        {"FMR": calibrated, **{m: cross[m] for m in HIDERS}},
        lambda rate, *v: max(v) <= rate,
    )


def _generic(n: Numbers) -> Iterator[Claim]:
    yield _claim(
        "NG+ leaves the forget-train TMR at the level of f*",
        {m: n(m, "Ftr-Ftr", "TMR") for m in (ORIGINAL, "NG+")},
        lambda before, after: after >= LEVEL * before,
    )
    yield _claim(
        "under CURE the retain identities are no longer identified",
        {m: n(m, "R", "TPIR") for m in (ORIGINAL, "CURE")},
        lambda before, after: after <= DEGENERATE * before,
    )


def _strong(n: Numbers) -> Iterator[Claim]:
    seen = {m: n(m, "Ftr-Ftr", "W1") for m in ("OF", *GENERIC, *CONFUSERS, "EC")}
    yield _claim(
        "OF is nearest to the non-mated scores between seen images", seen, lambda of, *v: of <= min(v) + NOTHING
    )
    for group, what in (("Ftr-Ftr", "two seen images"), ("Ftr-Fev", "a seen and an unseen image")):
        yield _claim(
            f"between {what} OF lies on the non-mated scores",
            {m: n(m, group, "W1") for m in (ORIGINAL, "OF")},
            lambda before, after: after <= ONTO * before,
        )
    yield _claim(
        "between two unseen images it remains distinguishable",
        {"Ftr-Ftr": n("OF", "Ftr-Ftr", "W1"), "Fev-Fev": n("OF", "Fev-Fev", "W1")},
        lambda seen, unseen: unseen > seen + NOTHING,
    )


def _generalise(n: Numbers) -> Iterator[Claim]:
    for method in SPECIFIC:
        yield _claim(
            f"{method}: unseen images stay linked at least as often as seen ones",
            {"Ftr-Ftr": n(method, "Ftr-Ftr", "TMR"), "Fev-Fev": n(method, "Fev-Fev", "TMR")},
            lambda seen, unseen: unseen >= seen - NOTHING,
        )
    for kind, methods in (("confuser", CONFUSERS), ("hider", HIDERS)):
        yield _claim(
            f"some {kind} halves the TMR between unseen images",
            {m: n(m, "Fev-Fev", "TMR") for m in (ORIGINAL, *methods)},
            lambda before, *after: min(after) <= HALVED * before,
        )


def _averaging(n: Numbers) -> Iterator[Claim]:
    for method in SPECIFIC:
        yield _claim(
            f"{method}: an averaged template links unseen images more often than single ones do",
            {"single": n(method, "Ftr-Fev", "TMR"), "averaged": n(method, "avg(Ftr)-Fev", "TMR")},
            lambda single, averaged: averaged > single,
        )


def _footprint(n: Numbers) -> Iterator[Claim]:
    prints = {m: n(m, "R", "footprint") for m in SPECIFIC}
    yield _claim("every method moves the retain scores", prints, lambda *v: min(v) > NOTHING)
    yield _claim("HD least", {"HD": prints["HD"], **prints}, lambda hd, *v: hd <= min(v) + NOTHING)
    yield _claim("OF most", {"OF": prints["OF"], **prints}, lambda of, *v: of >= max(v) - NOTHING)


def _backbones(every: Sequence[Numbers]) -> Iterator[Claim]:
    if len({n.backbone for n in every}) < 2:
        yield Claim("at least two backbones are compared", None, f"one backbone: {every[0].backbone}")
        return
    for n in every:
        yield _claim(
            f"{n.backbone}: OF brings seen images onto the non-mated scores",
            {m: n(m, "Ftr-Ftr", "W1") for m in (ORIGINAL, "OF")},
            lambda before, after: after <= ONTO * before,
        )
    cost = {n.backbone: Number(n(ORIGINAL, "R", "TPIR").value - n("OF", "R", "TPIR").value) for n in every}
    yield _claim("what OF costs the retain TPIR depends on the backbone", cost, lambda *v: max(v) - min(v) > NOTHING)


def _verdict(n: Numbers) -> Iterator[Claim]:
    if len(n.scales) < 2:
        yield Claim("the same holds at a larger forget scale", None, f"one scale: {n.scales[0]}")
    for scale in n.scales:
        yield _claim(
            f"{scale}: OF forgets seen images more strongly (W1)",
            {m: n(m, "Ftr-Ftr", "W1", scale) for m in ("OF", "HD")},
            lambda of, hd: of < hd,
        )
        yield _claim(
            f"{scale}: HD leaves the smaller footprint",
            {m: n(m, "R", "footprint", scale) for m in ("HD", "OF")},
            lambda hd, of: hd < of,
        )
        yield _claim(
            f"{scale}: HD keeps no lower a test TMR",
            {m: n(m, "T", "TMR", scale) for m in ("HD", "OF")},
            lambda hd, of: hd >= of - NOTHING,
        )


MARKS = {True: "yes", False: "no", None: "?"}


def markdown(findings: Sequence[Finding]) -> str:
    """The findings as a page of text."""
    lines = ["**The paper's findings, checked on this run**", "", EXPLANATION, ""]
    for finding in findings:
        lines.append(f"{finding.number}. **{finding.verdict}**: {finding.text}.")
        lines += [f"   - {MARKS[claim.true]}: {claim.text} ({claim.numbers})" for claim in finding.claims]
    return "\n".join(lines) + "\n"
