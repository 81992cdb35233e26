"""The eight findings, judged on a run or on several.

A finding holds if all its claims hold. A word such as "nearly" can be checked only with a number: the constants stand
in the files of the findings, each with the cells of the paper's tables that it was taken from, and they are never tuned
to a run. Fed with the paper's own numbers all eight findings hold. If small data contradicts the paper, they say so.
"""

import math
from collections.abc import Sequence

from damnatio.reporting.findings import averaging, backbones, footprint, generic, mechanisms, strong, unseen, verdict
from damnatio.reporting.findings.claims import Claim, Finding
from damnatio.reporting.findings.evidence import Evidence, Stated, without_point
from damnatio.reporting.lookup import Quantity
from damnatio.reporting.paper import facts
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table

EXPLANATION = (
    "Each claim is judged at the lowest operating point that rests on enough comparisons and can decide it. A "
    "difference counts if it is larger than the intervals of its two numbers allow for. Distances have none: they must "
    "differ by the paper's margin, 0.002, or by more where they rest on fewer than a thousand people."
)
MARKS = {True: "yes", False: "no", None: "?"}
ON_ONE = {1: mechanisms, 2: generic, 3: strong, 4: unseen, 5: averaging, 6: footprint, 8: verdict}
"""the findings that are judged on one backbone, by their numbers; 7 compares backbones"""
TEXTS = {number: finding.TEXT for number, finding in sorted({**ON_ONE, 7: backbones}.items())}
EVERYWHERE = (4,)
"""findings that the paper shows on transformers as well (Table V)"""


def judge(runs: Sequence[tuple[Table, Table]]) -> list[Finding]:
    """Judge the findings on the (results, warnings) of one run, or of several runs with other scales or backbones."""
    return judged(evidence_of(runs))


def evidence_of(runs: Sequence[tuple[Table, Table]]) -> list[Evidence]:
    """The evidence of each backbone. Runs of one backbone are put together; if they contradict each other, they are
    refused."""
    contradicting = contradiction([results for results, _ in runs])
    if contradicting:
        raise DamnatioError(f"The runs cannot be judged as one: {contradicting}. Judge them one by one, or join them.")
    found = []
    for backbone in dict.fromkeys(str(results["backbone"][0]) for results, _ in runs):
        mine = [run for run in runs if run[0]["backbone"][0] == backbone]
        found.append(Evidence(Table.joined([run[0] for run in mine]), Table.joined([run[1] for run in mine])))
    return found


def contradiction(tables: Sequence[Table]) -> str:
    """The first number for which runs of one backbone give two values; empty if there is none."""
    if len(tables) == 1:
        return ""
    names = ("backbone", "scale", "method", "task", "group", "operating_point", "metric")
    seen: dict[tuple[str, ...], float] = {}
    for table in tables:
        for row in table.rows():
            key, value = tuple(str(row[name]) for name in names), row["value"]
            if not math.isnan(value) and seen.setdefault(key, value) != value:
                backbone, scale, method, _, group, _, metric = key
                what = f"{metric} of {group} under {method} at {scale} with {backbone}"
                return f"{what} is {seen[key]:.4g} and {value:.4g}"
    return ""


def papers_evidence(results: Table | None = None) -> list[Evidence]:
    """The paper's own numbers, or a table of them, with the differences that it states in words."""
    results = facts.results() if results is None else results
    names = dict.fromkeys(results["backbone"].tolist())
    return [Evidence(results.where(results["backbone"] == name), stated=_stated(name)) for name in names]


def _stated(backbone: str) -> Stated:
    def quantity(difference: facts.Difference, side: facts.Side) -> Quantity:
        place = side.scale, side.method, difference.task, side.group, difference.metric
        return without_point(Quantity(*place, difference.point))

    return frozenset(
        (quantity(difference, difference.higher), quantity(difference, difference.lower))
        for difference in facts.differences()
        if {difference.higher.backbone, difference.lower.backbone} == {backbone}
    )


def judged(evidence: Sequence[Evidence]) -> list[Finding]:
    """The paper shows most findings on a convolutional backbone; they are judged on these, where there are any. A claim
    is decided at the lowest operating point that can decide it: the paper's tables bear its findings out at each."""
    levels = range(max([1, *(len(points) for n in evidence for points in n.sound.values())]))
    tries = [_all_claims([n.at_level(level) for n in evidence]) for level in levels]
    found = []
    for number, text in TEXTS.items():
        claims = []
        for same in zip(*(claims_of[number] for claims_of in tries), strict=True):
            claims.append(next((claim for claim in same if claim.true is not None), same[0]))
        found.append(Finding(number, text, claims))
    return found


def _all_claims(evidence: Sequence[Evidence]) -> dict[int, list[Claim]]:
    """The claims of each finding, by its number."""
    convolutional = [n for n in evidence if not n.transformer]
    found = {7: list(backbones.claims(evidence))}
    for number, finding in ON_ONE.items():
        claims = []
        for n in evidence if number in EVERYWHERE or not convolutional else convolutional:
            for scale in n.scales:
                place = [n.backbone] * (len(evidence) > 1) + [scale] * (len(n.scales) > 1)
                claims += [_placed(claim, place) for claim in finding.claims(n, scale)]
        if number == 8 and not any(n.larger(scale) for n in evidence for scale in n.scales):
            claims.append(Claim("the same holds at a larger forget scale", None, f"one scale: {evidence[0].scales[0]}"))
        found[number] = claims or [
            Claim("the paper shows this at S1, its smaller scale", None, "it is not among these")
        ]
    return found


def _placed(claim: Claim, place: Sequence[str]) -> Claim:
    return Claim(f"{' '.join(place)}: {claim.text}", claim.true, claim.numbers) if place else claim


def markdown(findings: Sequence[Finding]) -> str:
    """The findings as a page of text."""
    lines = ["**The paper's findings, checked on this run**", "", EXPLANATION, ""]
    for finding in findings:
        lines.append(f"{finding.number}. **{finding.verdict}**: {finding.text}.")
        lines += [f"   - {MARKS[claim.true]}: {claim.text} ({claim.numbers})" for claim in finding.claims]
    return "\n".join(lines) + "\n"
