"""The contract of a source of faces, and the images as the later stages read them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from damnatio.faces.distances import Distances
from damnatio.recipe.schema import FaceSettings, PixelScale
from damnatio.support.errors import DamnatioError
from damnatio.support.manifests import checked
from damnatio.support.tables import Table

Images = NDArray[np.uint8]
"""[n, size, size, 3], RGB."""

POOL = "pool"
"""the column of a collection's table that says which of its sources an image comes from; other sources have none"""
PIXELS = "pixels.npy"
"""the cache of decoded images"""


class UnreadableError(Exception):
    """One image cannot be read; the text says why. The image is skipped, counted and named."""


class FaceSource(ABC):
    """Images that are read by their row in a table, in any order, so that a run can be resumed exactly."""

    Settings: ClassVar[type[FaceSettings]]

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.skipped: list[tuple[str, str, str]] = []

    def skip(self, image: str, reason: str, identity: str = "") -> None:
        """Record that `index` leaves this item out, and why."""
        self.skipped.append((image, identity, reason))

    @abstractmethod
    def fingerprint(self) -> Any:
        """All that the images depend on beyond the settings, such as a folder's listing, as JSON can hold it."""

    @abstractmethod
    def index(self) -> Table:
        """One row per image, the rows of an identity together and sorted by image (numbers as numbers): `image` (a
        unique name), `identity`, and the columns that `read` needs to find the image. An item that cannot be an image
        of the table is given to `skip`."""

    @abstractmethod
    def read(self, rows: Table) -> list[NDArray[np.uint8] | UnreadableError]:
        """For each row its image, RGB of the wanted size, or the error that says why it cannot be read."""


class Faces:
    """The images of a run: their table, and their pixels from the cache on disk or, without one, from the source."""

    def __init__(self, folder: Path, source: FaceSource) -> None:
        self.table = Table.read(folder / "faces.parquet")
        self.size: int = source.settings.size
        self._source, self._folder = source, folder
        cache = folder / PIXELS
        self._pixels: Images | None = np.load(checked(cache), mmap_mode="r") if cache.exists() else None

    def distances(self, scale: PixelScale) -> Distances:
        """The pixel distances within each identity."""
        return Distances(self._folder, self.table["identity"], scale)

    def read(self, rows: Sequence[int] | NDArray[np.int64]) -> Images:
        """The pixels of the images at these rows of the table."""
        if self._pixels is not None:
            return np.asarray(self._pixels[rows])
        wanted = self.table.where(np.asarray(rows))
        images = self._source.read(wanted)
        for name, image in zip(wanted["image"], images, strict=True):
            if isinstance(image, UnreadableError):
                raise DamnatioError(
                    f"The image {name} was readable and no longer is: {image}. Run the faces stage again."
                )
        return np.stack([image for image in images if not isinstance(image, UnreadableError)])
