"""The scan of a store: every class of its files, for a person who went and for people who stay."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from damnatio.galleries.items import FileClass, Key, Vectors
from damnatio.galleries.picking import sample, vectors_of
from damnatio.galleries.scanning.containers import MAGICS
from damnatio.galleries.scanning.decimals import Decimals
from damnatio.galleries.scanning.fragments import Fragments, fragments_of
from damnatio.galleries.scanning.matching import Matcher, Seen
from damnatio.galleries.scanning.needles import Needles, pieces_of
from damnatio.galleries.scanning.streams import CHUNK, Stream
from damnatio.galleries.scanning.verdicts import ClassScan, Scan, Verdict, worst
from damnatio.support.progress import Advance, progress

if TYPE_CHECKING:
    from damnatio.galleries.base import Store

CONTROLS = 32
"""rows of people who stay that are looked for beside the person's"""
PLACES = 5
"""places of a find that are named"""
ROUNDS = 5
"""how often the files of a store are listed, at most, until no new one is among them"""
UNKNOWN = "the scan does not know how they are written"
UNSETTLED = "New files came whenever the others had been read: stop whatever writes to the store, and scan again."
VANISHED = "Files were there and vanished before they could be read: scan again."


def needles_of(store: "Store", keys: Iterable[Key], vectors: Mapping[Key, Vectors] | None = None) -> Needles:
    """What to look for later: to be taken before the rows are deleted. `vectors` of the rows, if they are at hand."""
    wanted = list(keys)
    found = vectors_of(store, wanted) if vectors is None else vectors
    pictures = [store.photograph(key) for key in wanted if key not in found]
    needles = _needles(store, list(found.values()), [picture for picture in pictures if picture])
    return replace(needles, shared=held(store, needles, wanted)) if store.file_classes() else needles


def scan_store(store: "Store", person: Needles, keys: Iterable[Key], staying: Sequence[Vectors] | None = None) -> Scan:
    """Look for the person in all files of an open store, and for people who stay: all rows but `keys`. Before the
    delete it counts the fragments that are there, after it those that are left. `staying` are vectors of people who
    stay, if the caller has them at hand.

    Files are listed again after they were read, until no new one is among them: a log may be rolled, and a file that
    is written anew may take the place of one that was listed."""
    started = time.monotonic()
    keys = list(keys)
    control = _control(store, keys, staying)
    planted = {name: _needles(store, list(vectors), []) for name, vectors in store.plants().items()}
    looks: dict[str, ClassLook] = {}
    for _ in range(ROUNDS):
        fresh = False
        for one in store.file_classes():
            if one.name not in looks:
                looks[one.name] = ClassLook(person, planted.get(one.name, control), one.name in planted)
            fresh |= looks[one.name].look(one)
        if not fresh:
            break
    scans = [look.judged(settled=not fresh) for look in looks.values()]
    return Scan(verdict=worst([one.verdict for one in scans]), classes=scans, seconds=time.monotonic() - started)


def _needles(store: "Store", vectors: Sequence[Vectors], pictures: Sequence[bytes]) -> Needles:
    codes = list(store.codes(np.stack(vectors))) if len({vector.shape for vector in vectors}) == 1 else []
    return Needles(vectors, codes, [piece for picture in pictures for piece in pieces_of(picture)])


def _control(store: "Store", keys: list[Key], staying: Sequence[Vectors] | None) -> Needles:
    """People who stay: their vectors and their photographs."""
    if staying is None:
        staying = list(sample(store, keys, CONTROLS).values())
    gone, pictures = set(keys), list[bytes]()
    for place in store.places():
        if place.kind in ("photograph", "thumbnail"):
            for block in store.blocks(place.name):
                wanted = [Key(place.name, id) for id in block.ids[: CONTROLS + len(gone)]]
                found = (store.photograph(key) for key in wanted if key not in gone)
                pictures += [picture for picture in islice(found, CONTROLS) if picture]
                if len(pictures) >= CONTROLS:
                    break
    return _needles(store, staying[:CONTROLS], pictures)


def held(store: "Store", person: Needles, keys: Iterable[Key]) -> frozenset[bytes]:
    """Fragments of the person that rows which stay have too: their vectors, codes and photographs."""
    fragments = fragments_of(person, Needles())
    matcher, found, gone = Matcher(fragments), set[int](), set(keys)

    def look(content: NDArray[np.uint8]) -> None:
        for seen in matcher.look(content):
            found.update(seen.fragments.tolist())

    for place in store.places() if fragments.count else []:
        for block in store.blocks(place.name):
            stays = [Key(place.name, id) not in gone for id in block.ids]
            if block.vectors is not None and any(stays):
                with np.errstate(over="ignore"):
                    look(np.ascontiguousarray(block.vectors[stays], dtype="<f4").reshape(-1).view(np.uint8))
            if person.codes and block.contents:
                look(
                    np.frombuffer(
                        b"".join(one for one, stay in zip(block.contents, stays, strict=True) if stay), np.uint8
                    )
                )
            for id in [id for id, stay in zip(block.ids, stays, strict=True) if stay] if person.contents else []:
                if content := store.photograph(Key(place.name, id)):
                    look(np.frombuffer(content, np.uint8))
    return frozenset(fragments.key(number) for number in found)


# --- one class of files ----------------------------------------------------------------------------------------------


def scan_class(one: FileClass, person: Needles, control: Needles) -> ClassScan:
    """Look for both in a class of files."""
    look = ClassLook(person, control)
    look.look(one)
    return look.judged()


class ClassLook:
    """What was seen so far in the files of one class. `planted`: the control was written to these very files."""

    def __init__(self, person: Needles, control: Needles, planted: bool = False) -> None:
        self._fragments, self._planted, self._shared = fragments_of(person, control), planted, person.shared
        self._matcher, self._decimals = Matcher(self._fragments, MAGICS), Decimals(self._fragments)
        self._seen, self._hows = np.zeros(self._fragments.count, bool), dict[str, set[int]]()
        self._where, self._unreadable, self._scanned, self._skipped = list[str](), "", 0, 0
        self._read, self._vanished = set[tuple[Path, int]](), 0

    def look(self, one: FileClass) -> bool:
        """Read the files that were not read yet. Returns whether there were any."""
        self._class = one
        nodes = {path: _node(path) for path in one.files}
        new = [path for path, node in nodes.items() if (path, node) not in self._read]
        with progress(f"scan {one.name}", sum(_size(path) for path in new) >> 20, "MB") as advance:
            for path in new:
                self._read.add((path, nodes[path]))
                try:
                    self._look_into(path, one, advance)
                except FileNotFoundError:  # a log that was rolled meanwhile
                    self._vanished += 1
                except OSError as error:
                    self._unreadable = f"{path} cannot be read: {error.strerror or error}."
        return bool(new)

    def _look_into(self, path: Path, one: FileClass, advance: Advance) -> None:
        def report(found: Seen, begins: int) -> None:
            self._seen[found.fragments] = True
            own = ~self._fragments.is_control[found.fragments]
            if own.any():
                self._hows.setdefault(found.how, set()).update(found.fragments[own].tolist())
                if len(self._where) < PLACES:
                    at = "inside a container" if begins < 0 else f"at byte {begins + int(found.at[own][0])}"
                    self._where.append(f"{path} {at}: {found.how}")

        for content in [chunks_of(path)] + ([one.opened(path)] if one.opened is not None else []):
            stream = Stream(self._matcher, self._decimals, report)
            for chunk in content:
                stream.feed(chunk)
                self._scanned += len(chunk)
                advance(len(chunk) >> 20)
            stream.end()
            self._skipped += stream.skipped

    def judged(self, settled: bool = True) -> ClassScan:
        """What is to be said. `settled`: no file came while the others were read."""
        fragments, seen = self._fragments, self._seen
        of_person = ~fragments.is_control
        mine = np.flatnonzero(seen & of_person).tolist()
        shared = {number for number in mine if fragments.key(number) in self._shared}
        hows = {how: which - shared for how, which in self._hows.items() if which - shared}
        counts = {
            "found": len(mine) - len(shared),
            "shared": len(shared),
            "fragments": int(np.count_nonzero(of_person)),
            "control_found": int(np.count_nonzero(seen & fragments.is_control)),
            "control_fragments": int(np.count_nonzero(fragments.is_control)),
        }
        verdict, reason = self._verdict(counts, settled)
        return ClassScan(
            name=self._class.name,
            verdict=verdict,
            files=len(self._read) - self._vanished,
            bytes=self._scanned,
            **counts,
            encodings={how: len(which) for how, which in sorted(hows.items())},
            where=self._where if counts["found"] else [],
            reason=reason,
        )

    def _verdict(self, counts: dict[str, int], settled: bool) -> tuple[Verdict, str]:
        unreached = self._class.unreached or self._unreadable or ("" if settled else UNSETTLED)
        if counts["found"]:
            return "RESIDUE", unreached
        if unreached:
            return "UNREACHED", unreached
        if not self._scanned and self._vanished:
            return "BLIND", VANISHED
        if not self._scanned and not self._planted:
            return "GONE", ""
        if counts["shared"] == counts["fragments"] > 0:
            return "BLIND", "Rows that stay hold the same vectors: what is the person's cannot be told apart."
        if not counts["fragments"]:
            return "BLIND", "The person has no vector and no photograph whose bytes could be looked for."
        if unseen := _unseen(self._class, self._fragments, self._seen):
            return "BLIND", f"No {unseen} of people who stay were seen in these files: {UNKNOWN}."
        if self._skipped:
            return "BLIND", f"{self._skipped} containers are too long or lie too deep in others to be unpacked."
        return "GONE", ""


def _unseen(one: FileClass, fragments: Fragments, seen: NDArray[np.bool_]) -> str:
    """What of people who stay was not seen, of that which the class holds; "" if all was. What the person has none of
    need not be seen."""
    kinds = {"vectors": ~fragments.is_picture, "pictures": fragments.is_picture}
    of_person = [kind for kind in one.holds if (kinds[kind] & ~fragments.is_control).any()]
    unseen = [kind for kind in of_person or one.holds if not (seen & kinds[kind] & fragments.is_control).any()]
    return " and ".join(unseen)


def _node(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def chunks_of(path: Path) -> Iterator[bytes]:
    """The bytes of a file, some at a time."""
    with path.open("rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while chunk := file.read(CHUNK):
            yield chunk
