"""The chain of records: each names the hash of the record that was signed before it with the same key.

Beside the key lies `key.chain.jsonl`, one line per record: number, case, date and SHA-256 of record.json. So a record
that is taken away leaves a hole, and one that is put between others fits nowhere.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from damnatio.galleries.items import Frozen
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular, private


class Link(Frozen):
    number: int
    case: str
    signed: str
    sha256: str


def chain_of(key: Path) -> Path:
    return key.with_name(f"{key.stem}.chain.jsonl")


def read_chain(path: Path) -> list[Link]:
    """The links of a chain, in order. A last line without an end was being written when the machine stopped."""
    need_regular(path, "The chain")
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    try:
        links = [Link.model_validate_json(line) for line in lines]
    except ValidationError as error:
        raise DamnatioError(f"The chain {path} is damaged: {error.errors()[0]['msg']}. Restore it.") from error
    if [link.number for link in links] != list(range(1, len(links) + 1)):
        raise DamnatioError(f"The chain {path} lacks records, or holds some twice: restore it.")
    return links


@contextmanager
def holding(path: Path) -> Iterator[list[Link]]:
    """The links, while no other process adds one."""
    need_regular(path, "The chain")
    try:
        with private():
            path.parent.mkdir(parents=True, exist_ok=True)
            opened = path.open("a+")
    except OSError as error:
        raise DamnatioError(
            f"The chain {path}, to which each record is added, cannot be written ({error.strerror}): allow that, or "
            "name another key."
        ) from error
    with opened as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        links = read_chain(path)
        whole = sum(len(_line(link).encode()) for link in links)
        if whole < path.stat().st_size:
            os.truncate(path, whole)
        yield links


def add_link(path: Path, link: Link) -> None:
    """Append a link, on the disk when this returns. To be called while `holding`."""
    with path.open("a", encoding="utf-8") as file:
        file.write(_line(link))
        file.flush()
        os.fsync(file.fileno())


def _line(link: Link) -> str:
    return link.model_dump_json() + "\n"
