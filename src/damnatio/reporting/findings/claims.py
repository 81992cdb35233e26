"""A finding is a list of claims, and a claim is true, false, or cannot be decided (None)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from damnatio.reporting.findings.evidence import Number, named

CONFUSERS, HIDERS, GENERIC = ("PD", "HD", "CP"), ("EC", "OF"), ("CURE", "NG+")
SPECIFIC = (*CONFUSERS, *HIDERS)
HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "cannot be judged here"

Truth = bool | None


@dataclass(frozen=True)
class Claim:
    """One checkable statement, with the numbers behind it."""

    text: str
    true: Truth
    numbers: str


@dataclass(frozen=True)
class Finding:
    number: int
    text: str
    claims: list[Claim]

    @property
    def verdict(self) -> str:
        if not self.claims:
            return UNKNOWN
        return {True: HOLDS, False: FAILS, None: UNKNOWN}[every(claim.true for claim in self.claims)]


def claim(text: str, numbers: Mapping[str, Number], true: Truth) -> Claim:
    """A claim about named numbers. If it cannot be decided, it says whether rows are missing or the noise is too
    large."""
    missing = any(number.missing for number in numbers.values())
    return Claim(text, true, named(numbers) + ("; within the noise" if true is None and not missing else ""))


def every(truths: Iterable[Truth]) -> Truth:
    """False if one is false, else undecided if one is, else true."""
    listed = list(truths)
    return False if False in listed else None if None in listed else True


def some(truths: Iterable[Truth]) -> Truth:
    listed = list(truths)
    return True if True in listed else None if None in listed else False


def no(truth: Truth) -> Truth:
    return None if truth is None else not truth
