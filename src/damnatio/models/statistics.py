"""How the scores of a model lie: a few numbers about mated and non-mated comparisons, kept in its card. And what was
measured of a gate, kept in its record."""

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Tail(Frozen):
    """How far strangers' scores reach above their mean: the share of them that is more than z deviations above it is
    `share` exp(-(z - at) / scale), for z from `at` on. An exponential tail decays more slowly than a normal one."""

    share: float = Field(gt=0, lt=1)
    at: float
    scale: float = Field(gt=0)

    def z(self, share: float) -> float:
        """The number of deviations that this share of strangers exceeds."""
        return self.at + self.scale * math.log(self.share / share)

    def beyond(self, z: float) -> float:
        """The share of strangers beyond z deviations; at most `share`, since the tail begins there."""
        return self.share * math.exp(-max(z - self.at, 0.0) / self.scale)


class Statistics(Frozen):
    """Of single images: cosines of one person's images (mated) and of two people's (non-mated)."""

    nonmated_mean: float
    nonmated_deviation: float = Field(gt=0)
    tail: Tail
    mated_mean: float
    mated_deviation: float = Field(gt=0)
    people: int = Field(ge=0)
    """on whom they were measured; 0 for the defaults"""
    source: str

    def level(self, share: float) -> float:
        """The score that this share of non-mated comparisons exceeds."""
        return self.nonmated_mean + self.nonmated_deviation * self.tail.z(share)

    def score(self, photographs: int) -> float:
        """The expected score of a new image of a person to the mean of so many of their images.

        If images of one person have the cosine m on average, a new one has m sqrt(n) / sqrt(1 + (n - 1) m) with the
        direction of the mean of n.
        """
        mean = max(self.mated_mean, 1e-6)
        return mean * math.sqrt(photographs / (1 + (photographs - 1) * mean))

    def caught(self, at: float, photographs: int) -> float:
        """The share of one's new images whose score to the mean of so many of one's images is expected to reach `at`.
        The deviation is taken to be that of single images, a normal one."""
        return 0.5 * math.erfc((at - self.score(photographs)) / (self.mated_deviation * math.sqrt(2)))


# --- what was measured of a gate ------------------------------------------------------------------------------------


class Held(Frozen):
    """A person, measured on photographs that the alteration was not fitted on."""

    photographs: int = Field(ge=0)
    hidden: int = Field(ge=0)
    """how many of them the gate hides; each is tried by a gate that was fitted on the other half"""
    pairs: int = Field(ge=0)
    """pairs of them, both of the same half"""
    before: int = Field(ge=0)
    """pairs that were linked under f*"""
    linked: int = Field(ge=0)
    """pairs that are linked under f"""
    given: int = Field(0, ge=0)
    """pairs of the photographs that the gate was made of, copies of one moment left out"""
    given_linked: int = Field(0, ge=0)
    goal: float = Field(gt=0, le=1)
    """the share of new photographs that was to be hidden"""
    begins: list[float] = Field(default=[])
    """where the person's cones began when this was measured: it says nothing of a gate whose cones begin higher"""


class Touched(Frozen):
    """The share of strangers' photographs that fall into a gate: a stranger who does is changed, or hidden."""

    how: Literal["unknown", "measured", "card", "everybody"]
    """everybody: the network was trained, and every embedding moved; what of others is left is in the report"""
    aim: float | None = None
    """the share that the widths were made for, which is no measurement"""
    people: int = 0
    photographs: int = 0
    """of people who had no part in the widths that they were tried with"""
    touched: int = 0
    """how many of the photographs fell into the gate"""
    source: str = ""
    """of statistics in the card"""

    @property
    def bound(self) -> float:
        """The upper end of the 95 % interval. Photographs of one person fall together, so each person counts once."""
        from damnatio.metrics.intervals import wilson

        return wilson(self.touched / self.photographs * self.people, self.people)[1] if self.photographs else 1.0

    @property
    def sentence(self) -> str:
        if self.how == "measured":
            return (
                f"Strangers touched: {self.touched} of {self.photographs} photographs of {self.people} people whom the "
                f"gate was not fitted on (95 %: at most {self.bound:.4f}, each person counted once)."
            )
        if self.how == "card":
            return (
                f"Strangers touched: not measured here; {self.aim:g} of their photographs is what the widths were made "
                f"for, by the statistics in the model's card ({self.source})."
            )
        if self.how == "everybody":
            return "Strangers touched: all, since the network was trained; the report says who is still recognised."
        few = f"{self.people} people at hand are too few" if self.people else "no strangers were at hand"
        return (
            f"Strangers touched: unknown, since {few}. Faces of others (RETAIN, --gallery), or scores in the model's "
            "card (damnatio check --card), would tell."
        )
