"""Is a model fed as it was trained? Verification of labelled faces with the channels as declared, and swapped.

The wrong order of colours costs accuracy and raises no error; nothing but faces can tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import nn

from damnatio.embedding import embed
from damnatio.errors import DamnatioError
from damnatio.faces.base import Faces, FaceSource, Images, UnreadableError
from damnatio.metrics.verification import Calibration, acceptance_rate, calibrate
from damnatio.models import Card
from damnatio.tables import codes_of

TARGETS = (1e-3, 1e-4)
MOST_IMAGES, MOST_OF_ONE = 2_000, 4


@dataclass(frozen=True)
class Verification:
    """How well one order of colours tells people apart; the TMR at each target that the comparisons resolve."""

    colour: str
    tmr: dict[float, float]
    mated: float
    nonmated: float
    counts: tuple[int, int]

    @property
    def merit(self) -> tuple[float, ...]:
        return (*self.tmr.values(), self.mated - self.nonmated)


class Held(Faces):
    """Images in memory, by row."""

    def __init__(self, pixels: Images) -> None:
        self._pixels = pixels

    def read(self, rows: Sequence[int] | NDArray[np.int64]) -> Images:
        assert self._pixels is not None
        return np.asarray(self._pixels[rows])


def check(backbone: nn.Module, card: Card, source: FaceSource) -> tuple[Verification, Verification]:
    """(as declared, swapped) on a fixed choice of the source's images."""
    index = source.index()
    chosen = index.where(choose(codes_of(index["identity"])[0]))
    images = source.read(chosen)
    read = np.array([not isinstance(image, UnreadableError) for image in images], dtype=bool)
    labels = codes_of(chosen["identity"][read])[0]
    if not len(labels) or np.bincount(labels).max() < 2 or labels.max() < 1:
        raise DamnatioError(
            f"The check needs two readable images of one person and one of another; "
            f"{int((~read).sum())} of {len(images)} images cannot be read."
        )
    held = Held(np.stack([image for image in images if not isinstance(image, UnreadableError)]))
    swapped = card.model_copy(update={"colour": "RGB" if card.colour == "BGR" else "BGR"})
    declared, other = (_verify(backbone, one, held, labels) for one in (card, swapped))
    return declared, other


def choose(identities: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of people with two images or more: the first few of each, of people spread evenly over the index."""
    order = np.argsort(identities, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(identities[order]) > 0]) if len(order) else np.array([], dtype=int)
    groups = [group[:MOST_OF_ONE] for group in np.split(order, starts[1:]) if len(group) > 1]
    total = sum(len(group) for group in groups)
    if not groups:
        raise DamnatioError("Nobody among these faces has two images: no order of colours can be judged on them.")
    if total > MOST_IMAGES:
        wanted = len(groups) * MOST_IMAGES // total
        groups = [groups[place * len(groups) // wanted] for place in range(wanted)]
    return np.sort(np.concatenate(groups))[:MOST_IMAGES]


def _verify(backbone: nn.Module, card: Card, faces: Held, labels: NDArray[np.int64]) -> Verification:
    rows = np.arange(len(labels))
    units = embed(backbone, card, faces, rows, 64, f"check {card.colour}").astype(np.float64)
    first, second = np.triu_indices(len(labels), 1)
    scores, same = (units @ units.T)[first, second], labels[first] == labels[second]
    mated, nonmated = scores[same], scores[~same]
    points: list[Calibration] = [point for point in calibrate(nonmated, TARGETS) if point.resolved]
    return Verification(
        colour=card.colour,
        tmr={point.target: acceptance_rate(mated, point.threshold) for point in points},
        mated=float(mated.mean()),
        nonmated=float(nonmated.mean()),
        counts=(len(mated), len(nonmated)),
    )


def text(declared: Verification, swapped: Verification) -> str:
    """Both orders as a table, and a warning if the other one is better."""
    targets = list(declared.tmr)
    head = ["channels", *(f"TMR@FMR {target:g}" for target in targets), "mated", "non-mated"]
    lines = ["  ".join(f"{cell:>14}" for cell in head)]
    for one, name in ((declared, "declared"), (swapped, "swapped")):
        numbers = [*one.tmr.values(), one.mated, one.nonmated]
        lines.append("  ".join(f"{cell:>14}" for cell in [f"{one.colour} {name}", *(f"{n:.4f}" for n in numbers)]))
    mated, nonmated = declared.counts
    lines.append(f"{mated:,} mated and {nonmated:,} non-mated comparisons; means of the cosine")
    if not targets:
        lines.append("Too few comparisons for a rate: the means alone were compared.")
    if swapped.merit > declared.merit:
        lines.append(
            f"WARNING: {swapped.colour} is better than the declared {declared.colour}: "
            f"set model.colour={swapped.colour}, or correct the card."
        )
    return "\n".join(lines)
