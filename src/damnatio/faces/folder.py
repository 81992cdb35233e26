"""A folder of images: `root/<identity>/*.jpg`, or another of `ENDINGS`, aligned crops of one size."""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from damnatio.faces import SOURCES
from damnatio.faces.decoding import ENDINGS, EncodedSettings, EncodedSource, image_file, state
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table

EMPTY = "a folder without images"
NO_TEXT = "its name, or that of its folder, is not UTF-8: rename it"
HIDDEN = "hidden"
OF_DESKTOPS = ("thumbs.db", "desktop.ini")


@SOURCES.register("folder")
class Folder(EncodedSource):
    """One sub-folder per identity; its name is the identity's."""

    class Settings(EncodedSettings):
        source: Literal["folder"]
        root: Path

    @property
    def _root(self) -> Path:
        root: Path = self.settings.root
        return root.expanduser()

    def fingerprint(self) -> Any:
        """`content_key` of [name, size, time] of every file, hashed one by one: millions are too many for a list."""
        digest, root, comma = hashlib.sha256(b"["), self._root, ""
        for _, name in self._files():
            entry = json.dumps([name, *state(f"{root}/{name}")], separators=(",", ":"))
            digest.update(f"{comma}{entry}".encode())
            comma = ","
        digest.update(b"]")
        return digest.hexdigest()[:16]

    def index(self) -> Table:
        names: list[str] = []
        identities: list[str] = []
        for identity, name in self._files(self.skip):
            names.append(name)
            identities.append(identity)
        return Table({"image": names, "identity": identities})

    def content(self, row: Mapping[str, Any]) -> bytes:
        return image_file(Path(self._root, row["image"]))

    def _files(
        self, skip: Callable[[str, str, str], None] = lambda name, reason, identity: None
    ) -> Iterator[tuple[str, str]]:
        """(identity, image name) of every image, in a fixed order; `skip` gets everything else that is there."""
        root, found = self._root, False
        try:
            people = sorted(os.listdir(root))
        except OSError as error:
            raise DamnatioError(f"The folder of faces {root} cannot be read: {error.strerror}.") from error
        for identity in people:
            name = escaped(identity)
            try:
                is_folder = stat.S_ISDIR(os.stat(root / identity).st_mode)
                files = sorted(os.listdir(root / identity)) if is_folder else []
            except OSError as error:
                skip(name, error.strerror or "not readable", name)
                continue
            if not is_folder:
                skip(name, HIDDEN if _hidden(identity) else "in no person's folder", "")
            elif not any(_is_image(file) for file in files):
                if identity.startswith("."):
                    skip(name, HIDDEN, "")
                    continue
                skip(name, EMPTY, name)
            for file in files:
                path = f"{identity}/{file}"
                if _hidden(file):
                    skip(escaped(path), HIDDEN, "")
                elif not _is_image(file):
                    skip(escaped(path), _why_none(root / path), name)
                elif escaped(path) != path:
                    skip(escaped(path), NO_TEXT, name)
                else:
                    found = True
                    yield identity, path
        if not found:
            raise DamnatioError(
                f"The folder {root} holds no images: they are expected as {root}/<identity>/<name>.jpg."
            )


def escaped(name: str) -> str:
    r"""The name; bytes that are not UTF-8 as \xfc."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _is_image(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in ENDINGS


def _hidden(name: str) -> bool:
    return name.lower() in OF_DESKTOPS or (name.startswith(".") and not _is_image(name))


def _why_none(path: Path) -> str:
    """Why a file without the ending of an image is not read."""
    if path.is_dir():
        return "a folder inside a person's folder is not read"
    return f"{path.suffix.lower() or 'a name without an ending'} is not read: save a photograph as PNG or JPEG"
