"""A look at a training while it runs: how alike two photographs of one person are to the network, on a few pairs.

    retain      mean cosine of two images of one retain identity
    strangers   mean cosine of two images of different retain identities: where forgotten people should end
    forget      mean cosine of two forget-train images of one person, in fine-tuning

Looking changes nothing. The network is in evaluation mode meanwhile, so BatchNorm keeps its statistics and nothing is
drawn at random; then the loop's own mode is put back. Each look is a line of a log, beside the log of the losses.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from damnatio.models.inputs import Inputs, Rows, embed_inputs
from damnatio.support.tables import groups_of
from damnatio.training.checkpoints import Schedule, drop_lines_after

FILE = "similarity.jsonl"
SHARE = 0.01
"""of the time that looks may take, beside the one before the first step and the one after the last"""
BATCH = 128


@dataclass(frozen=True)
class Pairs:
    """Pairs of images of one identity: n x 2 rows, and the n identities."""

    rows: Rows
    identities: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)


def pairs_of(rows: Rows, identities: NDArray[np.int64], count: int) -> Pairs:
    """At most so many pairs, no image in two of them. All identities that have a pair give one before any gives a
    second; of more identities than pairs, some at equal distances are taken."""
    groups = [group for group in groups_of(identities) if len(group) > 1]
    if len(groups) > count:
        groups = [groups[place] for place in np.linspace(0, len(groups) - 1, count).astype(int)]
    longest = max((len(group) for group in groups), default=0)
    found = [group[k : k + 2] for k in range(0, longest - 1, 2) for group in groups if len(group) >= k + 2]
    places = np.array(found[:count], dtype=np.int64).reshape(-1, 2)
    return Pairs(rows[places], identities[places[:, 0]])


class Similarity:
    """The looks at one training: at its pairs by name, `retain` and, in fine-tuning, `forget`."""

    def __init__(self, pairs: Mapping[str, Pairs], inputs: Inputs, dim: int, folder: Path) -> None:
        self._pairs = {name: found for name, found in pairs.items() if len(found)}
        self._inputs, self._dim, self._path = inputs, dim, folder / FILE
        self._schedule = Schedule(0.0, SHARE)

    def go_on(self, step: int) -> None:
        """So many steps were done before: lines of later ones are dropped."""
        drop_lines_after(step, self._path) if step else self._path.unlink(missing_ok=True)

    def is_due(self) -> bool:
        return self._schedule.is_due()

    def look(self, step: int, network: nn.Module, put_back: Callable[[], None]) -> None:
        """Write how alike the images are after so many steps. `put_back` sets the network to its mode again."""
        if not self._pairs:
            return
        started = time.monotonic()
        found = self._measure(network)
        put_back()
        with self._path.open("a") as log:
            log.write(json.dumps({"step": step, **{name: round(value, 4) for name, value in found.items()}}) + "\n")
        self._schedule.took(time.monotonic() - started)

    def _measure(self, network: nn.Module) -> dict[str, float]:
        rows = np.concatenate([pairs.rows.ravel() for pairs in self._pairs.values()])
        units = embed_inputs(network, self._inputs, dim=self._dim, rows=rows, batch=BATCH).astype(np.float64)
        found: dict[str, float] = {}
        for name, pairs in self._pairs.items():
            own, units = units[: 2 * len(pairs)].reshape(-1, 2, self._dim), units[2 * len(pairs) :]
            cosines = own[:, 0] @ own[:, 1].T
            found[name] = float(np.diagonal(cosines).mean())
            others = cosines[pairs.identities[:, None] != pairs.identities]
            if name == "retain" and len(others):
                found["strangers"] = float(others.mean())
        return found
