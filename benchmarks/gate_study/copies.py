"""Images that are changed and embedded again: near copies, which show one capture instance, and degraded inputs."""

import io
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter

from damnatio.faces.base import Images

Change = Callable[[Image.Image], Image.Image]


def _jpeg(quality: int) -> Change:
    def change(image: Image.Image) -> Image.Image:
        file = io.BytesIO()
        image.save(file, format="JPEG", quality=quality)
        return Image.open(file).convert("RGB")

    return change


def _shifted(image: Image.Image) -> Image.Image:
    """By one hundredth of its width, at least one pixel; the edge is repeated."""
    pixels = np.asarray(image)
    by = max(1, image.width // 100)
    return Image.fromarray(np.concatenate([pixels[:, :1].repeat(by, axis=1), pixels[:, :-by]], axis=1))


def _blurred(image: Image.Image) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(image.width / 40))


def _dark(image: Image.Image) -> Image.Image:
    """A quarter of the light, and the noise of a sensor, the same for the same image."""
    pixels = np.asarray(image).astype(np.float64) / 4
    noise = np.random.default_rng(int(pixels.sum())).normal(0, 4, pixels.shape)
    return Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8))


def _occluded(image: Image.Image) -> Image.Image:
    """The lower two fifths are grey, as by a mask."""
    pixels: NDArray[np.uint8] = np.asarray(image).copy()
    pixels[round(0.6 * len(pixels)) :] = 128
    return Image.fromarray(pixels)


def _halved(image: Image.Image) -> Image.Image:
    small = image.resize((image.width // 2, image.height // 2), Image.Resampling.BILINEAR)
    return small.resize(image.size, Image.Resampling.BILINEAR)


COPIES: dict[str, Change] = {
    "JPEG 75": _jpeg(75),
    "5 % brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.05),
    "shifted by 1 %": _shifted,
}
DEGRADED: dict[str, Change] = {
    "half resolution": _halved,
    "JPEG 20": _jpeg(20),
    "blur": _blurred,
    "low light": _dark,
    "occlusion": _occluded,
}


def changed(images: Images, change: Change) -> Images:
    return np.stack([np.asarray(change(Image.fromarray(image))) for image in images])
