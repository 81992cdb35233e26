"""Finding 8: no method is best on every requirement, by the Pareto fronts of the paper's Fig. 7.

The weak panel: what two unseen images of the forgotten still give (TMR of Fev-Fev), against the test TMR that is lost;
both at the threshold of equal errors on the retained people, or at the judged operating point where results lack that.
The strong panel: W1 of the seen images to the non-mated scores, against the footprint.
"""

from collections.abc import Iterator, Mapping

from damnatio.reporting.findings.claims import SPECIFIC, Claim, Truth, claim, every, no, some
from damnatio.reporting.findings.evidence import Evidence, Number

TEXT = "No method is best on every requirement: OF forgets more, HD costs less"
EQUAL_ERRORS = "TMR_eer"


def claims(n: Evidence, scale: str) -> Iterator[Claim]:
    """On a transformer OF costs no more than HD (Table V), so the paper's choice between the two is not claimed there.
    At S2 the paper says of OF's W1 only that it is below HD's."""
    metric = EQUAL_ERRORS if n.has(EQUAL_ERRORS) else "TMR"
    linked, kept = (n.numbers(SPECIFIC, group, metric, scale) for group in ("Fev-Fev", "T"))
    lost = {method: number.times(-1) for method, number in kept.items()}  # f* is the same for all
    weak = {f"{m} {what}": of[m] for m in SPECIFIC for what, of in (("Fev-Fev", linked), ("T", kept))}
    yield claim(f"HD is on the front of weak forgetting ({metric})", weak, no(_dominated(n, "HD", linked, lost)))
    yield claim(f"PD is not ({metric})", weak, _dominated(n, "PD", linked, lost))
    w1, prints = n.numbers(SPECIFIC, "Ftr-Ftr", "W1", scale), n.numbers(SPECIFIC, "R", "footprint", scale)
    strong = {f"{m} {what}": of[m] for m in SPECIFIC for what, of in (("W1", w1), ("footprint", prints))}
    yield claim("HD is on the front of strong forgetting", strong, no(_dominated(n, "HD", w1, prints)))
    if not n.larger(scale):
        yield claim("and OF is", strong, no(_dominated(n, "OF", w1, prints)))
    both = {name: w1[name] for name in ("OF", "HD")}
    yield claim("OF forgets seen images more strongly than HD (W1)", both, n.exceeds(w1["HD"], w1["OF"]))
    if not n.transformer:
        both = {name: prints[name] for name in ("HD", "OF")}
        yield claim("HD leaves the smaller footprint", both, n.exceeds(prints["OF"], prints["HD"]))
        both = {name: kept[name] for name in ("HD", "OF")}
        yield claim(f"HD keeps the higher test TMR ({metric})", both, n.exceeds(kept["HD"], kept["OF"]))


def _dominated(n: Evidence, method: str, *axes: Mapping[str, Number]) -> Truth:
    """As `reporting/pareto.py` has it, for numbers with intervals: whether another method is as low on every axis and
    lower on one. On every axis less is better."""
    return some(
        every(
            [
                *(no(n.exceeds(axis[other], axis[method])) for axis in axes),
                some(n.exceeds(axis[method], axis[other]) for axis in axes),
            ]
        )
        for other in SPECIFIC
        if other != method
    )
