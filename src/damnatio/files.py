"""Files that a person names. Only regular ones are opened: a pipe waits for its writer, a device may have no end."""

import os
import stat
from pathlib import Path

from damnatio.errors import DamnatioError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def irregular(path: str | Path) -> str:
    """What lies at the path if it is no regular file, such as "a named pipe"; "" if it is one, or nothing is there."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # opening it will tell
        return ""
    return "" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no regular file")


def need_regular(path: str | Path, what: str = "") -> None:
    """Refuse what is no regular file; `what` is put before its name."""
    if kind := irregular(path):
        raise DamnatioError(f"{what + ' ' if what else ''}{path} is {kind}, and only regular files are read.")
