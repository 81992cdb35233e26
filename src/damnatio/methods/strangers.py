"""What is known of strangers: how their scores lie, and how one draws a stranger's embedding.

Both come from people who are not to be forgotten, if there are enough of them. Otherwise the statistics come from the
card of the model, or from `COSINE`, and a stranger is drawn from a random subspace of as many dimensions as give
strangers' scores their spread.
"""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from damnatio.models.gate import Scatter
from damnatio.models.statistics import Statistics, Tail
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Codes, codes_of, groups_of

ENOUGH = 50
"""Fewer strangers than this say nothing of the tail of their scores."""
HALVED = 20
"""Fewer strangers than this all serve to fit, and nothing can be reported on them."""
EACH = 5
"""images of each stranger that the statistics use, so that nobody dominates them"""
MOST = 4_000
"""strangers that the statistics use; they are taken evenly"""
PROTOTYPES = 500
"""strangers whose prototypes stand in for those of forgotten people"""
SHARE = 0.01
"""the tail of strangers' scores begins where this share of them is above"""
LEAST_DIMENSION = 16
"""In fewer dimensions two strangers are alike too often for anybody to hide among them."""

Units = NDArray[np.float64]

COSINE = Statistics(
    nonmated_mean=0.006,
    nonmated_deviation=0.074,
    tail=Tail(share=SHARE, at=2.51, scale=0.51),
    mated_mean=0.63,
    mated_deviation=0.13,
    people=0,
    source="defaults for cosine models",
)
"""Of FaceX-Zoo's MobileFaceNet on Labeled Faces in the Wild, rounded. `damnatio check MODEL FACES --card` measures
those of another model."""


@dataclass(frozen=True)
class Strangers:
    """Unit vectors of people who are not to be forgotten, the code of each one's identity, and the names by code."""

    units: Units
    codes: Codes
    names: list[str]

    @cached_property
    def groups(self) -> list[NDArray[np.int64]]:
        """The rows of each person."""
        return list(groups_of(self.codes))

    def __len__(self) -> int:
        """The number of people."""
        return len(self.groups)

    @cached_property
    def few(self) -> tuple[Units, Codes]:
        """At most `EACH` images of at most `MOST` people."""
        people = [self.groups[place] for place in evenly(len(self), MOST)]
        rows = np.concatenate([group[evenly(len(group), EACH)] for group in people])
        return self.units[rows], self.codes[rows]

    def only(self, names: Collection[str]) -> "Strangers | None":
        """Those of these names; None if nobody is there."""
        kept = np.array([name in names for name in self.names])[self.codes]
        if not kept.any():
            return None
        codes, left = codes_of(np.array(self.names, dtype=object)[self.codes[kept]])
        return Strangers(self.units[kept], codes, [str(name) for name in left])


def parted(everyone: Strangers) -> tuple[Strangers | None, Strangers | None]:
    """The half of the people to fit on, and the other half to report on. A hash of the name decides, so that neither
    the photographs nor a seed matter; a name of two sources (`retain/Ann`, `gallery/Ann`) is in one half."""
    if len(everyone) < HALVED:
        return everyone, None

    def drawn(name: str) -> bytes:
        return hashlib.sha256((name.partition("/")[2] or name).encode("utf-8", "surrogatepass")).digest()

    names, half = sorted(everyone.names, key=drawn), len(everyone.names) // 2
    return everyone.only(names[half:]), everyone.only(names[:half])


def statistics_of(strangers: Strangers, source: str) -> Statistics:
    """How mated and non-mated scores lie, measured on these people. The prototypes of some of them stand in for those
    of forgotten people, and each prototype's scores are counted in deviations from their own mean."""
    units, codes = strangers.few
    groups = list(groups_of(codes))
    chosen = [groups[place] for place in evenly(len(groups), PROTOTYPES)]
    to_all = np.stack([mean_direction(units[group]) for group in chosen]) @ units.T
    to_others = [np.delete(scores, group) for scores, group in zip(to_all, chosen, strict=True)]
    z = np.concatenate([(scores - scores.mean()) / scores.std() for scores in to_others])
    at = float(np.quantile(z, 1 - SHARE))
    mean, deviation = _across_people(units, groups)
    pairs = [(units[g] @ units[g].T)[np.triu_indices(len(g), 1)] for g in groups if len(g) > 1]
    mated = np.concatenate(pairs) if pairs else np.zeros(0)
    known = len(pairs) >= ENOUGH
    return Statistics(
        nonmated_mean=mean,
        nonmated_deviation=deviation,
        tail=Tail(share=SHARE, at=at, scale=float((z[z > at] - at).mean())),
        mated_mean=float(mated.mean()) if known else COSINE.mated_mean,
        mated_deviation=float(mated.std()) if known else COSINE.mated_deviation,
        people=len(strangers),
        source=source,
    )


def _across_people(units: Units, groups: list[NDArray[np.int64]]) -> tuple[float, float]:
    """Mean and deviation of the scores of images of different people, each person weighted alike.

    Sums over all pairs of people follow from sums over people: of means m_a, and of second moments S_a, since
    E<x, y>^2 = tr(S_a S_b).
    """
    means = np.stack([units[group].mean(axis=0) for group in groups])
    moments = sum(units[group].T @ units[group] / len(group) for group in groups)
    own = sum(float(np.square(units[group] @ units[group].T).mean()) for group in groups)
    pairs = len(groups) * (len(groups) - 1)
    total = means.sum(axis=0)
    first = float(total @ total - np.square(means).sum()) / pairs
    second = (float(np.square(moments).sum()) - own) / pairs
    return first, float(np.sqrt(max(second - first * first, 0.0)))


def scatter_of(
    dim: int, statistics: Statistics, strangers: Strangers | None, *, waves: int, bandwidth: float, seed: int
) -> Scatter:
    """The scatter that draws strangers like these; without strangers, from a random subspace."""
    if dim < LEAST_DIMENSION:
        raise DamnatioError(
            f"The model's embeddings have {dim} dimensions, and the scatter needs at least {LEAST_DIMENSION}: in "
            "fewer, two strangers are alike too often for anybody to hide among them."
        )
    rng = np.random.default_rng([seed, 11])
    frequencies = rng.normal(0, bandwidth, (waves, dim))
    phases = rng.uniform(0, 2 * np.pi, waves)
    mixing = rng.normal(0, np.sqrt(2 / waves), (dim, waves))
    mean, factor = matched(strangers) if strangers else subspace(dim, statistics, rng)
    values = (frequencies, phases, factor @ mixing, mean)
    return Scatter(*(torch.from_numpy(value.astype(np.float32)) for value in values))


def matched(strangers: Strangers) -> tuple[Units, Units]:
    """The mean mu and a factor L of the covariance of strangers' embeddings, each person weighted alike, such that two
    draws norm(mu + L z) are as alike as two strangers: their scores have the same mean and the same deviation.

    A covariance of few people makes draws more alike than people are, so it is shrunk towards that of a sphere by as
    much as the deviation of real scores asks for.
    """
    units, codes = strangers.few
    groups = list(groups_of(codes))
    mean, deviation = _across_people(units, groups)
    weights = np.concatenate([np.full(len(g), 1 / (len(groups) * len(g))) for g in groups])
    rows = np.concatenate(groups)
    mu = weights @ units[rows]
    centred = units[rows] - mu
    covariance = (centred * weights[:, None]).T @ centred
    mu = mu * np.sqrt(max(mean, 0.0)) / max(float(np.linalg.norm(mu)), 1e-12)
    dim, trace = len(mu), float(np.trace(covariance))
    alike, wanted, sphere = float(np.square(covariance).sum()) / trace**2, (deviation / (1 - mean)) ** 2, 1 / dim
    kept = 1.0 if alike <= max(wanted, sphere) else np.sqrt(max(wanted - sphere, 0.0) / (alike - sphere))
    covariance = kept * covariance + (1 - kept) * trace / dim * np.eye(dim)
    values, vectors = np.linalg.eigh(covariance * (1 - mu @ mu) / trace)
    return mu, (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def subspace(dim: int, statistics: Statistics, rng: np.random.Generator) -> tuple[Units, Units]:
    """The same without strangers: scores in k dimensions have the deviation k^-1/2, so k follows from the deviation."""
    mean = min(max(statistics.nonmated_mean, 0.0), 0.9)
    count = int(np.clip(round(((1 - mean) / statistics.nonmated_deviation) ** 2), 2, dim - 1))
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    inside = basis[:, :count]
    return basis[:, -1] * np.sqrt(mean), inside @ inside.T * np.sqrt((1 - mean) / count)


def mean_direction(units: Units) -> Units:
    """norm(sum of the vectors)."""
    total = units.sum(axis=0)
    return np.asarray(total / max(float(np.linalg.norm(total)), 1e-12))


def evenly(count: int, most: int) -> NDArray[np.int64]:
    """At most so many places of 0 to count - 1, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
