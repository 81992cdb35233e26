"""Items in a record: HMACs under a key of this record alone, so that the record names no row."""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from damnatio.erasure.planning.plan import Plan, PlannedItem
from damnatio.erasure.proving.envelope import canonical
from damnatio.erasure.proving.statement import ErasedItem
from damnatio.support.errors import DamnatioError

KEY = "record.key"


def item_key(folder: Path) -> bytes:
    """The key of the record in this folder, made if there is none."""
    path = folder / KEY
    if not path.exists():
        temporary = path.with_name(f".{KEY}.{os.getpid()}.tmp")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    return read_item_key(folder)


def read_item_key(folder: Path) -> bytes:
    path = folder / KEY
    try:
        key = bytes.fromhex(path.read_text().strip())
    except FileNotFoundError:
        raise DamnatioError(f"There is no {path}: without it nobody can say which rows the items were.") from None
    except ValueError:
        key = b""
    if len(key) != 32:
        raise DamnatioError(f"{path} is damaged.")
    return key


def erased_item(one: PlannedItem, key: bytes) -> ErasedItem:
    item = one.item
    mac = hmac.new(key, canonical([item.store, item.place, item.id]), hashlib.sha256).hexdigest()
    return ErasedItem(hmac=mac, store=one.store, kind=item.kind, how=item.how, copies=item.copies)


def erased_items(plan: Plan, deleted: list[int], key: bytes) -> list[ErasedItem]:
    """In the order of the HMACs, which says nothing."""
    gone = set(deleted)
    return sorted((erased_item(one, key) for one in plan.items if one.number in gone), key=lambda one: one.hmac)
