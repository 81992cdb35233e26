"""Whose photograph a file is, by its path: `Ann Lee/1.jpg`, or `Ann Lee_02.jpg`."""

import re
from pathlib import PurePosixPath

NUMBER = re.compile(r"[\s_.()-]*\d+\)?$")
IMAGES = (".jpg", ".jpeg", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".heic", ".heif", ".avif")


def is_image(path: str) -> bool:
    return path.lower().endswith(IMAGES)


def name_of(path: str) -> str:
    """The first folder of a path below the gallery; without a folder the file's name, without a number at its end."""
    parts = PurePosixPath(path).parts
    return parts[0] if len(parts) > 1 else _stem(path)


def names_in(name: str) -> list[str]:
    """The names that a row may go by: its name; where that is the path of a photograph, also its folders, and the
    file's name without a number at its end."""
    if not is_image(name):
        return [name]
    path = name.replace("\\", "/")
    return [name, *PurePosixPath(path).parts[:-1], _stem(path)]


def _stem(path: str) -> str:
    stem = PurePosixPath(path).stem
    return NUMBER.sub("", stem) or stem
