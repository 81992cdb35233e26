"""What is checked before anything is deleted: that no store drifted, and that the disks are large enough."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from damnatio.erasure.planning.plan import Plan, PlannedStore
from damnatio.erasure.planning.room import room_for_delete
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
