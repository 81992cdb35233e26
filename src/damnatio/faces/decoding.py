"""Encoded images to pixels: the code that all sources of image files share."""

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
from PIL import Image, ImageOps, UnidentifiedImageError, features
from pydantic import Field, model_validator

from damnatio.faces.base import FaceSource, UnreadableError
from damnatio.recipe.schema import FaceSettings
from damnatio.support.files import irregular
from damnatio.support.tables import Table
from damnatio.support.workers import cores

ENDINGS = {".jpg", ".jpeg", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif"}
AVIF = ("AVIF",) if "avif" in features.modules and features.check("avif") else ()
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", *AVIF)
MAX_PIXELS = 4096 * 4096
"""of the largest image that is decoded: a header of a few bytes must not claim gigabytes of memory"""
MAX_MEBIBYTES = 64
"""of the longest file that is read as one image"""

Read = NDArray[np.uint8] | UnreadableError


class EncodedSettings(FaceSettings):
    """Keys of every source of encoded images."""

    resize: bool = Field(False, description="bring images of another size to `size`; else they are skipped")

    @model_validator(mode="before")
    @classmethod
    def _one_place(cls, content: Any) -> Any:
        """`root` and `path` are one word where only one of them is given: a person who names another source in place
        of a folder need not know which of the two it has."""
        if isinstance(content, dict):
            for own, other in (("path", "root"), ("root", "path")):
                given = other in content and own not in content
                if given and own in cls.model_fields and cls.model_fields[own].is_required():
                    return {own if key == other else key: value for key, value in content.items()}
        return content


class EncodedSource(FaceSource):
    """A source that knows where the bytes of an image are."""

    @abstractmethod
    def content(self, row: Mapping[str, Any]) -> bytes:
        """The encoded image of one row of the index. It runs in many threads. May raise UnreadableError or OSError."""

    def read(self, rows: Table) -> list[Read]:
        wanted = rows.rows()
        threads = min(cores(), len(wanted))
        if threads < 2:
            return self._read_some(wanted)
        share = -(-len(wanted) // (4 * threads))  # one image per task would cost as much queueing as decoding
        blocks = [wanted[start : start + share] for start in range(0, len(wanted), share)]
        with ThreadPoolExecutor(threads) as executor:  # made anew: threads do not survive a fork into a worker
            return [image for block in executor.map(self._read_some, blocks) for image in block]

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
    """A source that is one file, or whose images one file lists."""

    @property
    def _path(self) -> Path:
        path: Path = self.settings.path
        return path.expanduser()


def decode(content: bytes) -> NDArray[np.uint8]:
    """An encoded image as upright RGB [height, width, 3]. An UnreadableError says why it cannot be decoded."""
    if not content:
        raise UnreadableError("an empty file")
    try:
        if content[:2] == b"\xff\xd8" and b"\xff\xe1" not in content:  # no APP1 segment, so no EXIF orientation
            quick = _decode_plain_jpeg(content)
            if quick is not None:
                return quick
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            _check_size(*image.size)
            if image.format == "JPEG" and image.mode == "RGB" and image.getexif().get(0x0112, 1) == 1:
                return _decode_jpeg(content)
            if image.format in ("GIF", "TIFF", "AVIF") and getattr(image, "is_animated", False):
                raise UnreadableError("several pictures in one file: save each as a file of its own")
            if image.mode in ("I", "F"):
                raise UnreadableError("pixels of 32 bits: save it as PNG or JPEG")
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
    """A JPEG in YCbCr, by far the most common image, decoded without Pillow; None for any other image."""
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


# --- files -----------------------------------------------------------------------------------------------------------


def state(path: str | Path) -> tuple[int, int]:
    """Size and time of a file; zeros for a link to nowhere, which is skipped when it is read."""
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
    """A whole file as mapped memory: only the pages that are used are read."""
    _need_regular(path)
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise UnreadableError("an empty file") from None
    except OSError as error:
        raise UnreadableError(error.strerror or "not readable") from error


def read_at(path: str, offset: int, length: int) -> bytes:
    """`length` bytes of a file, fewer if it ends before. No position is kept, so threads and forked workers share the
    open file."""
    stat = os.stat(path)
    file = _opened(path, stat.st_dev, stat.st_ino)  # a reference keeps it open if the cache drops it
    return os.pread(file.number, _bounded(length), offset)


class _Descriptor:
    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


@lru_cache(maxsize=64)
def _opened(path: str, device: int, node: int) -> _Descriptor:
    """The files used last stay open. A file that replaced another is another node, and is opened anew."""
    return _Descriptor(path)
