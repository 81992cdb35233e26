"""A plan from a request whose model was just altered: every store is searched, and nothing is written to any."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import date
from pathlib import Path

import numpy as np

from damnatio import __version__
from damnatio.erasure.embedder import Embedder
from damnatio.erasure.gating import Plan as Gating
from damnatio.erasure.people import FacesOf
from damnatio.erasure.planning.enrolling import AMONG, Photographs, others_of, share
from damnatio.erasure.planning.leftovers import leftovers
from damnatio.erasure.planning.plan import (
    JSON,
    PAGE,
    EnrolledAgain,
    Plan,
    PlannedClass,
    PlannedItem,
    PlannedStep,
    PlannedStore,
    Rate,
    Standing,
    Template,
    write_plan,
)
from damnatio.erasure.planning.room import room_for_delete
from damnatio.erasure.planning.showing import lines_of, write_page
from damnatio.erasure.planning.sought import Wanted, need_no_name, own_settings, wanted
from damnatio.erasure.proving.keys import signing_key
from damnatio.erasure.record import Record
from damnatio.erasure.request import MONTH, Request
from damnatio.galleries.address import Address, parse
from damnatio.galleries.base import Store
from damnatio.galleries.census import Counted
from damnatio.galleries.finding import find_all
from damnatio.galleries.items import SHARED, Census, Item, Key
from damnatio.galleries.opening import open_store
from damnatio.galleries.picking import Sampled, Tallied
from damnatio.galleries.walking import walk
from damnatio.support.errors import DamnatioError

ANY_SIZE = 112
"""pixels; no image is read"""


def addresses_of(request: Request) -> list[Address]:
    """The stores of a request, each once, galleries before photographs."""
    assert request.case is not None
    for folder in request.case.photos:
        if not folder.is_dir():
            raise DamnatioError(f"There is no folder of photographs {folder}.")
    found = [parse(text) for text in (*request.galleries, *(f"folder:{folder}" for folder in request.case.photos))]
    shown = [address.shown for address in found]
    if twice := next((one for one in shown if shown.count(one) > 1), None):
        raise DamnatioError(f"The gallery {twice} is named twice: name it once.")
    return found


def check_case(request: Request) -> None:
    """Refuse a case whose plan could not be made: called by a name, without a key, with a closed gallery."""
    assert request.case is not None
    assert request.people is not None
    people = FacesOf(request.people, ANY_SIZE, request.resize).names()
    need_no_name(request.case.id, [*people, *request.case.aliases])
    signing_key(request.case.key)
    addresses = addresses_of(request)
    for folder in (request.people, *(address.path for address in addresses)):
        if folder is not None and folder.is_dir() and request.out.resolve().is_relative_to(folder.resolve()):
            raise DamnatioError(f"--out {request.out} lies in {folder}, which is searched: name a folder elsewhere.")
    for address in addresses:
        with open_store(address):
            pass


def make_plan(
    request: Request, record: Record, gating: Gating, altered: Path, ready: Path, say: Callable[[str], None]
) -> Plan:
    """Search all stores, and write the plan and its page into `ready`, the folder that will be delivered to OUT."""
    case = request.case
    assert case is not None
    key, person = signing_key(case.key), wanted(request, record, gating)
    photographs = Photographs(person, Embedder.of_file(altered))
    stores: list[PlannedStore] = []
    items: list[PlannedItem] = []
    enrolled: list[EnrolledAgain] = []
    with ExitStack() as stack:
        addresses = addresses_of(request)
        opened = [stack.enter_context(open_store(address)) for address in addresses]
        say(f"Searching {', '.join(address.shown for address in addresses)}")
        for number, (store, found) in enumerate(zip(opened, find_all(opened, person.sought), strict=True), 1):
            keys = [item.key for item in found.items]
            counted, tallied, sampled = Counted(keys), Tallied(keys), Sampled(keys, AMONG)
            walk(store, counted, tallied, sampled)
            stores.append(_store(number, store, counted.censuses()[0], found.notes, person.names))
            items += _numbered(store, number, [_with_all_rows(item, tallied) for item in found.items], len(items))
            others = others_of(sampled.vectors, person.old.card.dim)
            if len(others):
                enrolled.append(photographs.searched(number, store.address.scheme, others))
    items = _followed(items)
    if not enrolled:
        enrolled.append(photographs.searched(0, "", np.empty((0, person.old.card.dim), np.float32)))
    stores = [_noted(store, person) if store.number == len(stores) else store for store in stores]
    received = case.received or date.today()
    plan = Plan(
        damnatio=__version__,
        case=case.id,
        made=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        received=received.isoformat(),
        deadline=(case.deadline or received + MONTH).isoformat(),
        names=person.names,
        besides=person.besides,
        people=len(person.people),
        level=person.level,
        templates=[
            Template(label=label, bar=float(bar))
            for label, bar in zip(person.templates.labels, person.templates.bars, strict=True)
        ],
        measured=person.templates.measured,
        person=person.templates.write(ready),
        method=record.method,
        complete=record.complete,
        verdict=record.verdict,
        strangers=record.strangers,
        holds=record.holds,
        model=record.model,
        source=str(request.model.resolve()),
        settings=own_settings(request),
        files=record.files,
        rates=_rates(record),
        enrolled=enrolled,
        stores=stores,
        items=items,
        leftovers=leftovers(request, person.names),
        remains=list(case.remains),
        recipients=list(case.recipients),
    )
    write_plan(plan, ready / JSON, key)
    write_page(plan, ready / PAGE)
    for line in lines_of(plan, request.out / JSON):
        say(line)
    return plan


def _store(number: int, store: Store, census: Census, notes: Sequence[str], names: Sequence[str]) -> PlannedStore:
    return PlannedStore(
        number=number,
        kind=store.address.scheme,
        address=store.address.shown,
        versions=store.versions,
        census=census,
        needs=room_for_delete(store),
        steps=[
            PlannedStep(
                name=step.name,
                command=step.command,
                locks=step.locks,
                needs=step.needs,
                folder=str(step.folder) if step.folder else "",
            )
            for step in store.steps()
        ],
        classes=[
            PlannedClass(
                name=one.name,
                files=len(one.files),
                bytes=sum(file.stat().st_size for file in one.files if file.exists()),
                unreached=one.unreached,
            )
            for one in store.file_classes()
        ],
        unreached=store.unreached(),
        notes=list(notes),
        remains=store.remains(),
        effects=store.effects(),
        mentions=store.mentions(names),
    )


def _with_all_rows(item: Item, tallied: Tallied) -> Item:
    """A delete takes all rows of a key. If some of them do not show the person, somebody has to decide."""
    rows = tallied.rows[item.key]
    if rows <= item.copies:
        return item
    return item.model_copy(update={"copies": rows, "flags": tuple(dict.fromkeys((*item.flags, SHARED)))})


def _numbered(store: Store, number: int, found: Sequence[Item], before: int) -> list[PlannedItem]:
    """The items in the order in which people judge them: sure ones, then candidates by falling score."""
    attached = {item.key for item in found if item.how in ("attached", "together") and not item.flags}
    sure = [item for item in found if not item.candidate and item.key not in attached]
    candidates = [item for item in found if item.candidate]
    candidates.sort(key=lambda item: (item.name, -(item.score or 0.0)))
    following = [item for item in found if item.key in attached]
    with_sure = {item.key for item in store.attached([item.key for item in sure])} if following and sure else set()
    with_sure -= {item.key for item in following if item.how == "together"}
    sure += [item for item in following if item.key in with_sure]
    following = [item for item in following if item.key not in with_sure]
    place = {item.key: before + at for at, item in enumerate([*sure, *candidates, *following], 1)}
    owners: dict[Key, list[int]] = {}
    for item in [*candidates, *(one for one in following if one.how == "together")] if following else []:
        for other in store.attached([item.key]):
            owners.setdefault(other.key, []).append(place[item.key])
    standing: list[tuple[Standing, list[Item]]] = [("sure", sure), ("candidate", candidates), ("follows", following)]
    return [
        PlannedItem(
            number=place[item.key], store=number, standing=kind, item=item,
            follows=sorted(owners.get(item.key, [])) if kind == "follows" else [],
        )
        for kind, some in standing for item in some
    ]  # fmt: skip


def _followed(items: list[PlannedItem]) -> list[PlannedItem]:
    """A row under the name of candidates goes with any of them, in whatever store they are. So does its photograph."""
    candidates: dict[str, list[int]] = {}
    for one in items:
        if one.standing == "candidate":
            candidates.setdefault(one.item.name, []).append(one.number)
    of = {one.number: candidates.get(one.item.name, []) for one in items if one.item.how == "together"}

    def owners(one: PlannedItem) -> list[int]:
        more = [number for place in (one.number, *one.follows) for number in of.get(place, [])]
        return sorted({*one.follows, *more})

    return [one.model_copy(update={"follows": owners(one)}) if one.standing == "follows" else one for one in items]


def _noted(store: PlannedStore, person: Wanted) -> PlannedStore:
    """The last store gets what is to be said of the photographs of all."""
    return store.model_copy(update={"notes": [*store.notes, *person.looked.notes()]})


def _rates(record: Record) -> list[Rate]:
    """What was measured on the model, before and after."""
    found: dict[str, list[int]] = {}
    for line in record.people:
        for pairs in line.linked:
            sums = found.setdefault(f"pairs of the people's photographs linked ({pairs.photographs})", [0, 0, 0])
            for at, value in enumerate((pairs.pairs, pairs.before, pairs.after)):
                sums[at] += value
    held = [line.held for line in record.people if line.held is not None and line.held.pairs]
    if held:
        of, b, a = (sum(getattr(each, name) for each in held) for name in ("pairs", "before", "linked"))
        found["held-out pairs, of photographs that the alteration was not fitted on, linked"] = [of, b, a]
    rates = [Rate(name=name, before=share(b, of), after=share(a, of)) for name, (of, b, a) in found.items() if of]
    if record.gallery is not None and record.gallery.photographs:
        g = record.gallery
        name = "photographs of the people that match their own old template in a gallery"
        rates.append(
            Rate(name=name, before=share(g.found_before, g.photographs), after=share(g.found_after, g.photographs))
        )
    return rates
