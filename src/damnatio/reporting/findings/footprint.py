"""Finding 6: each method leaves a footprint of its own on the scores of the retained people."""

from collections.abc import Iterator

from damnatio.evaluation.measuring import ORIGINAL
from damnatio.reporting.findings.claims import SPECIFIC, Claim, claim, every, no
from damnatio.reporting.findings.evidence import Evidence, Number

TEXT = "Each method leaves a footprint of its own"
TIGHTENING, BROADENING = ("PD", "HD", "EC"), "OF"
"""the methods whose mated retain scores concentrate, and the one whose scores widen (V-F)"""
ZERO = Number(0.0, 0.0, 0.0)


def claims(n: Evidence, scale: str) -> Iterator[Claim]:
    """The paper measures footprints on the convolutional backbone; HD's is the smallest at S1 only (Table III). The
    shapes, which the sizes cannot tell, are given for S1."""
    prints = n.numbers(SPECIFIC, "R", "footprint", scale)
    yield claim("every method moves the retain scores", prints, every(n.exceeds(p, ZERO) for p in prints.values()))
    if n.transformer:
        return
    others = [method for method in SPECIFIC if method != "OF"]
    yield claim("OF most", prints, every(n.exceeds(prints["OF"], prints[method]) for method in others))
    if n.larger(scale):
        return
    others = [method for method in SPECIFIC if method != "HD"]
    yield claim("HD least", prints, every(no(n.exceeds(prints["HD"], prints[method])) for method in others))
    models = (ORIGINAL, *TIGHTENING, BROADENING)
    spread = n.numbers(models, "R", "std", scale)
    tail = n.numbers(models, "R", "quantile_0.001", scale)
    yield claim(
        f"{', '.join(TIGHTENING)} tighten the mated retain scores (standard deviation)",
        {name: spread[name] for name in ("f*", *TIGHTENING)},
        every(n.exceeds(spread["f*"], spread[method]) for method in TIGHTENING),
    )
    yield claim(
        "and raise their lower tail (0.1 % quantile)",
        {name: tail[name] for name in ("f*", *TIGHTENING)},
        every(n.exceeds(tail[method], tail["f*"]) for method in TIGHTENING),
    )
    both = {"f*": spread["f*"], BROADENING: spread[BROADENING]}
    yield claim(f"{BROADENING} broadens them (standard deviation)", both, n.exceeds(spread[BROADENING], spread["f*"]))
    both = {"f*": tail["f*"], BROADENING: tail[BROADENING]}
    yield claim("and lowers their lower tail (0.1 % quantile)", both, n.exceeds(tail["f*"], tail[BROADENING]))
