"""The stores of a record, opened again: counted, and scanned by fingerprints."""

from collections.abc import Sequence
from typing import Literal

from damnatio.erasure.proving.fingerprints import Fingerprints
from damnatio.erasure.proving.masking import MASK
from damnatio.erasure.proving.rescanning import rescan
from damnatio.erasure.proving.statement import ErasedStore, Predicate
from damnatio.galleries.address import HIDDEN, Address, parse
from damnatio.galleries.opening import open_store
from damnatio.galleries.scanning.verdicts import Verdict, worst
from damnatio.support.errors import DamnatioError

Outcome = Literal["passed", "failed", "unsure"]
Found = tuple[Outcome, str]


def addresses(stores: Sequence[ErasedStore], given: Sequence[str]) -> list[Address]:
    """Where the stores are. A record hides passwords and names: such a store takes the next given one of its kind."""
    left = [parse(text) for text in given]
    found = []
    for store in stores:
        mine = next((one for one in left if one.shown == store.address), None)
        if mine is None and (MASK in store.address or HIDDEN in store.address):
            mine = next((one for one in left if one.scheme == store.kind), None)
            if mine is None:
                raise DamnatioError(
                    f"Store {store.number}, {store.address}, has a part that the record hides: give its whole address "
                    "with --gallery."
                )
        if mine is not None:
            left.remove(mine)
        found.append(mine if mine is not None else parse(store.address))
    if left:
        known = ", ".join(store.address for store in stores)
        raise DamnatioError(f"--gallery {left[0].shown} is no store of the record: it has {known}.")
    return found


def reopened(predicate: Predicate, given: Sequence[str]) -> Found:
    """Rows today, and whether they are as the purge left them. A store in service goes on: a change is no failure, but
    nothing can then be said of who is in it."""
    words, changed = [], False
    for store, address in zip(predicate.stores, addresses(predicate.stores, given), strict=True):
        with open_store(address) as opened:
            census = opened.census(())
        rows, then = sum(census.rows.values()), store.neighbours.rows_after
        if census.others == store.neighbours.others_after:
            words.append(f"store {store.number}: {rows:,} rows, all as the purge left them")
            continue
        changed = True
        counts = f"{rows:,} rows, {then:,} after the purge"
        words.append(f"store {store.number}: {counts}; it changed since, so only a rescan or a new plan says more")
    return ("unsure" if changed else "passed"), "; ".join(words)


def rescanned(predicate: Predicate, given: Sequence[str], prints: Fingerprints) -> Found:
    words, verdicts = list[str](), list[Verdict]()
    if missing := [store.number for store in predicate.stores if store.number not in prints.stores]:
        raise DamnatioError(f"The fingerprints are of another record: they hold nothing of store {missing[0]}.")
    for store, address in zip(predicate.stores, addresses(predicate.stores, given), strict=True):
        with open_store(address) as opened:
            found = rescan(opened, prints, store.number)
            if not opened.file_classes():
                verdicts.append("UNREACHED")
                words.append(f"store {store.number}: the files of a server are not read; a new plan searches its rows")
                continue
        verdict = worst([one.verdict for one in found])
        verdicts.append(verdict)
        counts = sum(one.found for one in found), len(prints.stores[store.number])
        control = sum(one.control_found for one in found), max((one.control for one in found), default=0)
        words.append(
            f"store {store.number}: {verdict}, {counts[0]} of {counts[1]:,} fingerprints found, control {control[0]:,} "
            f"of {control[1]:,}"
        )
    outcomes: dict[Verdict, Outcome] = {"GONE": "passed", "RESIDUE": "failed"}
    return outcomes.get(worst(verdicts), "unsure"), "; ".join(words)
