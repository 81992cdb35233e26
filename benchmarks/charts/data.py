"""What every page draws: the tails of 80 distributions, and 400 people before and after."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

METHODS = 10
GROUPS = 8
POINTS = 200
PEOPLE = 400
LOWEST = 1e-6
"""the lowest rate that is drawn; a line ends there"""


@dataclass(frozen=True)
class Data:
    x: list[float]
    names: list[str]
    y: list[list[float | None]]
    before: list[list[float]]
    after: list[list[float]]

    def values(self) -> dict[str, object]:
        return vars(self)


def made(seed: int = 0) -> Data:
    """Shares of scores above each cosine, for every method and group; and two places for each person."""
    rng = np.random.default_rng(seed)
    x = np.linspace(-0.2, 1.0, POINTS)
    names = [f"method {method}, group {group}" for group in range(GROUPS) for method in range(METHODS)]
    means, widths = rng.uniform(-0.05, 0.5, len(names)), rng.uniform(0.05, 0.15, len(names))
    shares = norm.sf(x, means[:, None], widths[:, None])
    y = [[float(f"{share:.4g}") if share >= LOWEST else None for share in line] for line in shares]
    before, after = rng.uniform(-0.9, 0.9, (2, PEOPLE, 2)).round(4).tolist()
    return Data(x.round(5).tolist(), names, y, before, after)
