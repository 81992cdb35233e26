"""The scan of a store: every class of its files, for a person who went and for people who stay."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from damnatio.galleries.items import FileClass, Key
from damnatio.galleries.picking import sample, vectors_of
from damnatio.galleries.scanning.containers import MAGICS
from damnatio.galleries.scanning.decimals import Decimals
from damnatio.galleries.scanning.fragments import Fragments, fragments_of
from damnatio.galleries.scanning.matching import Matcher, Seen
from damnatio.galleries.scanning.needles import Needles, pieces_of
from damnatio.galleries.scanning.streams import CHUNK, Stream
from damnatio.galleries.scanning.verdicts import ClassScan, Scan, Verdict, worst
from damnatio.support.progress import progress

if TYPE_CHECKING:
    from damnatio.galleries.base import Store

CONTROLS = 32
"""rows of people who stay that are looked for beside the person's"""
PLACES = 5
"""places of a find that are named"""


def needles_of(store: "Store", keys: Iterable[Key]) -> Needles:
    """What to look for later: to be taken before the rows are deleted."""
    wanted = list(keys)
    vectors = vectors_of(store, wanted)
    pictures = [store.photograph(key) for key in wanted if key not in vectors]
    return _needles(store, list(vectors.values()), [picture for picture in pictures if picture])


def scan_store(store: "Store", person: Needles, keys: Iterable[Key]) -> Scan:
    """Look for the person in all files of an open store, and for people who stay: all rows but `keys`. Before the
    delete it counts the fragments that are there, after it those that are left."""
    started = time.monotonic()
    keys = list(keys)
    staying = _control(store, keys)
    scans, held = [], _Held(store, person, keys)
    planted = {one.name: store.plant(one.name) for one in store.file_classes()}
    for one in store.file_classes():  # asked again: a log may be rolled by what was written to it
        own = planted.get(one.name)
        control = staying if own is None else _needles(store, list(own), [])
        scans.append(scan_class(one, person, control, held))
    return Scan(verdict=worst([one.verdict for one in scans]), classes=scans, seconds=time.monotonic() - started)


def _needles(
    store: "Store", vectors: Sequence[np.ndarray[tuple[int, ...], np.dtype[np.floating]]], pictures: Sequence[bytes]
) -> Needles:
    codes = list(store.codes(np.stack(vectors))) if len({vector.shape for vector in vectors}) == 1 else []
    return Needles(vectors, codes, [piece for picture in pictures for piece in pieces_of(picture)])


def _control(store: "Store", keys: list[Key]) -> Needles:
    """People who stay: their vectors and their photographs."""
    gone, pictures = set(keys), list[bytes]()
    for place in store.places():
        if place.kind in ("photograph", "thumbnail"):
            for block in store.blocks(place.name):
                wanted = [Key(place.name, id) for id in block.ids[: CONTROLS + len(gone)]]
                found = (store.photograph(key) for key in wanted if key not in gone)
                pictures += [picture for picture in islice(found, CONTROLS) if picture]
                if len(pictures) >= CONTROLS:
                    break
    return _needles(store, list(sample(store, keys, CONTROLS).values()), pictures)


class _Held:
    """Fragments of the person that rows which stay have too. The rows are only read if something was found."""

    def __init__(self, store: "Store", person: Needles, keys: Iterable[Key]) -> None:
        self._store, self._person, self._gone = store, person, set(keys)

    def __call__(self) -> set[bytes]:
        return self._found

    @cached_property
    def _found(self) -> set[bytes]:
        fragments = fragments_of(Needles(self._person.vectors), Needles())
        matcher, found = Matcher(fragments), set[int]()
        for place in self._store.places():
            for block in self._store.blocks(place.name):
                stays = [Key(place.name, id) not in self._gone for id in block.ids]
                if block.vectors is not None and any(stays):
                    with np.errstate(over="ignore"):
                        rows = np.ascontiguousarray(block.vectors[stays], dtype="<f4")
                    for seen in matcher.look(rows.reshape(-1).view(np.uint8)):
                        found.update(seen.fragments.tolist())
        return {fragments.key(number) for number in found}


# --- one class of files ----------------------------------------------------------------------------------------------


def scan_class(one: FileClass, person: Needles, control: Needles, held: Callable[[], set[bytes]] = set) -> ClassScan:
    """Look for both in a class of files. `held` gives the fragments that rows which stay have too."""
    fragments = fragments_of(person, control)
    seen, hows = np.zeros(fragments.count, bool), dict[str, set[int]]()
    where, unreadable, scanned, skipped = list[str](), "", 0, 0
    matcher, decimals = Matcher(fragments, MAGICS), Decimals(fragments)
    with progress(f"scan {one.name}", sum(_size(path) for path in one.files) >> 20, "MB") as advance:
        for path in one.files:

            def report(found: Seen, begins: int, path: Path = path) -> None:
                seen[found.fragments] = True
                own = ~fragments.is_control[found.fragments]
                if own.any():
                    hows.setdefault(found.how, set()).update(found.fragments[own].tolist())
                    if len(where) < PLACES:
                        at = "inside a container" if begins < 0 else f"at byte {begins + int(found.at[own][0])}"
                        where.append(f"{path} {at}: {found.how}")

            try:
                contents = [_chunks(path)] + ([one.opened(path)] if one.opened is not None else [])
                for content in contents:
                    stream = Stream(matcher, decimals, report)
                    for chunk in content:
                        stream.feed(chunk)
                        scanned += len(chunk)
                        advance(len(chunk) >> 20)
                    stream.end()
                    skipped += stream.skipped
            except FileNotFoundError:  # a log that was rolled meanwhile
                continue
            except OSError as error:
                unreadable = f"{path} cannot be read: {error.strerror or error}."
    of_person = ~fragments.is_control
    mine = np.flatnonzero(seen & of_person).tolist()
    theirs = held() if mine else set()
    shared = {number for number in mine if fragments.key(number) in theirs}
    hows = {how: which - shared for how, which in hows.items() if which - shared}
    counts = {
        "found": len(mine) - len(shared),
        "shared": len(shared),
        "fragments": int(np.count_nonzero(of_person)),
        "control_found": int(np.count_nonzero(seen & fragments.is_control)),
        "control_fragments": int(np.count_nonzero(fragments.is_control)),
    }
    unseen = _unseen(one, fragments, seen)
    verdict, reason = _judged(counts, scanned, one.unreached or unreadable, skipped, unseen)
    return ClassScan(
        name=one.name,
        verdict=verdict,
        files=len(one.files),
        bytes=scanned,
        **counts,
        encodings={how: len(which) for how, which in sorted(hows.items())},
        where=where if len(mine) > len(shared) else [],
        reason=reason,
    )


def _unseen(one: FileClass, fragments: Fragments, seen: NDArray[np.bool_]) -> str:
    """What of people who stay was not seen, of that which the class holds; "" if all was. What the person has none of
    need not be seen."""
    kinds = {"vectors": ~fragments.is_picture, "pictures": fragments.is_picture}
    of_person = [kind for kind in one.holds if (kinds[kind] & ~fragments.is_control).any()]
    unseen = [kind for kind in of_person or one.holds if not (seen & kinds[kind] & fragments.is_control).any()]
    return " and ".join(unseen)


def _judged(counts: dict[str, int], scanned: int, unreached: str, skipped: int, unseen: str) -> tuple[Verdict, str]:
    if counts["found"]:
        return "RESIDUE", unreached
    if unreached:
        return "UNREACHED", unreached
    if not scanned:
        return "GONE", ""
    if counts["shared"] == counts["fragments"] > 0:
        return "BLIND", "Rows that stay hold the same vectors: what is the person's cannot be told apart."
    if not counts["fragments"]:
        return "BLIND", "The person has no vector and no photograph whose bytes could be looked for."
    if unseen:
        return (
            "BLIND",
            f"No {unseen} of people who stay were seen in these files: the scan does not know how they are written.",
        )
    if skipped:
        return "BLIND", f"{skipped} containers are too long or lie too deep in others to be unpacked."
    return "GONE", ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _chunks(path: Path) -> Iterable[bytes]:
    with path.open("rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while chunk := file.read(CHUNK):
            yield chunk
