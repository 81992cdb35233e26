"""Open-set 1:N searches: each probe is compared with every template of a gallery.

A mated search succeeds if the probe's own identity is the top candidate alone (a tie loses) and its score reaches the
threshold. A non-mated search raises a false alarm if its highest score does. So a search is known by two numbers: the
score of the probe's own template and the highest score of any other.
"""

import math

import numpy as np
from numpy.typing import NDArray

from damnatio.metrics.verification import Scores


def identified(own: Scores, best_other: Scores, threshold: float) -> NDArray[np.bool_]:
    """Whether each mated search returns its own identity first and at or above the threshold."""
    return (own > best_other) & (own >= threshold)


def true_positive_rate(own: Scores, best_other: Scores, threshold: float) -> float:
    """TPIR: the share of mated searches that succeed."""
    return float(np.mean(identified(own, best_other, threshold))) if len(own) else math.nan


def identification_curve(own: Scores, best_other: Scores, thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """TPIR at each threshold, by one sort: only searches won at rank one can succeed."""
    if not len(own):
        return np.full(len(thresholds), math.nan)
    won = np.sort(own[own > best_other])
    return (len(won) - np.searchsorted(won, thresholds, side="left")) / len(own)
