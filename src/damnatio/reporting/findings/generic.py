"""Finding 2: the generic baselines, NegGrad+ and CURE, are not competitive."""

from collections.abc import Iterator

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.reporting.findings.claims import SPECIFIC, Claim, claim, every, no
from damnatio.reporting.findings.evidence import Evidence

TEXT = "Generic baselines are not competitive"
LEVEL = 0.9
"""'at the level of f*': at least this share of its forget-train TMR. Table IV: 1.09 and 1.06 at 1e-4, 1.01 and 1.00 at
1e-2 (S1 and S2)."""
COLLAPSED = 2 / 3
"""'no longer identified': at most this share of f*'s retain TPIR. Table IV: 0.15 and 0.00 at 1e-4, 0.61 and 0.27 at
1e-2."""


def claims(n: Evidence, scale: str) -> Iterator[Claim]:
    linked = n.numbers((ORIGINAL, "NG+"), "Ftr-Ftr", "TMR", scale)
    yield claim(
        "NG+ leaves the forget-train TMR at the level of f*",
        linked,
        no(n.exceeds(linked["f*"].times(LEVEL), linked["NG+"])),
    )
    found = n.numbers((ORIGINAL, "CURE"), "R", "TPIR", scale)
    yield claim(
        "under CURE the identification of the retain identities collapses (TPIR)",
        found,
        no(n.exceeds(found["CURE"], found["f*"].times(COLLAPSED))),
    )
    moved = n.numbers(("CURE", "NG+", *SPECIFIC), "R", "footprint", scale)
    yield claim(
        "CURE moves the retain scores furthest of all (footprint)",
        moved,
        every(n.exceeds(moved["CURE"], moved[method]) for method in ("NG+", *SPECIFIC)),
    )
    if not n.larger(scale):
        yield from _at_the_smaller_scale(n, scale)


def _at_the_smaller_scale(n: Evidence, scale: str) -> Iterator[Claim]:
    """What the paper says of S1 only: its W1 is of S1, and at S2 CURE identifies nobody."""
    w1 = n.numbers((ORIGINAL, "NG+"), "Ftr-Ftr", "W1", scale)
    yield claim(
        "NG+ takes the forget-train scores further from the non-mated ones than they are under f* (W1)",
        w1,
        n.exceeds(w1["NG+"], w1["f*"]),
    )
    others = [method for method in SPECIFIC if method != "CP"]
    for what, metric, groups, methods in (
        ("identify", "TPIR", ("Ftr", "Fev"), SPECIFIC),
        ("link", "TMR", ("Ftr-Ftr", "Fev-Fev"), others),
    ):
        for group in groups:
            rates = n.numbers(("CURE", *methods), group, metric, scale)
            yield claim(
                f"{', '.join(methods)} {what} fewer of the forgotten than CURE ({metric}, {group})",
                rates,
                every(n.exceeds(rates["CURE"], rates[method]) for method in methods),
            )
