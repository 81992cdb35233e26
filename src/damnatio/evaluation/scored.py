"""Scores of mated comparisons and searches, each with the identity that it belongs to."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from damnatio.evaluation.comparing import mated_across, mated_pairs, search
from damnatio.evaluation.pairings import Vectors
from damnatio.evaluation.scanning import Scores, dots
from damnatio.support.tables import Codes


@dataclass(frozen=True)
class Mated:
    """Scores, and the code of the identity that each belongs to."""

    scores: Scores
    subjects: Codes


@dataclass(frozen=True)
class Searches:
    """Mated searches: the score of the probe's own template, the highest score of any other, and the code of the
    probe."""

    own: Scores
    best: Scores
    subjects: Codes

    @cached_property
    def won(self) -> Scores:
        """The own score where the own template leads alone, else -inf, which no threshold accepts."""
        return np.where(self.own > self.best, self.own, -np.inf)


def within(vectors: Vectors) -> Mated:
    """Every pair of one identity once."""
    a, b = mated_pairs(vectors.codes)
    return Mated(dots(vectors.units, a, vectors.units, b), vectors.codes[a])


def across(first: Vectors, second: Vectors) -> Mated:
    """Every pair of one identity, one vector of each set."""
    a, b = mated_across(first.codes, second.codes)
    return Mated(dots(first.units, a, second.units, b), first.codes[a])


def mated_searches(own: Scores, best: Scores, subjects: Codes) -> Searches:
    """The searches whose probe has a template of its own."""
    there = own > -math.inf
    return Searches(own[there], best[there], subjects[there])


def searched(probes: Vectors, gallery: Vectors) -> Searches:
    return mated_searches(*search(*probes.pair, *gallery.pair), probes.codes)


def alarms(probes: Vectors, gallery: Vectors) -> Mated:
    """The highest score of each search with a probe of nobody in the gallery."""
    return Mated(search(*probes.pair, *gallery.pair)[1], probes.codes)
