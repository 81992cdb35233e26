"""Finding 5: averaging partly recovers a forgotten identity."""

from collections.abc import Iterator

from damnatio.reporting.findings.claims import SPECIFIC, Claim, claim
from damnatio.reporting.findings.evidence import Evidence

TEXT = "Averaging partly recovers a forgotten identity"
ABOVE = "above_0.001"
"""the share of scores above the threshold of FMR 1e-3, at which the paper draws and counts this"""


def claims(n: Evidence, scale: str) -> Iterator[Claim]:
    """The paper shows this at S1. Results without the share at 1e-3 are judged by the TMR at the judged point."""
    if n.larger(scale):
        return
    metric = ABOVE if n.has(ABOVE) else "TMR"
    for method in SPECIFIC:
        single, averaged = (n.number(method, group, metric, scale) for group in ("Ftr-Fev", "avg(Ftr)-Fev"))
        yield claim(
            f"{method}: an averaged template links unseen images more often than single ones do ({metric})",
            {"single": single, "averaged": averaged},
            n.exceeds(averaged, single),
        )
