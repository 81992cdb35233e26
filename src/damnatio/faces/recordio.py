"""InsightFace's `train.rec` and `train.idx`, read without mxnet.

A record is a frame: magic, flag and length, payload, padding to four bytes. A payload that holds the magic at a place
divisible by four is cut there into pieces; the reader puts the magic back between them. The payload of an image is a
header (flag, label, two ids), `flag` further labels, and the encoded image. The first label is the identity.

In InsightFace's layout, record 0 holds no image but the number of the first record after the images. The records after
the images are the ranges of each identity, which the labels say as well. In the other layout every record is an image.
"""

import mmap
import struct
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from damnatio.faces import SOURCES
from damnatio.faces.base import UnreadableError
from damnatio.faces.decoding import FileSettings, FileSource, mapped, read_at, state
from damnatio.support.errors import DamnatioError
from damnatio.support.progress import progress
from damnatio.support.tables import Table

MAGIC = (0xCED7230A).to_bytes(4, "little")
FRAME = struct.Struct("<4sI")
HEADER = struct.Struct("<IfQQ")
WHOLE, FIRST, MIDDLE, LAST = range(4)
"""the three upper bits of a frame's length: which piece of a payload it holds"""
LENGTH = 2**29 - 1
MAX_LABEL = 2**24
"""float32 holds every whole number up to here"""
BLOCK = 65_536
"""records whose headers are read at once"""

RECORD = np.dtype([("label", "f4"), ("flag", "i8"), ("body", "i8"), ("problem", "u1")])
PAST, NOWHERE, BROKEN, CUT, SHORT, LABEL, REPEATED = range(1, 8)
PROBLEMS = (
    "",
    "the index points past the end of the file",
    "no record begins where the index points",
    "the pieces of the record do not follow each other",
    "the file ends inside the record",
    "the record is shorter than its header says",
    "the label is no whole number from 0 up",
    "the index names this record twice",
)

Numbers = NDArray[np.int64]


@SOURCES.register("recordio")
class RecordIO(FileSource):
    """InsightFace's train.rec, with its train.idx or without."""

    class Settings(FileSettings):
        source: Literal["recordio"]

    def fingerprint(self) -> Any:
        return [state(self._path), state(self._path.with_suffix(".idx"))]

    def index(self) -> Table:
        path = self._path
        try:
            data = mapped(path)
        except UnreadableError as error:
            raise DamnatioError(f"{path} cannot be read: {error}.") from error
        known = _read_idx(path.with_suffix(".idx"))
        keys, offsets = known if known is not None else (None, _scanned(data, self))
        records = _headers(data, offsets)
        keys, image = _numbered(records) if keys is None else (keys, _images(keys, records))
        if not image.any():
            raise DamnatioError(f"{path} holds no image record.")
        problem = np.where(_repeated(keys) & (records["problem"] == 0), REPEATED, records["problem"])
        bad = np.flatnonzero(image & (problem > 0))
        if len(bad) == image.sum() and np.isin(problem[bad], (PAST, NOWHERE)).all():
            raise DamnatioError(
                f"Nothing in {path} is where its .idx says ({PROBLEMS[problem[bad[0]]]}). Take the .idx that belongs "
                "to it, or delete this one: the file is then read from its beginning."
            )
        for place in bad:
            self.skip(str(keys[place]), PROBLEMS[problem[place]])
        places = np.flatnonzero(image & (problem == 0))
        labels = records["label"][places].astype(np.int64)
        order = np.lexsort((keys[places], labels))
        places, labels = places[order], labels[order]
        identities, codes = np.unique(labels, return_inverse=True)
        return Table(
            {
                "image": list(map(str, keys[places].tolist())),
                "identity": np.array([str(label) for label in identities], dtype=object)[codes],
                "offset": offsets[places],
            }
        )

    def content(self, row: Mapping[str, Any]) -> bytes:
        path = str(self._path)
        payload = _joined(lambda start, length: read_at(path, start, length), row["offset"])
        if len(payload) < HEADER.size:
            raise UnreadableError(PROBLEMS[SHORT])
        flag: int = HEADER.unpack_from(payload)[0]
        return payload[HEADER.size + 4 * flag :]


def _read_idx(path: Path) -> tuple[Numbers, Numbers] | None:
    """Keys and offsets in an .idx; None if there is no file, or no table of two whole numbers in it."""
    if not path.is_file():
        return None
    try:
        table = csv.read_csv(
            path,
            csv.ReadOptions(column_names=["key", "offset"]),
            csv.ParseOptions(delimiter="\t"),
            csv.ConvertOptions(column_types={"key": pa.int64(), "offset": pa.int64()}, null_values=[]),
        )
    except (OSError, pa.ArrowInvalid):
        return None
    return table.column("key").to_numpy(), table.column("offset").to_numpy()


def _scanned(data: mmap.mmap, source: RecordIO) -> Numbers:
    """Offsets of the records, one after the other. Where no record follows, a length was wrong: the next record begins
    at the next magic after the last head, because no payload holds the magic."""
    offsets = array("q")
    place, after, shown, size = 0, 0, 0, len(data)
    with progress("scan", size, "bytes") as advance:
        while place + FRAME.size <= size:
            magic, length = FRAME.unpack_from(data, place)
            if magic != MAGIC:
                source.skip(f"byte {place}", "no record begins here")
                place = _next_magic(data, after)
                continue
            if length >> 29 in (WHOLE, FIRST):
                offsets.append(place)
            after = place + FRAME.size
            place += _room(length)
            if place > size:
                place = _next_magic(data, after)
            if place - shown > 2**26:
                advance(place - shown)
                shown = place
    return np.array(offsets, dtype=np.int64)


def _next_magic(data: mmap.mmap, start: int) -> int:
    """The place of the next magic at a multiple of four, where frames begin; the end of the file if there is none."""
    place = data.find(MAGIC, start)
    while place >= 0 and place % 4:
        place = data.find(MAGIC, place + 1)
    return place if place >= 0 else len(data)


def _room(length: int) -> int:
    """Bytes that a frame takes: its head, its payload, and the padding."""
    return FRAME.size + ((length & LENGTH) + 3) // 4 * 4


def _joined(read: Callable[[int, int], bytes], offset: int) -> bytes:
    """The payload of the record that begins here, from all its pieces."""
    pieces: list[bytes] = []
    while True:
        head = read(offset, FRAME.size)
        if len(head) < FRAME.size:
            raise UnreadableError(PROBLEMS[CUT])
        magic, length = FRAME.unpack(head)
        if magic != MAGIC or length >> 29 not in ((MIDDLE, LAST) if pieces else (WHOLE, FIRST)):
            raise UnreadableError(PROBLEMS[BROKEN])
        pieces.append(read(offset + FRAME.size, length & LENGTH))
        if len(pieces[-1]) < length & LENGTH:
            raise UnreadableError(PROBLEMS[CUT])
        if length >> 29 in (WHOLE, LAST):
            return MAGIC.join(pieces)
        offset += _room(length)


def _headers(data: mmap.mmap, offsets: Numbers) -> NDArray[np.void]:
    """The headers of the records at these offsets, read by blocks: a loop over millions of them takes far longer."""
    records = np.zeros(len(offsets), dtype=RECORD)
    content = np.frombuffer(data, dtype=np.uint8)
    reach = FRAME.size + HEADER.size + 4
    with progress("index", len(offsets), "records") as advance, np.errstate(invalid="ignore"):
        for start in range(0, len(offsets), BLOCK):
            offset = offsets[start : start + BLOCK]
            inside = (offset >= 0) & (offset <= len(data) - FRAME.size)
            offset = np.where(inside, offset, 0)
            words = content[np.minimum(offset[:, None] + np.arange(reach), len(data) - 1)].view("<u4")
            piece, length, flag = (
                words[:, 1] >> 29,
                (words[:, 1] & LENGTH).astype(np.int64),
                words[:, 2].astype(np.int64),
            )
            label = np.where(flag > 0, words[:, 8], words[:, 3]).astype("<u4").view("<f4")
            begins = inside & (words[:, 0] == int.from_bytes(MAGIC, "little")) & (piece <= FIRST)
            cut = offset + FRAME.size + length > len(data)
            broken = np.zeros(len(offset), dtype=bool)
            for place in np.flatnonzero(begins & (piece == FIRST)):
                try:
                    payload = _joined(lambda at, size: data[at : at + size], int(offset[place]))
                    length[place] = len(payload)
                    flag[place], label[place] = _first_label(payload)
                except UnreadableError:
                    broken[place] = True
            body = length - HEADER.size - 4 * flag
            whole_number = (label >= 0) & (label < MAX_LABEL) & (label == np.floor(label))
            some = records[start : start + BLOCK]
            some["label"], some["flag"], some["body"] = label, flag, body
            some["problem"] = np.select(
                [~inside, ~begins, broken, cut, body < 0, ~whole_number], [PAST, NOWHERE, BROKEN, CUT, SHORT, LABEL]
            )
            advance(len(offset))
    return records


def _first_label(payload: bytes) -> tuple[int, float]:
    """Flag and first label of a payload. The length of the body shows if the flag reaches past its end."""
    if len(payload) < HEADER.size:
        return 0, 0.0
    flag, label, _, _ = HEADER.unpack_from(payload)
    if flag and len(payload) >= HEADER.size + 4:
        (label,) = struct.unpack_from("<f", payload, HEADER.size)
    return flag, label


def _images(keys: Numbers, records: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which records are images, by the keys of an .idx. A record 0 with labels and no body is InsightFace's. It says
    where the images end, rounded to float32, so a record after that place is an image too if it has a body."""
    first = np.flatnonzero((keys == 0) & _empty(records))
    if not len(first):
        return np.ones(len(keys), dtype=bool)
    return np.asarray((keys >= 1) & ((keys < records["label"][first[0]]) | (records["body"] > 0)))


def _numbered(records: NDArray[np.void]) -> tuple[Numbers, NDArray[np.bool_]]:
    """The keys of records without an .idx, and which of them are images. face2rec2 writes record 0 and the ranges after
    the images, and numbers images from 1; in a file without these records images are numbered from 0."""
    empty = _empty(records)
    last = len(records) - int(np.argmin(empty[::-1])) if not empty.all() else 0
    place = np.arange(len(records))
    image = ~(empty & ((place == 0) | (place >= last)))
    return np.cumsum(image) - (1 if image.all() else 0), image


def _empty(records: NDArray[np.void]) -> NDArray[np.bool_]:
    """Records that hold labels only. Their labels count images, and may be no valid identities."""
    sound = np.isin(records["problem"], (0, LABEL))
    return np.asarray(sound & (records["flag"] > 0) & (records["body"] == 0))


def _repeated(keys: Numbers) -> NDArray[np.bool_]:
    """Which keys occur a second time."""
    repeated = np.ones(len(keys), dtype=bool)
    repeated[np.unique(keys, return_index=True)[1]] = False
    return repeated
