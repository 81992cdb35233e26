"""Figures that a page holds as pictures."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Illustration:
    """A figure of the page: the file `name`.svg of the report, with its title and caption."""

    name: str
    title: str
    caption: str
    small: bool = False


def embedded(illustration: Illustration, folder: Path) -> Mapping[str, str | bool]:
    """The figure as the template takes it, with its file inside: as lines or as pixels, whichever takes less room."""
    files = {"svg+xml": folder / f"{illustration.name}.svg", "png": folder / f"{illustration.name}.png"}
    kind = min(files, key=lambda kind: files[kind].stat().st_size)
    data = base64.b64encode(files[kind].read_bytes()).decode()
    return {
        "title": illustration.title,
        "caption": illustration.caption,
        "small": illustration.small,
        "data": f"data:image/{kind};base64,{data}",
    }
