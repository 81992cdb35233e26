"""Finding 4: unseen images of a person are harder to forget than seen ones, yet weakly forgotten."""

from collections.abc import Iterator

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.reporting.findings.claims import CONFUSERS, HIDERS, SPECIFIC, Claim, claim, every, no, some
from damnatio.reporting.findings.evidence import Evidence

TEXT = "Unseen images are harder to forget than seen ones, yet weakly forgotten"
HALVED = 0.5
"""'weak forgetting to some extent': at most this share of f*'s TMR. Tables IV and V: the best confuser has 0.06 to 0.34
of it, the best hider 0.05 to 0.39."""
NEARLY = 0.4
"""'nearly unidentifiable' on S1: at most this share of f*'s TPIR. Tables IV and V: at most 0.35, CP at 1e-2."""


def claims(n: Evidence, scale: str) -> Iterator[Claim]:
    for method in SPECIFIC:
        linked = {group: n.number(method, group, "TMR", scale) for group in ("Ftr-Ftr", "Fev-Fev")}
        yield claim(
            f"{method}: unseen images stay linked more often than seen ones (TMR)",
            linked,
            n.exceeds(linked["Fev-Fev"], linked["Ftr-Ftr"]),
        )
    for kind, methods in (("confuser", CONFUSERS), ("hider", HIDERS)):
        linked = n.numbers((ORIGINAL, *methods), "Fev-Fev", "TMR", scale)
        half = linked["f*"].times(HALVED)
        yield claim(
            f"some {kind} halves the TMR between unseen images",
            linked,
            some(no(n.exceeds(linked[method], half)) for method in methods),
        )
    if n.larger(scale):
        return
    for group in ("Ftr", "Fev"):
        found = n.numbers((ORIGINAL, *SPECIFIC), group, "TPIR", scale)
        bar = found["f*"].times(NEARLY)
        yield claim(
            f"every method makes the forgotten nearly unidentifiable (TPIR, {group})",
            found,
            every(no(n.exceeds(found[method], bar)) for method in SPECIFIC),
        )
