"""Fingerprints of deleted rows, by which files can be scanned again later without keeping the rows.

A fingerprint stands for 32 bytes as they were stored: eight values of a vector as float32, or a piece of a photograph.
It has 12 bytes: four of a keyed sum, by which places in a file are sorted out quickly, and eight of an HMAC-SHA256. So
100 vectors of 512 values have 6,400 of them, 77 KB. They can be recognised, and not turned back into vectors; but who
holds them can tell whether a file shows the person: they are personal data. They are sealed for one holder
(sealing.py), and may be used until a date.

A scan by fingerprints sees what is written byte by byte, also inside containers that the scan can unpack; it does not
see values that were normalised again, printed, or stored in another type, as the scan of the purge does.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from damnatio.erasure.proving.sealing import seal, unseal
from damnatio.galleries.scanning.containers import MAGICS
from damnatio.galleries.scanning.fragments import fragments_of
from damnatio.galleries.scanning.matching import Matcher, Seen
from damnatio.galleries.scanning.needles import Needles
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular, private, write_atomically

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

NAME = "fingerprints.bin"
FORMAT = 1
BYTES, WORDS, MAC = 32, 8, 8
LENGTH = 4 + MAC
DISTINCT = 12
"""different bytes that a piece must have; others, such as zeros, could be anybody's"""
TABLE = 22
"""bits of the sum by which most places are sorted out"""


@dataclass(frozen=True)
class Fingerprints:
    case: str
    until: str
    key: bytes
    stores: Mapping[int, NDArray[np.uint8]]
    """[n, LENGTH] by the number of the store"""

    def need_valid(self, today: date) -> None:
        if today > date.fromisoformat(self.until):
            raise DamnatioError(f"These fingerprints could be used until {self.until}: destroy them.")


@private()
def write_fingerprints(
    folder: Path, case: str, until: str, needles: Mapping[int, Needles], holder: "X25519PublicKey"
) -> Path:
    """Seal the fingerprints of what was deleted from each store for their holder."""
    key = secrets.token_bytes(32)
    prints = {
        number: prints_of([one for one in pieces_of(some) if one not in some.shared], key)
        for number, some in needles.items()
    }
    head = {"format": FORMAT, "case": case, "until": until, "key": key.hex()}
    head |= {"stores": {str(number): len(rows) for number, rows in prints.items()}}
    content = json.dumps(head).encode() + b"\n" + b"".join(rows.tobytes() for rows in prints.values())
    write_atomically(folder / NAME, seal(content, holder))
    return folder / NAME


def read_fingerprints(path: Path, holder: "X25519PrivateKey") -> Fingerprints:
    need_regular(path, "The file of fingerprints")
    try:
        content = unseal(path.read_bytes(), holder, str(path))
    except FileNotFoundError:
        raise DamnatioError(f"There are no fingerprints {path}.") from None
    line, _, rest = content.partition(b"\n")
    head = json.loads(line)
    if head["format"] != FORMAT:
        raise DamnatioError(f"{path} has the format {head['format']}, and this damnatio reads {FORMAT}.")
    rows, stores, at = np.frombuffer(rest, np.uint8).reshape(-1, LENGTH), {}, 0
    for number, count in head["stores"].items():
        stores[int(number)] = rows[at : at + count]
        at += count
    return Fingerprints(head["case"], head["until"], bytes.fromhex(head["key"]), stores)


def pieces_of(needles: Needles) -> list[bytes]:
    """32 bytes each, as they are stored."""
    found: dict[bytes, None] = {}
    contents = [np.asarray(vector).astype("<f4").tobytes() for vector in needles.vectors]
    for content in (*contents, *needles.codes, *needles.contents):
        for start in range(0, len(content) - BYTES + 1, BYTES):
            found[content[start : start + BYTES]] = None
    return [piece for piece in found if len(set(piece)) >= DISTINCT]


def prints_of(pieces: Sequence[bytes], key: bytes) -> NDArray[np.uint8]:
    rows = np.empty((len(pieces), LENGTH), np.uint8)
    words = np.frombuffer(b"".join(pieces), "<u4").reshape(-1, WORDS)
    sums = (words * _multipliers(key)).sum(axis=1, dtype=np.uint32)
    rows[:, :4] = sums.astype("<u4")[:, None].view(np.uint8)
    for row, piece in enumerate(pieces):
        rows[row, 4:] = np.frombuffer(_mac(piece, key), np.uint8)
    return rows


class PrintMatcher(Matcher):
    """Finds the pieces behind fingerprints in chunks of bytes, and the beginnings of containers."""

    def __init__(self, prints: NDArray[np.uint8], key: bytes) -> None:
        super().__init__(fragments_of(Needles(), Needles()), MAGICS)
        self._key, self._factors = key, _multipliers(key)
        self._rows = {row.tobytes(): place for place, row in enumerate(prints)}
        sums = np.ascontiguousarray(prints[:, :4]).view("<u4")[:, 0]
        self._sums = np.unique(sums)
        self._table = np.zeros(1 << TABLE, bool)
        self._table[sums >> (32 - TABLE)] = True

    def look(self, chunk: NDArray[np.uint8]) -> Iterator[Seen]:
        yield from super().look(chunk)  # it has no fragments, and finds the containers
        for offset in range(4):
            words = chunk[offset : offset + (len(chunk) - offset) // 4 * 4].view("<u4")
            if len(words) < WORDS:
                continue
            sums = np.zeros(len(words) - WORDS + 1, np.uint32)
            for place, factor in enumerate(self._factors):
                sums += words[place : place + len(sums)] * factor
            places = np.flatnonzero(self._table[sums >> np.uint32(32 - TABLE)])
            places = places[np.isin(sums[places], self._sums)]
            yield from self._confirmed(chunk, 4 * places + offset, sums[places])

    def _confirmed(
        self, chunk: NDArray[np.uint8], places: NDArray[np.int64], sums: NDArray[np.uint32]
    ) -> Iterator[Seen]:
        found = []
        for at, total in zip(places.tolist(), sums, strict=True):
            mac = _mac(chunk[at : at + BYTES].tobytes(), self._key)
            row = self._rows.get(np.array([total], "<u4").tobytes() + mac)
            if row is not None:
                found.append((row, at))
        if found:
            rows, at = np.array(found, np.int64).T
            yield Seen(rows, at, "as it was stored")


def _mac(piece: bytes, key: bytes) -> bytes:
    return hmac.digest(key, piece, hashlib.sha256)[:MAC]


def _multipliers(key: bytes) -> NDArray[np.uint32]:
    """Odd factors of the keyed sum."""
    drawn = np.frombuffer(hmac.digest(key, b"factors", hashlib.sha256), "<u4")
    return np.asarray(drawn | 1, dtype=np.uint32)
