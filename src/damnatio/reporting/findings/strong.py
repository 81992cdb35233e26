"""Finding 3: strong forgetting is the orthonormal frame's, where at least one image was seen."""

from collections.abc import Iterator

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.reporting.findings.claims import SPECIFIC, Claim, claim, every, no
from damnatio.reporting.findings.evidence import Evidence

TEXT = "Strong forgetting is the frame's, where at least one image was seen"
ONTO = 0.1
"""'onto the non-mated distribution': a W1 of at most this share of f*'s. Table III: 0.01 for OF, and 0.12 for EC, which
'stops short of strong forgetting'; V-D: 0.04 for OF between a seen and an unseen image. Above it: 'distinguishable'
(0.23 for OF between unseen images)."""
NEARER = 0.5
"""'approach it': at most this share of f*'s W1. Table III: 0.23."""


def claims(n: Evidence, scale: str) -> Iterator[Claim]:
    """The paper gives these distances at S1 only. On a transformer it excepts HD, which comes near to hiding (V-C)."""
    if n.larger(scale):
        return
    others = [method for method in SPECIFIC if method != "OF" and not (n.transformer and method == "HD")]
    seen = n.numbers((ORIGINAL, "OF", *others), "Ftr-Ftr", "W1", scale)
    bar = seen["f*"].times(ONTO)
    yield claim(
        "between two seen images OF lies on the non-mated scores (W1, Ftr-Ftr)",
        {name: seen[name] for name in ("f*", "OF")},
        no(n.exceeds(seen["OF"], bar)),
    )
    yield claim(
        "and no other method does",
        seen,
        every(n.exceeds(seen[m], number) for m in others for number in (bar, seen["OF"])),
    )
    metric = "W1_retain" if n.has("W1_retain") else "W1"
    mixed = n.numbers((ORIGINAL, "HD", "OF"), "Ftr-Fev", metric, scale)
    if mixed["f*"].missing:  # the paper gives one distance for f*
        mixed["f*"] = seen["f*"]
    yield claim(
        f"between a seen and an unseen image OF lies on the non-mated scores ({metric}, Ftr-Fev)",
        mixed,
        every(
            [
                no(n.exceeds(mixed["OF"], mixed["f*"].times(ONTO))),
                *([] if n.transformer else [n.exceeds(mixed["HD"], mixed["OF"])]),
            ]
        ),
    )
    unseen = n.numbers((ORIGINAL, "OF"), "Fev-Fev", "W1", scale)
    yield claim(
        "between two unseen images they come nearer and stay distinguishable (W1, Fev-Fev)",
        unseen,
        every(
            [
                n.exceeds(unseen["f*"].times(NEARER), unseen["OF"]),
                n.exceeds(unseen["OF"], unseen["f*"].times(ONTO)),
            ]
        ),
    )
