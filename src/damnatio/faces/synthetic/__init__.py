"""Rendered faces, the source that needs no data: a seed decides identities, capture instances and shots."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from damnatio.faces import SOURCES
from damnatio.faces.base import FaceSource, UnreadableError
from damnatio.recipe.schema import Count, FaceSettings
from damnatio.support.tables import Table


@SOURCES.register("synthetic")
class Synthetic(FaceSource):
    """Faces that a renderer draws from (seed, identity, instance, shot); nothing is read from disk."""

    class Settings(FaceSettings):
        source: Literal["synthetic"]
        size: int = Field(112, ge=32, le=112)
        identities: Count = Field(2_000, le=1_000_000)
        instances: Count = Field(12, le=1_000, description="mean number of capture instances of an identity")
        min_instances: Count = Field(6, le=1_000)
        max_instances: Count = Field(40, le=1_000)
        burst: float = Field(0.1, ge=0, le=1, description="share of the capture instances that hold a burst")
        burst_shots: int = Field(3, ge=2, le=10, description="shots of a burst")
        unlikeness: float = Field(
            1.0, gt=0, le=2, description="how much the shapes of two identities differ, against what is usual"
        )
        variation: float = Field(
            1.0, ge=0, le=2, description="how much captures of one identity differ, against what is usual"
        )
        seed: int = Field(1, ge=0, lt=2**63)

    def fingerprint(self) -> Any:
        """Nothing: the settings and the code of the renderer decide the images."""
        return None

    def index(self) -> Table:
        """As on the web, most identities have few images and some have many: geometric above `min_instances`."""
        s: Synthetic.Settings = self.settings
        rng = np.random.default_rng([s.seed, 0])
        extra = max(s.instances - s.min_instances, 0)
        counts = s.min_instances + rng.geometric(1 / (extra + 1), s.identities) - 1
        counts = np.minimum(counts, s.max_instances)
        identity = np.repeat(np.arange(s.identities), counts)
        instance = np.concatenate([np.arange(count) for count in counts])
        shots = np.where(rng.random(len(identity)) < s.burst, s.burst_shots, 1)
        shot = np.concatenate([np.arange(count) for count in shots])
        identity, instance = np.repeat(identity, shots), np.repeat(instance, shots)
        names = [f"{i:06d}" for i in range(s.identities)]
        return Table(
            {
                "image": [f"{names[i]}/{j:03d}-{k}" for i, j, k in zip(identity, instance, shot, strict=True)],
                "identity": [names[i] for i in identity],
                "instance": instance,
                "shot": shot,
            }
        )

    def read(self, rows: Table) -> list[NDArray[np.uint8] | UnreadableError]:
        from damnatio.faces.synthetic.rendering import render

        s: Synthetic.Settings = self.settings
        names = np.array([int(name) for name in rows["identity"]]), rows["instance"], rows["shot"]
        return list(render(s.seed, *names, s.size, unlikeness=s.unlikeness, variation=s.variation))
