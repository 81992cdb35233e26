"""The contract of a source of faces, and the store that the later stages read pixels from."""

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

CHUNK = 512


class UnreadableError(Exception):
    """One image cannot be read; its text says why. The image is skipped, counted and named."""


class FaceSource(ABC):
    """Images by row of a table: map-style, so that identities can be sampled and a run resumed exactly."""

    Settings: ClassVar[type[FaceSettings]]

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.skipped: list[tuple[str, str, str]] = []

    def skip(self, image: str, reason: str, identity: str = "") -> None:
        """`index` leaves this item out."""
        self.skipped.append((image, identity, reason))

    @abstractmethod
    def fingerprint(self) -> Any:
        """What the images depend on beyond the settings (a folder's listing, say), as JSON can hold it."""

    @abstractmethod
    def index(self) -> Table:
        """One row an image, sorted by identity and then by image (numbers as numbers): `image` (a unique name),
        `identity`, and whatever columns `read` needs to find it. Items that have no place there go to `skip`."""

    @abstractmethod
    def read(self, rows: Table) -> list[NDArray[np.uint8] | UnreadableError]:
        """The images of these rows, each RGB of the wanted size, or why it cannot be had."""


class Faces:
    """The images of a run: a table, and their pixels from the cache on disk or else from the source."""

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
    """Stage 1: index the source, read each image once, keep what can be read, name what cannot."""
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
        (folder / "pixels.npy").unlink(missing_ok=True)  # there is nothing to go on with
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
    """A .npy file that images are appended to; no path, no file. Written as a stream and not through a memory map, so
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
        """NumPy pads its header for a first axis that grows: the one for the final count takes the same room."""
        if self._file:
            shape = (self._count, self._size, self._size, 3)
            write_array_header_1_0(self._file, {"descr": "|u1", "fortran_order": False, "shape": shape})
