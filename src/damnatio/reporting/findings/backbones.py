"""Finding 7: forgetting carries to other backbones; what it costs the retained people depends on their type."""

from collections.abc import Iterator, Sequence

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.reporting.findings.claims import SPECIFIC, Claim, claim, every, no
from damnatio.reporting.findings.evidence import Evidence

TEXT = "Forgetting carries to other backbones"
GONE = 0.1
"""'a forget-train TMR of 0.000': at most this share of f*'s. Tables IV and V: 0.00 on all three backbones at S1, and
0.07 at most, at S2 and 1e-2."""

CHEAPER = 0.5
"""'confined to the iResNet-34': on a transformer OF costs at most this share of the retain TPIR that it costs on a
convolutional backbone. Table V: 0.32 and 0.09."""


def claims(every_backbone: Sequence[Evidence]) -> Iterator[Claim]:
    """The paper compares the backbones at S1, and convolutional ones with transformers."""
    listed = {n.backbone: n for n in every_backbone}
    if len(listed) < 2:
        yield Claim("at least two backbones are compared", None, f"one backbone: {next(iter(listed))}")
        return
    for name, n in listed.items():
        scale = n.scales[0]
        linked = n.numbers((ORIGINAL, "OF"), "Ftr-Ftr", "TMR", scale)
        yield claim(
            f"{name}: OF unlinks seen images (TMR, Ftr-Ftr)",
            linked,
            no(n.exceeds(linked["OF"], linked["f*"].times(GONE))),
        )
        seen, unseen = (n.numbers(SPECIFIC, group, "TMR", scale) for group in ("Ftr-Ftr", "Fev-Fev"))
        yield claim(
            f"{name}: unseen images stay linked more often than seen ones, under every method (TMR)",
            {f"{m} {kind}": of[m] for m in SPECIFIC for kind, of in (("seen", seen), ("unseen", unseen))},
            every(n.exceeds(unseen[method], seen[method]) for method in SPECIFIC),
        )
    yield from _types(list(listed.values()))


def _types(backbones: Sequence[Evidence]) -> Iterator[Claim]:
    convolutional = [n for n in backbones if not n.transformer]
    transformers = [n for n in backbones if n.transformer]
    if not convolutional or not transformers:
        kind = "convolutional" if convolutional else "a transformer"
        yield Claim("both types of backbone are compared", None, f"every backbone is {kind}")
        return
    rates = {n.backbone: n.numbers((ORIGINAL, "HD", "OF"), "R", "TPIR", n.scales[0]) for n in backbones}
    orders = [n.exceeds(rates[n.backbone]["HD"], rates[n.backbone]["OF"]) for n in convolutional]
    orders += [n.exceeds(rates[n.backbone]["OF"], rates[n.backbone]["HD"]) for n in transformers]
    yield claim(
        "OF keeps a lower retain TPIR than HD on a convolutional backbone, and a higher one on a transformer",
        {f"{name} {method}": number for name, of in rates.items() for method, number in of.items() if method != "f*"},
        every(orders),
    )
    costs = {name: of["f*"].minus(of["OF"]) for name, of in rates.items()}
    yield claim(
        "OF costs at most half as much of the retain TPIR on a transformer as on a convolutional backbone",
        costs,
        every(
            n.exceeds(costs[n.backbone].times(CHEAPER), costs[other.backbone])
            for n in convolutional
            for other in transformers
        ),
    )
