"""Distances between distributions of scores, and the sketches that figures are drawn from."""

import math

import numpy as np
from numpy.typing import NDArray

from damnatio.metrics.verification import Scores

EDGES = np.linspace(-1.0, 1.0, 401)


def wasserstein1(a: Scores, b: Scores) -> float:
    """W1 of two empirical distributions, exactly: the area between their distribution functions."""
    from scipy.stats import wasserstein_distance  # half a second to import, and a finished run has no need of it

    return float(wasserstein_distance(a, b)) if len(a) and len(b) else math.nan


def histogram(scores: Scores) -> NDArray[np.int64]:
    """Counts over `EDGES`; a score that rounding carried past 1 or -1 falls into the last bin."""
    return np.histogram(np.clip(scores, -1, 1), EDGES)[0].astype(np.int64)
