"""A uniform share of a stream of pairs, where there are more than can be kept."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from damnatio.evaluation.scanning import Places


class Thinned:
    """A uniform share of a stream of pairs, at most `most` of them. A pair stays while its hash is below a limit, and
    the limit is halved when there are too many. So the order of the stream does not matter."""

    def __init__(self, most: int = 50_000) -> None:
        self.most, self.share = most, 1.0
        self.i, self.j = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def add(self, i: Places, j: Places) -> None:
        kept = self._stays(i, j)
        self.i, self.j = np.concatenate([self.i, i[kept]]), np.concatenate([self.j, j[kept]])
        while len(self.i) > self.most:
            self.share /= 2
            kept = self._stays(self.i, self.j)
            self.i, self.j = self.i[kept], self.j[kept]

    @staticmethod
    def joined(parts: Sequence["Thinned"]) -> "Thinned":
        """What one stream of all pairs leaves, from what its parts left. Which pairs stay is a matter of their hashes
        and their number, and not of the parts."""
        whole = Thinned(parts[0].most)
        whole.share = min(part.share for part in parts)
        for part in parts:
            whole.add(part.i, part.j)
        return whole

    def among(self, i: Places, j: Places) -> tuple[Places, Places]:
        """The pairs that may stay. A pair that does not stay now never will, so that many threads can ask this before
        `add`."""
        kept = self._stays(i, j)
        return i[kept], j[kept]

    def _stays(self, i: Places, j: Places) -> NDArray[np.bool_]:
        mixed = i.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + j.astype(np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
        return (mixed >> np.uint64(32)) < np.uint64(self.share * 2**32)
