"""The purge of a plan. Every store is checked before anything is deleted anywhere; then, for each store in turn:

baseline   counts, hashes and searches of everybody else; what to look for; the fragments that are there
delete     one transaction
steps      what the store needs until no byte is left: compaction, rolled logs
after      the same counts, hashes and searches again, and the scan of all files
again      when all stores are purged: a new search for the person, under the model before

and in the end the record is signed. The journal says what is done. What a killed purge needs to go on lies in
OUT/purge: it is personal data, and is removed when the record is signed.
"""

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damnatio.erasure.planning.choosing import Decisions, decide
from damnatio.erasure.planning.plan import Plan, PlannedStore, read_plan
from damnatio.erasure.planning.showing import indented
from damnatio.erasure.planning.templates import Templates, remove_templates
from damnatio.erasure.proving.building import hidden_names
from damnatio.erasure.proving.keys import public_holder_key, signing_key, usual_place
from damnatio.erasure.proving.pages import is_missing, write_pages
from damnatio.erasure.proving.signing import RECORD, sign_record
from damnatio.erasure.proving.statement import PLAN, read_record
from damnatio.erasure.purging import checks
from damnatio.erasure.purging.again import has_pictures, looking, search_again
from damnatio.erasure.purging.journal import DELETING, NAME, Journal
from damnatio.erasure.purging.neighbours import SEARCHES, compare_searches, keep_searches, kept_searches
from damnatio.galleries.base import Store
from damnatio.galleries.census import Counted
from damnatio.galleries.files import wiped
from damnatio.galleries.items import Census, Key, Vectors
from damnatio.galleries.opening import open_store
from damnatio.galleries.picking import Picked, Sampled
from damnatio.galleries.scanning.needles import Needles
from damnatio.galleries.scanning.scan import CONTROLS, held, needles_of, scan_store
from damnatio.galleries.scanning.verdicts import Scan, Verdict
from damnatio.galleries.walking import walk
from damnatio.support.errors import DamnatioError
from damnatio.support.files import digest_of, private
from damnatio.support.locks import Lock

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Say = Callable[[str], None]
WORK = "purge"
OWN = re.compile(r"\.?(needles-\d+\.npz|searches-\d+\.json)(\.\d+\.tmp)?")
"""files that a purge keeps there"""
SHOWN = 5
"""rows that still show the person, of which the terminal names the places"""


@dataclass(frozen=True)
class Words:
    """What the person at the keyboard said."""

    plan: Path
    confirm: int
    accept: Sequence[str] = ()
    reject: Sequence[str] = ()
    allow: Sequence[str] = ()
    """side effects of deletes, by name"""
    galleries: Sequence[str] = ()
    key: Path | None = None
    holder: Path | None = None
    """the public key for fingerprints; None: none are kept"""
    days: int = 365


@dataclass(frozen=True)
class Purged:
    record: Path
    verdict: Verdict


@dataclass
class _Purge:
    """A purge under way."""

    plan: Plan
    folder: Path
    journal: Journal
    decisions: Decisions
    say: Say
    stores: dict[int, Store] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        return self.folder / WORK

    def clear(self) -> None:
        """Forget a purge that has deleted nothing."""
        self.journal.path.unlink(missing_ok=True)
        self.journal.entries.clear()
        self.forget()

    def forget(self) -> None:
        """Remove what was only kept to go on: personal data, so it is overwritten first."""
        with suppress(FileNotFoundError):
            handle = os.open(self.work, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                for name in filter(OWN.fullmatch, os.listdir(handle)):
                    wiped(name, handle)
            finally:
                os.close(handle)
            self.work.rmdir()

    def keys(self, number: int) -> list[Key]:
        """The rows that are deleted from a store."""
        gone = set(self.decisions.deleted)
        return [one.item.key for one in self.plan.items if one.store == number and one.number in gone]

    def found(self, number: int) -> list[Key]:
        """All rows of the plan in a store."""
        return [one.item.key for one in self.plan.items if one.store == number]

    def searches(self, number: int) -> Path:
        return self.work / f"searches-{number}.json"

    def needles(self, number: int) -> Needles:
        """What to look for in a store: its own rows, or those of the others if it held none."""
        return Needles.read(self.work / f"needles-{number}.npz")


def purge(words: Words, say: Say = print) -> Purged:
    """Carry out a plan, or go on with it; what cannot be done is refused before anything is deleted."""
    key = signing_key(words.key)
    plan = read_plan(words.plan, key)
    folder = words.plan.resolve().parent
    is_done = (folder / RECORD).exists() and not (folder / WORK).exists()
    decisions = None if is_done else decide(plan, words.accept, words.reject, words.confirm)
    if words.holder is not None:
        public_holder_key(words.holder)
    checks.need_own(folder / WORK, OWN)
    lock = Lock(folder / ".locks" / WORK)
    if (other := lock.try_to_take()) is not None:
        raise DamnatioError(f"Another purge of this plan is at work: {other}. Wait for it.")
    try:
        if decisions is None:
            return _done_before(words.plan, folder / RECORD, key, say)
        return _purge(_Purge(plan, folder, Journal(folder / NAME, hidden_names(plan)), decisions, say), words, key)
    finally:
        lock.release()
        shutil.rmtree(folder / ".locks", ignore_errors=True)


def _purge(work: _Purge, words: Words, key: "Ed25519PrivateKey") -> Purged:
    stores = work.plan.stores
    try:
        _begin(work, words)
        with ExitStack() as stack:
            where = checks.addresses([(one.kind, one.address) for one in stores], words.galleries)
            for one, address in zip(stores, where, strict=True):
                work.stores[one.number] = stack.enter_context(open_store(address, write=True))
            if work.journal.has_deleted:
                _check_rest(work)
            else:
                checks.need_allowed_effects(work.stores, words.allow)
                _baselines(work, words.allow)
            checks.need_signable(work.plan, work.folder, words.key or usual_place())
            for one in stores:
                _delete(work, one)
                _after(work, one)
            _again(work)
        return _finish(work, words, key)
    except (DamnatioError, OSError) as error:
        if work.journal.has_deleted:
            raise DamnatioError(
                f"{error} The purge is half done: end the cause, and give the same command again."
            ) from error
        work.clear()
        raise


def _done_before(plan: Path, path: Path, key: "Ed25519PrivateKey", say: Say) -> Purged:
    record = read_record(path)
    statement = record.statement
    if not record.envelope.is_signed_by(key.public_key()) or statement.digest(PLAN) != digest_of(plan):
        raise DamnatioError(
            f"{path} is no record of this plan that this key signed: nothing was deleted. Move it away, then try again."
        )
    say(f"This plan was carried out on {statement.predicate.dates.signed}: {path}")
    if is_missing(path.parent):
        write_pages(path, path.parent)
    say(statement.predicate.verdict_sentence)
    return Purged(path, statement.predicate.verdict)


def _begin(work: _Purge, words: Words) -> None:
    """Journal first: what is about to be done, and by whose decisions. A purge that goes on must say the same."""
    said: dict[str, Any] = {
        "accepted": work.decisions.accepted,
        "rejected": work.decisions.rejected,
        "deleted": work.decisions.deleted,
    }
    begun = work.journal.find("begin")
    if begun is None or not work.journal.has_deleted:  # whatever was begun may begin anew, with other words
        work.clear()
        checks.need_same_model(work.plan, work.folder)
        Templates.read(work.folder, work.plan.person)
        with private():
            work.work.mkdir(exist_ok=True)
        until = _until(words.days)
        content = {"case": work.plan.case, "fingerprints_until": until, **said}
        work.journal.write("begin", plan=digest_of(words.plan), **content)
        return
    if begun["plan"] != digest_of(words.plan):
        raise DamnatioError(f"{work.journal.path} belongs to another plan: move it away, or use its own plan.")
    if any(begun[name] != value for name, value in said.items()):
        raise DamnatioError(
            f"This purge began with {len(begun['deleted'])} items, accepted {_list(begun['accepted'])} and rejected "
            f"{_list(begun['rejected'])}: go on with the same words."
        )
    work.say(f"Going on with the purge that began at {begun['at']}")


def _until(days: int) -> str:
    try:
        return (datetime.now(UTC) + timedelta(days=days)).date().isoformat()
    except OverflowError:
        raise DamnatioError(f"--fingerprints-days {days}: that is after the last year that a date has, 9999.") from None


def _list(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers)) or "none"


def _check_rest(work: _Purge) -> None:
    """A purge that goes on: the stores that were not reached must be as they were."""
    for one in work.plan.stores:
        if work.journal.find(DELETING, one.number) is None:
            checks.need_no_drift(work.stores[one.number].census(work.found(one.number)), one)


def _baselines(work: _Purge, allow: Sequence[str]) -> None:
    """Everything that is read before the first delete. Drift and room are checked in all stores first."""
    checks.need_room(list(work.stores.values()))
    rehearsed = {number: store.rehearse(work.keys(number)) for number, store in work.stores.items()}
    baselines = [_look(work, one) for one in work.plan.stores]
    _share_needles(work)
    for one, (census, staying) in zip(work.plan.stores, baselines, strict=True):
        work.say(f"Before: store {one.number}  {one.address}")
        store, keys = work.stores[one.number], work.keys(one.number)
        would, allowed = rehearsed[one.number], [effect for effect in store.effects() if effect.name in allow]
        if would is not None and not allowed:
            checks.need_only_these(would, census, one)
        searches = keep_searches(store, staying, keys, work.searches(one.number))
        scan = _scan(store, work.needles(one.number), keys, staying)
        work.journal.write(
            "baseline", one.number, census=census.model_dump(), scan=scan.model_dump(mode="json"), searches=searches,
            versions=store.versions, unreached=store.unreached(), allowed=[effect.what for effect in allowed],
        )  # fmt: skip


def _look(work: _Purge, one: PlannedStore) -> tuple[Census, dict[Key, Vectors]]:
    """One pass over a store: refuse drift, keep what to look for later. Returns the census of what goes and of
    everybody else, and some rows that stay."""
    store, keys = work.stores[one.number], work.keys(one.number)
    counted, picked, sampled = Counted(work.found(one.number), keys), Picked(keys), Sampled(keys, SEARCHES)
    walk(store, counted, picked, sampled)
    found, census = counted.censuses()
    checks.need_no_drift(found, one)
    needles_of(store, keys, picked.vectors).write(work.work / f"needles-{one.number}.npz")
    return census, sampled.vectors


def _share_needles(work: _Purge) -> None:
    """In a store that held nothing of the person, what was found in the others is looked for."""
    read = {one.number: work.needles(one.number) for one in work.plan.stores}
    every = [needles for needles in read.values() if not needles.empty]
    both = Needles(
        [vector for one in every for vector in one.vectors], contents=[piece for one in every for piece in one.contents]
    )
    for number, needles in read.items():
        if needles.empty and not both.empty:
            shared = held(work.stores[number], both, work.keys(number))
            replace(both, shared=shared).write(work.work / f"needles-{number}.npz")


def _delete(work: _Purge, one: PlannedStore) -> None:
    store, keys, journal = work.stores[one.number], work.keys(one.number), work.journal
    if journal.find(DELETING, one.number) is None:
        journal.write(DELETING, one.number, items=len(keys))
    if journal.find("deleted", one.number) is None:
        started = time.monotonic()
        rows = store.delete(keys)
        journal.write("deleted", one.number, rows=rows, seconds=round(time.monotonic() - started, 3))
        work.say(f"Deleted: {len(keys)} items from store {one.number}")
    for place, step in enumerate(store.steps()):
        if journal.find("step", one.number, place=place, name=step.name) is None:
            started = time.monotonic()
            step.run()
            said = {"place": place, "name": step.name, "command": step.command}
            journal.write("step", one.number, **said, seconds=round(time.monotonic() - started, 3))
            work.say(f"  ran: {indented(step.command)}")


def _after(work: _Purge, one: PlannedStore) -> None:
    if work.journal.find("after", one.number):
        return
    store, keys, before = work.stores[one.number], work.keys(one.number), kept_searches(work.searches(one.number))
    counted, picked, sampled = Counted(keys), Picked(before), Sampled(keys, CONTROLS)
    walk(store, counted, picked, sampled)
    scan = _scan(store, work.needles(one.number), keys, sampled.vectors)
    searches, remains = compare_searches(store, before, picked.vectors, keys), store.remains()
    work.journal.write(
        "after", one.number, census=counted.censuses()[0].model_dump(), scan=scan.model_dump(mode="json"),
        searches=searches.model_dump(), remains=[remain.model_dump() for remain in remains],
    )  # fmt: skip
    work.say(f"  scan: {scan.verdict}" + "".join(f"\n    {where}" for each in scan.classes for where in each.where))
    for remain in remains:
        work.say(f"  remains: {remain.words}")


def _again(work: _Purge) -> None:
    """Search all stores once more. A store may have been written to while another was purged."""
    todo = [one for one in work.plan.stores if work.journal.find("again", one.number) is None]
    if not todo:
        return
    try:
        templates = Templates.read(work.folder, work.plan.person)
    except DamnatioError as error:
        work.say(f"No search after the purge: {error}")
        for one in todo:
            work.journal.write("again", one.number, again=None)
        return
    look = looking(work.plan, work.folder) if any(map(has_pictures, work.stores.values())) else None
    deleted = [vector for one in work.plan.stores for vector in work.needles(one.number).vectors]
    for one in todo:
        left = set(work.found(one.number)) - set(work.keys(one.number))
        again, rows = search_again(work.stores[one.number], work.plan, templates, look, deleted, left)
        work.journal.write(
            "again",
            one.number,
            again=again.model_dump(),
            mentions=[one.model_dump() for one in work.stores[one.number].mentions(work.plan.names)],
        )
        shown = "".join(f"\n    {key.place}/{key.id}" for key in rows[:SHOWN])
        work.say(f"Searched again: store {one.number}, {len(rows)} rows still show the person{shown}")


def _scan(store: Store, needles: Needles, keys: Sequence[Key], staying: Mapping[Key, Vectors]) -> Scan:
    if needles.empty:  # nothing was found anywhere: no bytes to look for
        return Scan(verdict="GONE", classes=[], seconds=0.0)
    return scan_store(store, needles, keys, list(staying.values()))


def _finish(work: _Purge, words: Words, key: "Ed25519PrivateKey") -> Purged:
    """Sign, write the pages, and remove what was only needed to go on."""
    path = work.folder / RECORD
    if words.holder is not None:
        from damnatio.erasure.proving.fingerprints import write_fingerprints

        if work.journal.find("fingerprints") is None:
            until = str(work.journal.entries[0]["fingerprints_until"])
            needles = {one.number: work.needles(one.number) for one in work.plan.stores}
            write_fingerprints(work.folder, work.plan.case, until, needles, public_holder_key(words.holder))
            work.journal.write("fingerprints")
    statement = sign_record(work.plan, work.journal, words.plan, key, words.key or usual_place())
    remove_templates(work.folder)
    work.forget()
    for page in write_pages(path, work.folder):
        work.say(f"Page: {page}")
    work.say(f"Record: {path}")
    work.say(statement.predicate.verdict_sentence)
    return Purged(path, statement.predicate.verdict)
