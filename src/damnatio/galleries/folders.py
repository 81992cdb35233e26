"""What stores that are a folder share."""

from pathlib import Path

from damnatio.galleries.files import need_writable
from damnatio.support.errors import DamnatioError


def files_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def need_own_files(folder: Path) -> None:
    """Refuse a folder with links to elsewhere, with files that have a second name, or with files that may not be
    written: the old content would stay, or that of others would change."""
    for entry in (folder, *sorted(folder.rglob("*"))):
        if entry.is_symlink():
            raise DamnatioError(
                f"The gallery {folder} holds a link to elsewhere, {entry}: replace it by what it names."
            )
        if entry.is_dir() and not entry.stat().st_mode & 0o222:
            raise DamnatioError(f"The gallery {entry} is read-only: allow writing to it.")
    need_writable(files_in(folder))
