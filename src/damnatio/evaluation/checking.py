"""Is a model fed as it was trained? Verification of labelled faces with the channels as declared, and swapped.

The wrong order of colours costs accuracy and raises no error; only faces can show it. For each order, the separation of
a person is the mean of the person's mated scores minus the mean of the non-mated ones, in standard deviations of all
non-mated scores. The orders differ if the mean of the paired differences over people is not zero by Student's t.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from torch import nn

from damnatio.embedding import embed
from damnatio.faces.base import Faces, FaceSource, Images, UnreadableError
from damnatio.methods.strangers import ENOUGH, Strangers, statistics_of
from damnatio.metrics.verification import Calibration, acceptance_rate, calibrate
from damnatio.models.card import Card
from damnatio.models.statistics import Statistics
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import codes_of

TARGETS = (1e-3, 1e-4)
CONFIDENCE = 0.99
MOST_IMAGES, LEAST_OF_ONE = 2_000, 4
SAME = 1e-6
"""two unit vectors count as equal if no value differs by more"""


@dataclass(frozen=True)
class Verification:
    """How well one order of colours separates people, with the TMR at each target that the comparisons resolve."""

    colour: str
    tmr: dict[float, float]
    mated: float
    nonmated: float
    counts: tuple[int, int]
    separations: NDArray[np.float64]
    """one per person"""
    statistics: Statistics | None
    """of the scores, for the model's card; None if there are too few people"""


@dataclass(frozen=True)
class Difference:
    """How much better the swapped order separates people than the declared one, with its interval."""

    mean: float
    low: float
    high: float
    people: int


def difference(declared: Verification, swapped: Verification) -> Difference:
    paired = swapped.separations - declared.separations
    half = math.inf
    if len(paired) > 1:
        half = float(stdtrit(len(paired) - 1, (1 + CONFIDENCE) / 2)) * paired.std(ddof=1) / math.sqrt(len(paired))
    mean = float(paired.mean())
    return Difference(mean, mean - half, mean + half, len(paired))


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
    labels, names = codes_of(chosen["identity"][read])[0], chosen["image"][read]
    if not len(labels) or np.bincount(labels).max() < 2 or labels.max() < 1:
        reasons = sorted({str(image).split(":")[0] for image in images if isinstance(image, UnreadableError)})
        raise DamnatioError(
            f"The check needs two images of one person and one of another, of {card.size}x{card.size} pixels as the "
            f"model takes them; {int((~read).sum())} of {len(images)} cannot be used: {'; '.join(reasons[:3])}. Bring "
            "them to that size, or name a recipe that has faces.resize: true."
        )
    held = Held(np.stack([image for image in images if not isinstance(image, UnreadableError)]))
    swapped = card.model_copy(update={"colour": "RGB" if card.colour == "BGR" else "BGR"})
    declared, other = (_verify(backbone, one, held, labels, names) for one in (card, swapped))
    return declared, other


def choose(identities: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of people with two images or more. If there are too many, take the first few images of each person; if there
    are still too many, take people spread evenly over the index."""
    order = np.argsort(identities, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(identities[order]) > 0]) if len(order) else np.array([], dtype=int)
    groups = [group for group in np.split(order, starts[1:]) if len(group) > 1]
    if not groups:
        raise DamnatioError("Nobody among these faces has two images: no order of colours can be judged on them.")
    sizes = np.array([len(group) for group in groups])
    most = sizes.max()
    while most > LEAST_OF_ONE and np.minimum(sizes, most).sum() > MOST_IMAGES:
        most -= 1
    groups = [group[:most] for group in groups]
    total = sum(len(group) for group in groups)
    if total > MOST_IMAGES:
        wanted = len(groups) * MOST_IMAGES // total
        groups = [groups[place * len(groups) // wanted] for place in range(wanted)]
    return np.sort(np.concatenate(groups))[:MOST_IMAGES]


def _verify(
    backbone: nn.Module, card: Card, faces: Held, labels: NDArray[np.int64], names: NDArray[np.object_]
) -> Verification:
    rows = np.arange(len(labels))
    units = embed(backbone, card, faces, rows, 64, f"check {card.colour}").astype(np.float64)
    _refuse_degenerate(units, names)
    scores, same = units @ units.T, labels[:, None] == labels
    np.fill_diagonal(same, False)
    other = labels[:, None] != labels
    pairs = np.triu(np.ones_like(same), 1)
    mated, nonmated = scores[same & pairs], scores[other & pairs]
    points: list[Calibration] = [point for point in calibrate(nonmated, TARGETS) if point.resolved]
    return Verification(
        colour=card.colour,
        tmr={point.target: acceptance_rate(mated, point.threshold) for point in points},
        mated=float(mated.mean()),
        nonmated=float(nonmated.mean()),
        counts=(len(mated), len(nonmated)),
        separations=(_by_person(scores, same, labels) - _by_person(scores, other, labels)) / max(nonmated.std(), SAME),
        statistics=_statistics(units, labels),
    )


def _statistics(units: NDArray[np.float64], labels: NDArray[np.int64]) -> Statistics | None:
    people = Strangers(units, labels, [""] * (int(labels.max()) + 1))
    return statistics_of(people, f"{len(people):,} people of a check") if len(people) >= ENOUGH else None


def _by_person(scores: NDArray[np.float64], mask: NDArray[np.bool_], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mean of each person's scores in the mask, for people with two images or more."""
    counts, sums = (np.bincount(labels, weights=values.sum(axis=1)) for values in (mask, np.where(mask, scores, 0)))
    several = np.bincount(labels) > 1
    means: NDArray[np.float64] = sums[several] / counts[several]
    return means


def _refuse_degenerate(units: NDArray[np.float64], names: NDArray[np.object_]) -> None:
    """Raise an error if the weights are missing or damaged: the check would then say nothing about colours."""
    lengths = np.linalg.norm(units, axis=1)
    for fault, bad in (("not finite", ~np.isfinite(lengths)), ("of zero length", lengths == 0)):
        if bad.any():
            raise DamnatioError(
                f"The embeddings of {bad.sum()} of {len(units)} images are {fault}, first that of {names[bad][0]}: "
                "the weights are damaged, or the model is fed in another way (model.mean, model.deviation)."
            )
    if np.abs(units - units[0]).max() < SAME:
        raise DamnatioError(
            f"All {len(units)} images have the same embedding: the weights are damaged, or the model is fed in another "
            "way (model.mean, model.deviation)."
        )


def text(declared: Verification, swapped: Verification) -> str:
    """Both orders as a table, and a warning if the swapped order is better by more than chance."""
    targets = list(declared.tmr)
    head = ["channels", *(f"TMR@FMR {target:g}" for target in targets), "mated", "non-mated", "separation"]
    lines = ["  ".join(f"{cell:>14}" for cell in head)]
    for one, name in ((declared, "declared"), (swapped, "swapped")):
        numbers = [*one.tmr.values(), one.mated, one.nonmated, float(one.separations.mean())]
        lines.append("  ".join(f"{cell:>14}" for cell in [f"{one.colour} {name}", *(f"{n:.4f}" for n in numbers)]))
    mated, nonmated = declared.counts
    lines.append(f"{mated:,} mated and {nonmated:,} non-mated comparisons; means of the cosine")
    found = difference(declared, swapped)
    lines.append(
        f"Separation, {swapped.colour} less {declared.colour}: {found.mean:+.3f}, {100 * CONFIDENCE:g} % interval "
        f"[{found.low:+.3f}, {found.high:+.3f}] (Student's t over {found.people} people, paired)"
    )
    worse = any(swapped.tmr[target] < declared.tmr[target] for target in targets)
    if found.low > 0 and not worse:
        lines.append(
            f"WARNING: {swapped.colour} is better than the declared {declared.colour}: "
            f"set model.colour={swapped.colour}, or correct the card."
        )
    elif found.high < 0:
        lines.append(f"The declared {declared.colour} is the better order.")
    else:
        lines.append("No difference between the orders was found on these faces: keep the declared order.")
    return "\n".join(lines)
