"""Encoded images to pixels: what every source of image files shares, whatever holds the files."""

import io
import mmap
import os
from abc import abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from pydantic import Field

from damnatio.faces.base import FaceSource, UnreadableError
from damnatio.files import irregular
from damnatio.recipe import FaceSettings
from damnatio.tables import Table

ENDINGS = {".jpg", ".jpeg", ".png", ".webp", ".bmp"}
FORMATS = ("JPEG", "PNG", "WEBP", "BMP")
MAX_PIXELS = 4096 * 4096
"""An image that says it is larger is no aligned crop: a few bytes must not claim gigabytes of memory."""
MAX_MEBIBYTES = 64
"""A file that is longer is no aligned crop either."""

Read = NDArray[np.uint8] | UnreadableError


class EncodedSettings(FaceSettings):
    """Keys of every source of encoded images."""

    resize: bool = Field(False, description="bring images of another size to `size`; else they are skipped")


class EncodedSource(FaceSource):
    """A source that knows where the bytes of an image are."""

    @abstractmethod
    def content(self, row: Mapping[str, Any]) -> bytes:
        """The encoded image of one row of the index. May raise UnreadableError or OSError; runs in many threads."""

    def read(self, rows: Table) -> list[Read]:
        wanted = rows.rows()
        threads = min(_cores(), len(wanted))
        if threads < 2:
            return self._read_some(wanted)
        share = -(-len(wanted) // (4 * threads))  # an image a task would cost as much in the queue as in the decoder
        parts = [wanted[start : start + share] for start in range(0, len(wanted), share)]
        with ThreadPoolExecutor(threads) as pool:  # not kept: threads do not survive a fork into a worker
            return [image for part in pool.map(self._read_some, parts) for image in part]

    def _read_some(self, rows: list[dict[str, Any]]) -> list[Read]:
        return [self._read_one(row) for row in rows]

    def _read_one(self, row: dict[str, Any]) -> Read:
        try:
            return self._fitted(decode(self.content(row)))
        except UnreadableError as error:
            return error
        except OSError as error:
            return UnreadableError(error.strerror or "not readable")

    def _fitted(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        size, (height, width) = self.settings.size, image.shape[:2]
        if (height, width) == (size, size):
            return image
        if height != width:
            raise UnreadableError(f"{width}x{height} is not square: aligned crops are expected")
        if not self.settings.resize:
            raise UnreadableError(f"{width}x{height} is not {size}x{size}: set faces.resize=true or faces.size={width}")
        return np.asarray(
            Image.fromarray(image).resize(
                (size, size), Image.Resampling.BOX if width > size else Image.Resampling.BICUBIC
            )
        )


class FileSettings(EncodedSettings):
    """Keys of a source that is one file."""

    path: Path


class FileSource(EncodedSource):
    """A source that is one file, or that one file tells of."""

    @property
    def _path(self) -> Path:
        path: Path = self.settings.path
        return path.expanduser()


def decode(content: bytes) -> NDArray[np.uint8]:
    """An encoded image as RGB [height, width, 3], upright; why it cannot be decoded as an UnreadableError."""
    if not content:
        raise UnreadableError("an empty file")
    try:
        if content[:2] == b"\xff\xd8" and b"\xff\xe1" not in content:  # no APP1 segment: nothing turns it
            quick = _decode_plain_jpeg(content)
            if quick is not None:
                return quick
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            _check_size(*image.size)
            if image.format == "JPEG" and image.mode == "RGB" and image.getexif().get(0x0112, 1) == 1:
                return _decode_jpeg(content)
            upright = ImageOps.exif_transpose(image)
            if upright.mode.startswith("I;16"):  # converting straight to RGB would clip at 255
                return np.repeat((np.asarray(upright) >> 8).astype(np.uint8)[..., None], 3, axis=2)
            return np.asarray(upright.convert("RGB"))
    except UnreadableError:
        raise
    except UnidentifiedImageError:
        raise UnreadableError("not an image of a known format") from None
    except Exception as error:  # a decoder may raise anything on damaged content
        raise UnreadableError(f"not a readable image ({' '.join(str(error).split())[:80]})") from error


def _decode_plain_jpeg(content: bytes) -> NDArray[np.uint8] | None:
    """The most common image by far, without Pillow's look at it; None where Pillow shall look."""
    import simplejpeg

    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(content)
    except ValueError:
        return None
    if colours != "YCbCr":
        return None
    _check_size(width, height)
    return _decode_jpeg(content)


def _decode_jpeg(content: bytes) -> NDArray[np.uint8]:
    import simplejpeg

    image: NDArray[np.uint8] = simplejpeg.decode_jpeg(content, colorspace="RGB")
    return image


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise UnreadableError(f"{width}x{height} is larger than any aligned crop")


def _cores() -> int:
    """Those this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- files -----------------------------------------------------------------------------------------------------------


def state(path: str | Path) -> tuple[int, int]:
    """Size and time of a file; a link to nowhere has neither, and is skipped when it is read."""
    try:
        stat = os.stat(path)
    except OSError:
        return 0, 0
    return stat.st_size, stat.st_mtime_ns


def image_file(path: Path) -> bytes:
    """The content of a file of one image. May raise UnreadableError or OSError."""
    _need_regular(path)
    with path.open("rb") as file:
        return file.read(_bounded(os.fstat(file.fileno()).st_size))


def _need_regular(path: str | Path) -> None:
    if kind := irregular(path):
        raise UnreadableError(f"{kind}, and only regular files are read")


def _bounded(length: int) -> int:
    if length > MAX_MEBIBYTES * 2**20:
        raise UnreadableError(f"more than {MAX_MEBIBYTES} MiB, the most that is read of one image")
    return length


def mapped(path: str | Path) -> mmap.mmap:
    """A whole file as memory that is read when it is touched, for a walk over it."""
    _need_regular(path)
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise UnreadableError("an empty file") from None
    except OSError as error:
        raise UnreadableError(error.strerror or "not readable") from error


def read_at(path: str, offset: int, length: int) -> bytes:
    """So many bytes of a file, fewer where it ends. Has no position, so threads and forked workers share it."""
    stat = os.stat(path)
    file = _opened(path, stat.st_dev, stat.st_ino)  # held while it is read: another thread may crowd it out
    return os.pread(file.number, _bounded(length), offset)


class _Descriptor:
    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


@lru_cache(maxsize=64)
def _opened(path: str, device: int, node: int) -> _Descriptor:
    """A file stays open while it is among the last used; a file that took its place is another node."""
    return _Descriptor(path)
