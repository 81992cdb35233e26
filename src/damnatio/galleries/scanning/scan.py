"""The scan of a store: every class of its files, for a person who went and for people who stay."""

import os
import time
from collections.abc import Iterable, Sequence
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
    staying = _control(store, list(keys))
    scans = []
    for one in store.file_classes():
        planted = store.plant(one.name)
        scans.append(scan_class(one, person, staying if planted is None else _needles(store, list(planted), [])))
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


# --- one class of files ----------------------------------------------------------------------------------------------


def scan_class(one: FileClass, person: Needles, control: Needles) -> ClassScan:
    """Look for both in a class of files."""
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
    counts = {
        "found": int(np.count_nonzero(seen & of_person)),
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
        where=where,
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
