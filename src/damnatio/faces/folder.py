"""A folder of images: `root/<identity>/*.jpg|jpeg|png|webp|bmp`, aligned crops of one size."""

import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from pydantic import Field

from damnatio.errors import DamnatioError
from damnatio.faces import SOURCES
from damnatio.faces.base import FaceSource, UnreadableError
from damnatio.recipe import FaceSettings
from damnatio.tables import Table
from damnatio.workspace import content_key

ENDINGS = {".jpg", ".jpeg", ".png", ".webp", ".bmp"}
FORMATS = ("JPEG", "PNG", "WEBP", "BMP")


@SOURCES.register("folder")
class Folder(FaceSource):
    """One sub-folder an identity; its name is the identity's."""

    class Settings(FaceSettings):
        source: Literal["folder"]
        root: Path
        resize: bool = Field(False, description="bring images of another size to `size`; else they are skipped")

    @property
    def _root(self) -> Path:
        root: Path = self.settings.root
        return root.expanduser()

    def fingerprint(self) -> Any:
        return content_key([(name, *_state(path)) for _, name, path in self._files()])

    def index(self) -> Table:
        files = self._files()
        return Table({"image": [name for _, name, _ in files], "identity": [identity for identity, _, _ in files]})

    def read(self, rows: Table) -> list[NDArray[np.uint8] | UnreadableError]:
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # not kept: threads do not survive a fork into a worker
            return list(pool.map(self._read_one, rows["image"]))

    def _files(self) -> list[tuple[str, str, Path]]:
        """(identity, image name, path) of every image, in a fixed order."""
        root = self._root
        try:
            identities = sorted(entry for entry in root.iterdir() if entry.is_dir())
            files = [
                (identity.name, f"{identity.name}/{path.name}", path)
                for identity in identities
                for path in sorted(identity.iterdir())
                if path.suffix.lower() in ENDINGS
            ]
        except OSError as error:
            raise DamnatioError(f"The folder of faces {root} cannot be read: {error.strerror}.") from error
        for _, name, _ in files:
            try:
                name.encode()
            except UnicodeEncodeError:
                raise DamnatioError(f"{os.fsencode(name)!r} in {root} has no name in UTF-8: rename it.") from None
        if not files:
            raise DamnatioError(
                f"The folder {root} holds no images: they are expected as {root}/<identity>/<name>.jpg."
            )
        return files

    def _read_one(self, name: str) -> NDArray[np.uint8] | UnreadableError:
        try:
            return self._fitted(decode((self._root / name).read_bytes()))
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


def _state(path: Path) -> tuple[int, int]:
    """Size and time of a file; a link to nowhere has neither, and is skipped when it is read."""
    try:
        stat = path.stat()
    except OSError:
        return 0, 0
    return stat.st_size, stat.st_mtime_ns


def decode(content: bytes) -> NDArray[np.uint8]:
    """An encoded image as RGB [height, width, 3], upright; why it cannot be decoded as an UnreadableError."""
    if not content:
        raise UnreadableError("an empty file")
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            if image.format == "JPEG" and image.mode == "RGB" and image.getexif().get(0x0112, 1) == 1:
                return _decode_jpeg(content)
            upright = ImageOps.exif_transpose(image)
            if upright.mode.startswith("I;16"):  # converting straight to RGB would clip at 255
                return np.repeat((np.asarray(upright) >> 8).astype(np.uint8)[..., None], 3, axis=2)
            return np.asarray(upright.convert("RGB"))
    except UnidentifiedImageError:
        raise UnreadableError("not an image of a known format") from None
    except Exception as error:  # a decoder may raise anything on damaged content
        raise UnreadableError(f"not a readable image ({' '.join(str(error).split())[:80]})") from error


def _decode_jpeg(content: bytes) -> NDArray[np.uint8]:
    import simplejpeg

    image: NDArray[np.uint8] = simplejpeg.decode_jpeg(content, colorspace="RGB")
    return image
