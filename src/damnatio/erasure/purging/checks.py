"""What is checked before anything is deleted: that no store drifted, and that the disks are large enough."""

import os
import re
import shlex
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from damnatio.erasure.planning.plan import Plan, PlannedStore
from damnatio.erasure.planning.room import room_for_delete
from damnatio.erasure.proving.chain import chain_of, holding
from damnatio.erasure.proving.fingerprints import NAME as FINGERPRINTS
from damnatio.erasure.proving.items import KEY, item_key, read_item_key
from damnatio.erasure.proving.pages import PAGES
from damnatio.erasure.proving.signing import RECORD
from damnatio.erasure.purging import journal
from damnatio.galleries.address import HIDDEN, Address, parse
from damnatio.galleries.base import Store
from damnatio.galleries.items import Census
from damnatio.support.errors import DamnatioError
from damnatio.support.files import digest_of


def addresses(stores: Sequence[tuple[str, str]], given: Sequence[str]) -> list[Address]:
    """Where the stores (kind and address) are. An address of a plan holds no password: `given` ones may
    add it, or name another user, such as one who may delete."""
    shown = [address for _, address in stores]
    places = [parse(one).place for one in shown]
    known: dict[str, Address] = {}
    for address in map(parse, given):
        if address.place not in places:
            raise DamnatioError(f"--gallery {address.shown} is no store of the plan: it has {', '.join(shown)}.")
        known[address.place] = address
    found = []
    for one, place in zip(shown, places, strict=True):
        if place in known:
            found.append(known[place])
        elif HIDDEN in one:
            raise DamnatioError(f"The store {one} needs its password: give its whole address with --gallery.")
        else:
            found.append(parse(one))
    return found


def need_own(folder: Path, own: re.Pattern[str]) -> None:
    """Refuse a folder of the purge that is a link, or holds what is not the purge's: it is overwritten in the end."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DamnatioError(f"{folder} is no folder of the purge, but a link or a file: move it away.")
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if not own.fullmatch(path.name) or not stat.S_ISREG(path.lstat().st_mode) or path.lstat().st_nlink > 1:
            raise DamnatioError(
                f"{path} is no file of the purge, or has another name elsewhere; the purge overwrites its own files in "
                "the end: move it away."
            )


def need_signable(plan: Plan, folder: Path, key: Path) -> None:
    """Refuse what would stop the signature after everything was deleted: the clock, the chain, the key of the record,
    and files that may not be replaced."""
    if journal.now() < plan.made:
        raise DamnatioError(
            f"The plan was made at {plan.made}, and the clock of this machine says {journal.now()}: set it."
        )
    for name in (RECORD, *(f"{page}.html" for page in PAGES), FINGERPRINTS, KEY):
        path = folder / name
        if os.path.lexists(path) and not (stat.S_ISREG(path.lstat().st_mode) and os.access(path, os.W_OK)):
            raise DamnatioError(f"{path} cannot be replaced: allow writing to it, or move it away.")
    if (folder / KEY).exists():
        read_item_key(folder)
    with holding(chain_of(key)):
        pass
    item_key(folder)


def need_same_model(plan: Plan, folder: Path) -> None:
    """Refuse an altered model that is not the one of the plan. Where it was moved away, nothing can be said."""
    for file in plan.files:
        path = folder / file.name
        if path.exists() and digest_of(path) != file.sha256:
            raise DamnatioError(f"{path} is not the file of the plan any more: nothing was deleted. Make a new plan.")


def need_no_drift(found: Census, planned: PlannedStore) -> None:
    """Refuse a store in which anything changed since the plan: rows of the person, or of anybody else."""
    then = planned.census
    if found == then:
        return
    if found.rows != then.rows:
        now, before = sum(found.rows.values()), sum(then.rows.values())
        what = f"it has {now:,} rows, and had {before:,}"
    else:
        what = "rows of the person changed" if found.matched != then.matched else "rows of others changed"
    raise DamnatioError(
        f"The store {planned.address} is not as it was when the plan was made: {what}. Nothing was deleted: make a new "
        "plan, and let nobody enrol until it is carried out."
    )


def need_allowed_effects(stores: Mapping[int, Store], allow: Sequence[str]) -> None:
    """Refuse a delete that sets off what the operator did not allow by name."""
    effects = {(number, one.name): one for number, store in stores.items() for one in store.effects()}
    known = sorted({name for _, name in effects})
    if unknown := next((name for name in allow if name not in known), None):
        raise DamnatioError(
            f"--allow {unknown}: the delete sets off nothing of this name, but {', '.join(known) or 'nothing at all'}."
        )
    for (number, name), one in effects.items():
        if name not in allow:
            raise DamnatioError(
                f"The delete from store {number} sets off more: {one.what}. Look at what it does; then allow it with "
                f"--allow {shlex.quote(name)}, or take it out of the database. Nothing was deleted."
            )


def need_only_these(would: Census, before: Census, planned: PlannedStore) -> None:
    """Refuse a delete of which the rehearsal left rows that should go, or touched others."""
    if would.matched_rows or would.others != before.others:
        what = f"leave {would.matched_rows} of them" if would.matched_rows else "change rows of others as well"
        raise DamnatioError(
            f"The rehearsed delete from {planned.address} would {what}: nothing was deleted. A trigger or a rule that "
            "the plan does not name may be the cause."
        )


def need_room(stores: Sequence[Store]) -> None:
    """Refuse disks that are too small. Steps run one after the other, so the largest need of each disk counts."""
    needs: dict[int, tuple[int, Path]] = {}
    for store in stores:
        path = store.address.path
        wanted = [(step.needs, step.folder) for step in store.steps()]
        wanted += [(room_for_delete(store), path.parent if path is not None else None)]
        for needed, folder in wanted:
            if folder is not None and needed > needs.get(device := os.stat(folder).st_dev, (0, folder))[0]:
                needs[device] = needed, folder
    for needed, folder in needs.values():
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise DamnatioError(
                f"{folder} has {free / 1e6:,.1f} MB free, and {needed / 1e6:,.1f} MB are needed to write a store anew: "
                "make room first. Nothing was deleted."
            )
