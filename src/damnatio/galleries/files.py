"""What stores that are files share: how they are opened, replaced and scanned.

Several files, such as an index and its names, are replaced as one: the new ones are written beside the old ones, then
a note that names them, then each is renamed, then the note is removed. A process that is killed before the note leaves
everything as it was; after the note, whoever opens the store for writing renames the rest.
"""

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, BinaryIO, ClassVar

from damnatio.galleries.base import Store
from damnatio.galleries.items import FileClass, Step
from damnatio.galleries.occupied import need_alone
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular, write_atomically

NEW, NOTE = ".damnatio-new", ".damnatio-replacing"
COPIES = ("~", ".bak", ".backup", ".old", ".orig", ".tmp", ".swp", ".copy")
"""endings of files that editors and people leave beside a gallery"""
Write = Callable[[BinaryIO], Any]
ZEROS = 1 << 20
UNLINKED = (
    "Files that are replaced or removed are overwritten with zeros first. SSDs, journals and file systems that copy "
    "on write (btrfs, ZFS, overlay) may keep the old blocks until they are used again: use full-disk encryption, and "
    "TRIM (fstrim)."
)
ENGINE = (
    "The engine removes and replaces its files without overwriting them: their blocks stay on the disk until they are "
    "used again. Use full-disk encryption, and TRIM (fstrim)."
)
IN_MEMORY = "A program that loaded the gallery before keeps it in memory: restart it."
BACKUPS = "Backups, snapshots of the file system, and copies of the files elsewhere are not looked at."


class FileStore(Store):
    """A store of one or more files that are written anew as a whole."""

    blocks_left: ClassVar[str] = UNLINKED
    """what is to be said of the blocks of removed files"""

    @property
    def path(self) -> Path:
        """The file itself, where the address names a link to it."""
        assert self.address.path is not None
        return self.address.path.resolve()

    def files(self) -> list[Path]:
        """The files of the store, the first of which is `path`."""
        return [self.path]

    def open(self, write: bool) -> None:
        if not self.path.exists():
            raise DamnatioError(f"There is no gallery {self.address.path}.")
        note = noted(self.path)
        if note.exists() and not write:
            raise DamnatioError(
                f"The gallery {self.path} is half replaced ({note.name}): run the purge again to end it."
            )
        for path in self.files():
            if not path.exists():
                raise DamnatioError(f"The gallery {self.path} needs the file {path}, and there is none.")
            need_regular(path, "The gallery")
            if not os.access(path, os.R_OK):
                raise DamnatioError(f"The gallery {path} cannot be read: permission denied.")
        if write:
            need_writable(self.files())
            need_alone(self.files())
            finish_replacing(self.path)
        self.writes = write

    def close(self) -> None:
        self.writes = False

    def replace(self, contents: Mapping[Path, Write]) -> None:
        """Write these files of the store anew, all or none."""
        self.need_write()
        replace_together(self.path, contents)

    def steps(self) -> list[Step]:
        """The delete writes the files anew. What a killed process left beside them is removed."""
        name = f".{self.path.name}.*{NEW}"

        def run() -> None:
            for left in self._left():
                left.unlink(missing_ok=True)

        return [Step("leftovers", f"rm -f {self.path.parent}/{name}", run)]

    def _left(self) -> list[Path]:
        mine = [left for path in self.files() for left in path.parent.glob(f".{path.name}.*{NEW}")]
        return [*mine, *self.path.parent.glob(f".{noted(self.path).name}.*.tmp")]

    def file_classes(self) -> list[FileClass]:
        beside = [
            other
            for path in self.files()
            for other in sorted(path.parent.iterdir())
            if other.name.startswith((path.name, f".{path.name}"))
            and other.name.endswith((*COPIES, NEW))
            and other.is_file()
        ]
        return [FileClass("file", self.files()[:1]), FileClass("copies beside it", beside)]

    def unreached(self) -> list[str]:
        return [self.blocks_left, BACKUPS, IN_MEMORY]


# --- before writing --------------------------------------------------------------------------------------------------


def need_writable(paths: Sequence[Path]) -> None:
    """Refuse files that may not be written, and files with a second name, under which the old content would stay."""
    for path in paths:
        status = path.stat()
        if not status.st_mode & 0o222 or not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
            raise DamnatioError(f"The gallery {path} is read-only: allow writing to it and to its folder.")
        if status.st_nlink > 1:
            raise DamnatioError(
                f"The gallery {path} has {status.st_nlink} names (hard links), and its old content would stay under "
                f"the others: `find / -xdev -inum {status.st_ino}` lists them."
            )


def need_room(folder: Path, needed: int) -> None:
    """Refuse a disk that is too small for what will be written."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DamnatioError(
            f"{folder} has {free / 1e6:,.1f} MB free, and {needed / 1e6:,.1f} MB are needed to write the gallery anew: "
            "make room first. Nothing was deleted."
        )


# --- replacing -------------------------------------------------------------------------------------------------------


def noted(path: Path) -> Path:
    return path.with_name(f".{path.name}{NOTE}")


def replace_together(path: Path, contents: Mapping[Path, Write]) -> None:
    """Replace files by new ones with the same owner and mode, all or none. `path` names the store."""
    new: dict[Path, Path] = {}
    need_room(path.parent, sum(target.stat().st_size for target in contents if target.exists()))
    try:
        for target, write in contents.items():
            new[target] = target.with_name(f".{target.name}.{os.getpid()}{NEW}")
            new[target].unlink(missing_ok=True)  # of a killed process with the same number
            with new[target].open("xb") as file:
                _like(target, file)
                write(file)
                file.flush()
                os.fsync(file.fileno())
        renames = [[str(temporary), str(target)] for target, temporary in new.items()]
        write_atomically(noted(path), json.dumps(renames))
    except BaseException:
        if not noted(path).exists():
            for temporary in new.values():
                temporary.unlink(missing_ok=True)
        raise
    finish_replacing(path)


def finish_replacing(path: Path) -> None:
    """Do what the note of an interrupted replacing says; nothing where there is none."""
    note = noted(path)
    if not note.exists():
        return
    renames = [(Path(temporary), Path(target)) for temporary, target in json.loads(note.read_text())]
    with ExitStack() as stack:
        old = []
        for temporary, target in renames:
            if temporary.exists():
                if target.exists():
                    old.append(stack.enter_context(target.open("r+b", buffering=0)))
                temporary.replace(target)
        for folder in {target.parent for _, target in renames}:
            synced(folder)
        note.unlink()
        synced(note.parent)
        for file in old:  # they have no name any longer
            cleared(file)


def cleared(file: IO[bytes]) -> None:
    """Overwrite the content of a file with zeros. On file systems that never write in place the old blocks remain."""
    left = os.fstat(file.fileno()).st_size
    file.seek(0)
    while left > 0:
        left -= file.write(bytes(min(left, ZEROS)))
    os.fsync(file.fileno())


def wiped(path: Path | str, folder: int | None = None) -> None:
    """Overwrite and remove a file of one's own, in an open folder. A link, a file with a second name and what is no
    file stay as they are."""
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(handle, "r+b", buffering=0) as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise OSError(errno.EPERM, "no file of one's own", str(path))
        cleared(file)
    os.unlink(path, dir_fd=folder)


def _like(target: Path, file: BinaryIO) -> None:
    """Give a new file the mode and, where allowed, the owner of the one that it will replace."""
    if target.exists():
        status = target.stat()
        os.fchmod(file.fileno(), status.st_mode & 0o7777)
        if os.geteuid() == 0:
            os.fchown(file.fileno(), status.st_uid, status.st_gid)


def synced(folder: Path) -> None:
    """Bring the names of a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
