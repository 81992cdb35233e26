"""A scan of the files of stores by fingerprints, with a control: rows that are in the store today must be seen."""

import numpy as np
from numpy.typing import NDArray

from damnatio.erasure.proving.fingerprints import Fingerprints, PrintMatcher, pieces_of, prints_of
from damnatio.galleries.base import Store
from damnatio.galleries.items import FileClass, Frozen, Key
from damnatio.galleries.picking import sample
from damnatio.galleries.scanning.decimals import Decimals
from damnatio.galleries.scanning.fragments import fragments_of
from damnatio.galleries.scanning.matching import Seen
from damnatio.galleries.scanning.needles import Needles
from damnatio.galleries.scanning.needles import pieces_of as pieces_of_photograph
from damnatio.galleries.scanning.scan import CONTROLS, chunks_of
from damnatio.galleries.scanning.streams import Stream
from damnatio.galleries.scanning.verdicts import Verdict

Prints = NDArray[np.uint8]


class Rescanned(Frozen):
    """One class of files."""

    name: str
    verdict: Verdict
    found: int
    fingerprints: int
    control_found: int
    control: int


def rescan(store: Store, prints: Fingerprints, number: int) -> list[Rescanned]:
    """Look for the deleted rows of a store in its files."""
    wanted = {row.tobytes() for row in prints.stores[number]}
    staying = prints_of(pieces_of(_control(store)), prints.key)
    staying = staying[[row.tobytes() not in wanted for row in staying]]  # the control hides nothing
    return [_class(one, prints.stores[number], staying, prints.key) for one in store.file_classes()]


def _control(store: Store) -> Needles:
    """Rows that are in the store: their vectors, or pieces of their photographs if there are no vectors."""
    vectors = list(sample(store, (), CONTROLS).values())
    pieces: list[bytes] = []
    for place in store.places() if not vectors else []:
        for block in store.blocks(place.name):
            for id in block.ids:
                picture = store.photograph(Key(place.name, id)) if len(pieces) < CONTROLS else None
                pieces += pieces_of_photograph(picture) if picture else []
    return Needles(vectors, contents=pieces)


def _class(one: FileClass, wanted: Prints, staying: Prints, key: bytes) -> Rescanned:
    seen = np.zeros(len(wanted) + len(staying), bool)
    matcher = PrintMatcher(np.concatenate([wanted, staying]), key)
    decimals, scanned = Decimals(fragments_of(Needles(), Needles())), 0
    unreadable, vanished = bool(one.unreached), False

    def report(found: Seen, begins: int) -> None:
        seen[found.fragments] = True

    for path in one.files:
        try:
            for content in [chunks_of(path), *([one.opened(path)] if one.opened is not None else [])]:
                stream = Stream(matcher, decimals, report)
                for chunk in content:
                    stream.feed(chunk)
                    scanned += len(chunk)
                stream.end()
        except FileNotFoundError:  # it was there, and was not read: without a control that proves nothing
            vanished = True
        except OSError:
            unreadable = True
    found, control = int(seen[: len(wanted)].sum()), int(seen[len(wanted) :].sum())
    return Rescanned(
        name=one.name,
        verdict=_judged(found, control, bool(scanned) or vanished, unreadable),
        found=found,
        fingerprints=len(wanted),
        control_found=control,
        control=len(staying),
    )


def _judged(found: int, control: int, there: bool, unreadable: bool) -> Verdict:
    if found:
        return "RESIDUE"
    if unreadable:
        return "UNREACHED"
    return "GONE" if control or not there else "BLIND"
