"""Finding 1: the methods either confuse (PD, HD, CP) or hide in the manifold (EC, OF)."""

from collections.abc import Iterator

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.reporting.findings.claims import CONFUSERS, HIDERS, Claim, claim, every, no
from damnatio.reporting.findings.evidence import Evidence

TEXT = "Forgetting is either confusion (PD, HD, CP) or manifold hiding (EC, OF)"


def claims(n: Evidence, scale: str) -> Iterator[Claim]:
    """On a transformer the paper excepts HD, which comes near to hiding there (V-C); at S2 it excepts CP, under which
    distinct people are no longer linked (V-G). It gives W1 at S1 only."""
    confusers = [method for method in CONFUSERS if not (n.transformer and method == "HD")]
    if not n.larger(scale):
        w1 = n.numbers((*HIDERS, *confusers), "Ftr-Ftr", "W1", scale)
        yield claim(
            "both hiders come nearer to the non-mated scores (W1, Ftr-Ftr) than every confuser",
            w1,
            every(n.exceeds(w1[far], w1[near]) for far in confusers for near in HIDERS),
        )
    linking = [method for method in confusers if not (n.larger(scale) and method == "CP")]
    seen = n.numbers((ORIGINAL, *linking), "FtrxFtr", "FMR", scale)
    yield claim(
        f"under {', '.join(linking)} distinct forget identities are linked more often than under f* (FMR, FtrxFtr)",
        seen,
        every(n.exceeds(seen[method], seen["f*"]) for method in linking),
    )
    if not n.larger(scale):
        unseen = n.numbers(linking, "FevxFev", "FMR", scale)
        yield claim(
            "and most by seen images (FMR, FtrxFtr above FevxFev)",
            {f"{m} {kind}": of[m] for m in linking for kind, of in (("seen", seen), ("unseen", unseen))},
            every(n.exceeds(seen[method], unseen[method]) for method in linking),
        )
    hidden = n.numbers((ORIGINAL, *HIDERS), "FtrxFtr", "FMR", scale)
    yield claim(
        "under no hider they are", hidden, every(no(n.exceeds(hidden[method], hidden["f*"])) for method in HIDERS)
    )
