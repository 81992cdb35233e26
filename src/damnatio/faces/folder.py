"""A folder of images: `root/<identity>/*.jpg|jpeg|png|webp|bmp`, aligned crops of one size."""

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
        """(identity, image name) of every image, in a fixed order; `skip` gets the folders that give no image."""
        root, found = self._root, False
        try:
            people = sorted(os.listdir(root))
        except OSError as error:
            raise DamnatioError(f"The folder of faces {root} cannot be read: {error.strerror}.") from error
        for identity in people:
            try:
                inside = os.stat(root / identity)
                files = sorted(os.listdir(root / identity)) if stat.S_ISDIR(inside.st_mode) else []
            except OSError as error:
                name = os.fsencode(identity).decode(errors="replace")
                skip(name, error.strerror or "not readable", name)
                continue
            images = any(os.path.splitext(file)[1].lower() in ENDINGS for file in files)
            if stat.S_ISDIR(inside.st_mode) and not images and not identity.startswith("."):
                name = os.fsencode(identity).decode(errors="replace")
                skip(name, EMPTY, name)
            for file in files:
                if os.path.splitext(file)[1].lower() in ENDINGS:
                    found = True
                    yield identity, _text(f"{identity}/{file}", root)
        if not found:
            raise DamnatioError(
                f"The folder {root} holds no images: they are expected as {root}/<identity>/<name>.jpg."
            )


def _text(name: str, root: Path) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise DamnatioError(f"{os.fsencode(name)!r} in {root} has no name in UTF-8: rename it.") from None
    return name
