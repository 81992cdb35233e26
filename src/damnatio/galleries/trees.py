"""The files of a folder of photographs: which is a photograph, a thumbnail, a cache of embeddings, or another file."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Literal

from damnatio.galleries.path_names import is_image
from damnatio.support.errors import DamnatioError

Role = Literal["photograph", "thumbnail", "sidecar", "cache", "other"]
THUMBNAILS = {"thumbs", "thumb", "thumbnails", "thumbnail", ".thumbs", ".thumbnails", "@eadir", ".thumb"}
THUMB = re.compile(r"(^|[_.-])(thumb|thumbnail|small|tn)([_.-]|(?=\.)|$)", re.IGNORECASE)
CACHES = (".pkl", ".pickle", ".npz", ".npy")
SIDECARS = (".json", ".xmp", ".txt", ".xml", ".yaml", *CACHES)
IGNORED = {".ds_store", "desktop.ini", ".nomedia"}


@dataclass(frozen=True)
class Link:
    """A file whose content stays elsewhere when it is removed here."""

    path: str
    why: str


class Tree:
    """The files of a folder, by their paths below it. Links to folders are not followed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.not_followed: list[str] = []
        self.unnamed: list[str] = []
        """files and folders whose name is not UTF-8, with the bytes that are not as \\xfc"""
        self.roles: dict[str, Role] = {}
        found = sorted(self._walk())
        photographs = {self._bare(path) for path in found if is_image(path) and not is_thumbnail(path)}
        for path in found:
            self.roles[path] = self._role(path, photographs)

    def _walk(self) -> Iterator[str]:
        def failed(error: OSError) -> None:
            raise DamnatioError(f"The folder {error.filename} cannot be read: {error.strerror}.")

        for folder, folders, files in os.walk(self.root, onerror=failed):
            for name in list(folders):
                if not self._has_text(folder, name):
                    folders.remove(name)
                elif os.path.islink(os.path.join(folder, name)):
                    folders.remove(name)
                    self.not_followed.append(os.path.join(folder, name))
            for name in files:
                if name.lower() in IGNORED or name.startswith(".damnatio-"):
                    continue
                if self._has_text(folder, name):
                    yield os.path.relpath(os.path.join(folder, name), self.root)

    def _has_text(self, folder: str, name: str) -> bool:
        """Whether a name is UTF-8. Another is remembered: no plan could hold it."""
        shown = os.fsencode(name).decode(errors="backslashreplace")
        if shown != name:
            self.unnamed.append(os.path.normpath(os.path.join(os.path.relpath(folder, self.root), shown)))
        return shown == name

    def _role(self, path: str, photographs: set[str]) -> Role:
        if is_image(path):
            return "thumbnail" if is_thumbnail(path) else "photograph"
        suffix = os.path.splitext(path)[1].lower()
        if suffix in SIDECARS and (self._bare(path) in photographs or is_image(os.path.splitext(path)[0])):
            return "sidecar"
        return "cache" if suffix in CACHES else "other"

    @staticmethod
    def _bare(path: str) -> str:
        return os.path.splitext(path)[0]

    def of(self, role: Role) -> list[str]:
        return [path for path, one in self.roles.items() if one == role]

    def full(self, path: str) -> Path:
        return self.root / path

    # --- what belongs to a photograph --------------------------------------------------------------------------------

    def belongings(self, photographs: set[str]) -> Iterator[tuple[str, Role]]:
        """The thumbnails and sidecars of photographs."""
        wanted, bare = {without_thumb(path) for path in photographs}, {self._bare(path) for path in photographs}
        for path, role in self.roles.items():
            of_thumbnail = role == "thumbnail" and without_thumb(path) in wanted
            of_sidecar = role == "sidecar" and (self._bare(path) in photographs or self._bare(path) in bare)
            if of_thumbnail or of_sidecar:
                yield path, role

    # --- links -------------------------------------------------------------------------------------------------------

    @cached_property
    def _names_of_nodes(self) -> dict[tuple[int, int], set[str]]:
        found: dict[tuple[int, int], set[str]] = {}
        for path in self.roles:
            status = os.lstat(self.full(path))
            if status.st_nlink > 1:
                found.setdefault((status.st_dev, status.st_ino), set()).add(path)
        return found

    def link(self, path: str, going: set[str]) -> Link | None:
        """Why removing this path would leave its content elsewhere; `going` are all paths that are removed with it."""
        status = os.lstat(self.full(path))
        if os.path.islink(self.full(path)):
            target = os.path.realpath(self.full(path))
            inside = os.path.relpath(target, os.path.realpath(self.root))
            if inside.startswith(".."):
                return Link(path, f"is a link to {target}, outside the folder")
            stays = inside not in going and os.path.exists(target)
            return Link(path, f"is a link to {inside}, which stays") if stays else None
        if status.st_nlink > 1:
            names = self._names_of_nodes[status.st_dev, status.st_ino]
            if status.st_nlink > len(names):
                search = f"find / -xdev -inum {status.st_ino}"
                return Link(path, f"has a name outside the folder too (hard link; `{search}`)")
            if left := sorted(names - going):
                return Link(path, f"is also {left[0]} (hard link), which stays")
        return None


def is_thumbnail(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return any(part.lower() in THUMBNAILS for part in parts[:-1]) or bool(THUMB.search(PurePosixPath(path).stem))


def without_thumb(path: str) -> str:
    """The path of the photograph that a thumbnail was made of, without its ending."""
    parts = [part for part in PurePosixPath(path).parts[:-1] if part.lower() not in THUMBNAILS]
    stem = PurePosixPath(path).name
    while os.path.splitext(stem)[1].lower() in (".jpg", ".jpeg", ".png", ".webp", ".bmp"):
        stem = os.path.splitext(stem)[0]
    return "/".join([*parts, THUMB.sub("", stem).strip("_.-") or stem])
