"""The contract of a source of faces, stage 1, and the images as the later stages read them."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.lib.format import write_array_header_1_0
from numpy.typing import NDArray

from damnatio.recipe.schema import FaceSettings
from damnatio.support.errors import DamnatioError
from damnatio.support.files import write_atomically
from damnatio.support.manifests import checked
from damnatio.support.progress import progress
from damnatio.support.tables import Table, codes_of

Images = NDArray[np.uint8]
"""[n, size, size, 3], RGB."""

POOL = "pool"
"""the column of a collection's table that says which of its sources an image comes from; other sources have none"""
CHUNK = 512
"""images read at once"""


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
        self._source = source
        cache = folder / "pixels.npy"
        self._pixels: Images | None = np.load(checked(cache), mmap_mode="r") if cache.exists() else None

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


def collect(source: FaceSource, folder: Path) -> None:
    """Stage 1: index the source, read each image once, keep the readable ones and name the others."""
    source.skipped.clear()
    index, skipped = source.index(), source.skipped
    size = source.settings.size
    kept = np.ones(len(index), dtype=bool)
    cached = len(index) * size * size * 3 <= source.settings.cache_gb * 1e9
    (folder / "pixels.npy").unlink(missing_ok=True)  # an interrupted call may have left one
    file = _PixelFile(folder / "pixels.npy" if cached else None, size)
    with file as pixels, progress("faces", len(index), "images") as advance:
        for start in range(0, len(index), CHUNK):
            chunk = index.where(np.arange(start, min(start + CHUNK, len(index))))
            for place, image in enumerate(source.read(chunk)):
                if isinstance(image, UnreadableError):
                    kept[start + place] = False
                    skipped.append((chunk["image"][place], chunk["identity"][place], str(image)))
                else:
                    pixels.append(image)
            advance(len(chunk))
    if not kept.any():
        (folder / "pixels.npy").unlink(missing_ok=True)  # no later call can resume from it
        reasons = "; ".join(sorted({reason for _, _, reason in skipped})[:3])
        raise DamnatioError(f"The source '{source.settings.source}' gave no readable image: {reasons}.")
    faces = index.where(kept)
    faces.write(folder / "faces.parquet")
    Table.of_rows(["image", "identity", "reason"], skipped).write(folder / "skipped.parquet")
    counts = np.bincount(codes_of(faces["identity"])[0])
    summary = {
        "images": len(faces),
        "identities": len(counts),
        "identities_with_one_image": int((counts == 1).sum()),
        "skipped": len(skipped),
        "skipped_because": dict(Counter(reason for _, _, reason in skipped).most_common(10)),
        "first_skipped": [f"{name}: {reason}" for name, _, reason in skipped[:5]],
        "pixels_sha256": pixels.digest.hexdigest(),
    }
    write_atomically(folder / "summary.json", json.dumps(summary, indent=1) + "\n")


class _PixelFile:
    """A .npy file that images are appended to; without a path, nothing is written. It is a stream and no memory map, so
    that a full disk is an error and not a signal."""

    def __init__(self, path: Path | None, size: int) -> None:
        self._path, self._size, self._count = path, size, 0
        self.digest = hashlib.sha256()
        """of all pixels, whether there is a file or not: two runs on the same images know it by this"""

    def __enter__(self) -> "_PixelFile":
        self._file = self._path.open("wb") if self._path else None
        self._header()
        return self

    def append(self, image: NDArray[np.uint8]) -> None:
        self.digest.update(np.ascontiguousarray(image).data)
        if self._file:
            self._file.write(np.ascontiguousarray(image).data)
            self._count += 1

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.seek(0)
            self._header()
            self._file.close()

    def _header(self) -> None:
        """NumPy pads its header for a first axis that grows, so the header of the final count takes the same room."""
        if self._file:
            shape = (self._count, self._size, self._size, 3)
            write_array_header_1_0(self._file, {"descr": "|u1", "fortran_order": False, "shape": shape})
