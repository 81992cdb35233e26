"""How many images each partition of a recipe will have, before anything is decoded.

Where the source is at hand, its index is drawn into partitions as stage 3 will do it, with every image as a capture
instance of its own: so the forget images are counted a little too high. Where it is not, each identity gets as many
images as the paper's have.
"""

from dataclasses import dataclass

import numpy as np

from damnatio.faces import SOURCES
from damnatio.faces.base import FaceSource
from damnatio.partitions import DEVELOPMENT, DISTRACTOR, EVAL, PROBE, TEST, TRAIN, Partitions, draw
from damnatio.recipe.schema import PartitionSettings, Recipe
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table

PAPER_IMAGES, PAPER_IDENTITIES = 4_200_000, 205_990
"""WebFace4M (IV-A); the paper says "about 4.2 million"."""
PAPER_PROBES = {"control": 10_488 / 1_000, "test": 10_645 / 1_000}
"""probes of an identity, which are half of its images (Table II)"""
PAPER_EVAL = {1_000: 6_289 / 1_000, 5_000: 30_934 / 5_000}
"""forget-eval images of an identity by the size of the forget set, where a fifth is eval (Table II)"""
PAPER_SHARE = 0.8


@dataclass(frozen=True)
class Counts:
    """Numbers of images, unless a name says otherwise. The forget images are those of one scale each."""

    images: int
    identities: int
    classes: int
    """retain identities: the rows of the head"""
    retain: int
    control: int
    test: int
    development: int
    distractors: int
    probes: int
    """of the control and the test set"""
    forget_train: dict[str, int]
    forget_eval: dict[str, int]
    forget_identities: dict[str, int]
    evaluated: int
    """images that every model embeds: all that are compared at some scale"""
    templates: int
    """of the gallery, without those of the forget identities"""
    origin: str
    """where the numbers come from"""

    def forget_set(self) -> int:
        """Forget-train images of the largest scale, which holds the others."""
        return max(self.forget_train.values())


@dataclass(frozen=True)
class AtHand:
    """A source that can be read now, and its index."""

    source: FaceSource
    index: Table


def at_hand(recipe: Recipe) -> AtHand | str:
    """The source of the recipe, or the sentence that says why it cannot be read."""
    try:
        source = SOURCES.get(recipe.faces.source)(recipe.faces)
        return AtHand(source, source.index())
    except (DamnatioError, OSError) as error:
        return str(error).rstrip(".")


def counts_of(recipe: Recipe, found: AtHand | str) -> Counts:
    """The counts of a recipe by the index of its source; without one, by the paper's images per identity."""
    if isinstance(found, str):
        return paper_counts(recipe.partitions, f"the paper's Table II and 20.4 images per identity ({found})")
    index = found.index
    columns = {"capture": np.arange(len(index)), "kept": np.ones(len(index), dtype=bool)}
    partitions = draw(index.with_columns(**columns), recipe.partitions, recipe.seed)
    return drawn_counts(partitions, recipe.partitions, "the index of the source, before capture instances are found")


def drawn_counts(partitions: Partitions, settings: PartitionSettings, origin: str) -> Counts:
    """The counts of partitions that were drawn."""
    scales = partitions.scales
    control = partitions.table["control"].astype(bool)
    retain, labels = partitions.retain()
    return Counts(
        images=len(partitions.table),
        identities=len(set(partitions.table["identity"])),
        classes=int(labels.max()) + 1,
        retain=len(retain),
        control=int(control.sum()),
        test=int(partitions.has(TEST).sum()),
        development=int(partitions.has(DEVELOPMENT).sum()),
        distractors=int(partitions.has(DISTRACTOR).sum()),
        probes=int((partitions.table["role"] == PROBE).sum()),
        forget_train={scale: int(partitions.in_forget_set(scale, TRAIN).sum()) for scale in scales},
        forget_eval={scale: int(partitions.in_forget_set(scale, EVAL).sum()) for scale in scales},
        forget_identities=dict(scales),
        evaluated=len(partitions.evaluated()),
        templates=_templates(settings),
        origin=origin,
    )


def paper_counts(settings: PartitionSettings, origin: str) -> Counts:
    """The counts of as many identities as the recipe names, each with as many images as the paper's have."""
    each = PAPER_IMAGES / PAPER_IDENTITIES

    def evaluated(identities: int) -> float:
        nearest = min(PAPER_EVAL, key=lambda size: abs(size - identities))
        return identities * PAPER_EVAL[nearest] / (1 - PAPER_SHARE)  # one image of each capture instance

    images = {scale: evaluated(count) for scale, count in settings.scales.items()}
    train = {scale: round(count * settings.forget_train) for scale, count in images.items()}
    probes = {name: getattr(settings, name) * share for name, share in PAPER_PROBES.items()}
    control, test = (round(2 * count) for count in probes.values())
    development, distractors = round(settings.development * each), round(settings.distractors * each)
    needed = settings.retain + settings.test + settings.development + settings.distractors
    identities = max(PAPER_IDENTITIES, needed + max(settings.scales.values()))
    return Counts(
        images=round(identities * each),
        identities=identities,
        classes=settings.retain,
        retain=round(settings.retain * each),
        control=control,
        test=test,
        development=development,
        distractors=distractors,
        probes=round(sum(probes.values())),
        forget_train=train,
        forget_eval={scale: round(count) - train[scale] for scale, count in images.items()},
        forget_identities=dict(settings.scales),
        evaluated=control + test + development + distractors + round(max(images.values())),
        templates=_templates(settings),
        origin=origin,
    )


def _templates(settings: PartitionSettings) -> int:
    return settings.control + settings.test + settings.distractors
