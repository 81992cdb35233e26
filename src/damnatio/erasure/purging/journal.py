"""The journal of a purge: one line of JSON per finished step, on the disk before the next step begins.

A purge that was killed reads it, passes over what is done, and does the rest; whatever was under way is done again,
which is safe because every step may run twice. The journal holds numbers of items, and none of their names or ids:
what stores say of themselves, such as paths, passes through `masked`.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from damnatio.erasure.proving.masking import masked
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular, private

NAME = "journal.jsonl"
DELETING = "deleting"
Entry = dict[str, Any]


FREE = {"rows", "name", "where", "reason", "command", "versions", "unreached", "remains", "notes"}
"""fields whose text comes from stores"""


class Journal:
    """`names` are those that are in no line."""

    def __init__(self, path: Path, names: Sequence[str] = ()) -> None:
        need_regular(path, "The journal")
        if path.is_symlink():
            raise DamnatioError(f"{path} is a link, and the journal is kept in a file of its own: remove the link.")
        self._names = names
        self.path = path
        self.entries = list(_read(path))

    def write(self, what: str, store: int = 0, **content: Any) -> Entry:
        """Add an entry. When this returns, it is on the disk."""
        entry = {"at": now(), "what": what, "store": store, **self._without_names(content)}
        with private(), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.entries.append(entry)
        return entry

    def find(self, what: str, store: int = 0, **content: Any) -> Entry | None:
        """The entry of a step, if it is done."""
        wanted = {"what": what, "store": store, **self._without_names(content)}
        return next((one for one in self.entries if wanted.items() <= one.items()), None)

    def all(self, what: str, store: int) -> list[Entry]:
        return [one for one in self.entries if (one["what"], one["store"]) == (what, store)]

    def _without_names(self, content: Any) -> Any:
        if isinstance(content, dict):
            return {
                field: masked(one, self._names) if field in FREE else self._without_names(one)
                for field, one in content.items()
            }
        return [self._without_names(one) for one in content] if isinstance(content, list) else content

    @property
    def has_deleted(self) -> bool:
        """Whether anything may have been deleted from any store."""
        return any(one["what"] == DELETING for one in self.entries)


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _read(path: Path) -> Iterator[Entry]:
    """All whole lines. A last one without an end was being written when the process was killed: it is cut off."""
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
    for line in content[:whole].splitlines():
        try:
            entry = json.loads(line)
            yield {**entry, "what": str(entry["what"]), "store": int(entry["store"])}
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise DamnatioError(
                f"{path} is damaged: restore it, or ask for help before anything is repeated."
            ) from error
