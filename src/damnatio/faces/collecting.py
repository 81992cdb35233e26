"""Stage 1: index the source, and decode each image once.

The one decoding serves all that needs pixels: whether the image can be read, its hash, the cache, and its distances to
the other images of its identity, from which stage 2 finds the capture instances.

The table is cut into chunks of whole identities. Worker processes, and the processes of torchrun, share the chunks. A
finished chunk is a piece on the disk, so that an interrupted call decodes only what is missing. The outputs are joined
from the pieces in the order of the table, and are the same however the work was shared.
"""

import hashlib
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import write_array_header_1_0
from numpy.typing import NDArray

from damnatio.faces.base import PIXELS, FaceSource, UnreadableError
from damnatio.faces.distances import FILE as DISTANCES
from damnatio.faces.distances import SCALES, runs_of, stored_pairs
from damnatio.support import pieces, processes
from damnatio.support.errors import DamnatioError
from damnatio.support.files import write_atomically
from damnatio.support.progress import progress
from damnatio.support.tables import Table, codes_of
from damnatio.support.workers import cores, go_through

CHUNK = 1024
"""images of a chunk, and so many more as its last identity has: 39 MB of pixels at 112 x 112 x 3"""

Skipped = list[tuple[str, str, str]]


def collect(source: FaceSource, folder: Path) -> None:
    """Write the table of readable images, those that were skipped, the distances, and the pixels if they fit the
    cache."""
    index, skipped = processes.from_main(lambda: _indexed(source))
    cached = len(index) * source.settings.size**2 * 3 <= source.settings.cache_gb * 1e9
    chunks = {_name(chunk, cached): chunk for chunk in _chunks(index["identity"])}
    todo = pieces.missing(folder, list(chunks))
    mine = todo[processes.share_of(len(todo))]
    workers = source.settings.workers

    def work(name: str) -> None:
        pieces.keep(folder, name, _decoded(source, index, chunks[name], cached))

    total = sum(chunks[name].stop - chunks[name].start for name in mine)
    with progress("faces", total, "images") as advance:
        go_through(
            mine,
            work,
            lambda name: advance(chunks[name].stop - chunks[name].start),
            cores() if workers is None else workers,
        )
    processes.wait()
    processes.from_main(lambda: _join(source, index, skipped, chunks, folder, cached))


def _indexed(source: FaceSource) -> tuple[Table, Skipped]:
    source.skipped.clear()
    index = source.index()
    if len(runs_of(index["identity"])) - 1 > len(codes_of(index["identity"])[1]):
        raise DamnatioError(
            f"The source '{source.settings.source}' lists the images of an identity at several places: its `index` "
            "must keep the rows of an identity together."
        )
    return index, source.skipped


def _chunks(identities: NDArray[Any]) -> list[slice]:
    """Rows of whole identities, `CHUNK` or a few more at once."""
    starts = [0]
    for start in runs_of(identities)[1:-1].tolist():
        if start - starts[-1] >= CHUNK:
            starts.append(start)
    return [slice(start, stop) for start, stop in zip(starts, [*starts[1:], len(identities)], strict=True)]


def _name(chunk: slice, cached: bool) -> str:
    return f"faces-{chunk.start}-{chunk.stop}" + ("-pixels" if cached else "")


def _decoded(source: FaceSource, index: Table, chunk: slice, cached: bool) -> dict[str, NDArray[Any]]:
    """What is kept of a chunk: which images can be read, why the others cannot, and what the pixels say."""
    rows = index.where(np.arange(chunk.start, chunk.stop))
    images = source.read(rows)
    kept = np.array([not isinstance(image, UnreadableError) for image in images], bool)
    reasons = json.dumps([str(image) for image in images if isinstance(image, UnreadableError)])
    none = np.zeros((0, source.settings.size, source.settings.size, 3), np.uint8)
    pixels = np.concatenate([none, *(image[None] for image in images if not isinstance(image, UnreadableError))])
    del images
    digests = [hashlib.sha256(image.data).digest() for image in pixels]
    starts = runs_of(rows["identity"][kept])
    people = [pixels[start:stop] for start, stop in pairwise(starts)]
    found = {
        "kept": kept,
        "reasons": np.frombuffer(reasons.encode(), np.uint8),
        "digests": np.frombuffer(b"".join(digests), np.uint8),
        "distances": np.concatenate([np.zeros((0, len(SCALES)), np.float32), *map(stored_pairs, people)]),
    }
    return {**found, "pixels": pixels} if cached else found


def _join(
    source: FaceSource, index: Table, skipped: Skipped, chunks: dict[str, slice], folder: Path, cached: bool
) -> None:
    kept = np.zeros(len(index), bool)
    digest = hashlib.sha256()
    size = source.settings.size
    (folder / PIXELS).unlink(missing_ok=True)  # of an interrupted call that had another `cache_gb`
    cache = _Growing(folder / PIXELS if cached else None, "|u1", (size, size, 3))
    with cache as pixels, _Growing(folder / DISTANCES, "<f4", (len(SCALES),)) as distances:
        for name, chunk in chunks.items():
            piece = pieces.kept(folder, name)
            kept[chunk] = piece["kept"]
            digest.update(piece["digests"].data)
            distances.append(piece["distances"])
            if cached:
                pixels.append(piece["pixels"])
            bad = chunk.start + np.flatnonzero(~piece["kept"])
            for row, reason in zip(bad, json.loads(piece["reasons"].tobytes()), strict=True):
                skipped.append((index["image"][row], index["identity"][row], reason))
    if not kept.any():
        for name in (PIXELS, DISTANCES):  # no later call can go on from here
            (folder / name).unlink(missing_ok=True)
        pieces.drop(folder)
        reasons = "; ".join(sorted({reason for _, _, reason in skipped})[:3])
        raise DamnatioError(f"The source '{source.settings.source}' gave no readable image: {reasons}.")
    faces = index.where(kept)
    faces.write(folder / "faces.parquet")
    Table.of_rows(["image", "identity", "reason"], skipped).write(folder / "skipped.parquet")
    counts = np.diff(runs_of(faces["identity"]))
    summary = {
        "images": len(faces),
        "identities": len(counts),
        "identities_with_one_image": int((counts == 1).sum()),
        "skipped": len(skipped),
        "skipped_because": dict(Counter(reason for _, _, reason in skipped).most_common(10)),
        "first_skipped": [f"{name}: {reason}" for name, _, reason in skipped[:5]],
        "pixels_sha256": digest.hexdigest(),  # of the hashes of all images: two runs on the same images know it by this
    }
    write_atomically(folder / "summary.json", json.dumps(summary, indent=1) + "\n")
    pieces.drop(folder)


class _Growing:
    """A .npy file that entries are appended to; without a path, nothing is written. It is a stream and no memory map,
    so that a full disk is an error and not a signal."""

    def __init__(self, path: Path | None, kind: str, entry: tuple[int, ...]) -> None:
        self._path, self._kind, self._entry, self._count = path, kind, entry, 0

    def __enter__(self) -> "_Growing":
        self._file = self._path.open("wb") if self._path else None
        self._header()
        return self

    def append(self, entries: NDArray[Any]) -> None:
        if self._file:
            self._file.write(np.ascontiguousarray(entries).data)
            self._count += len(entries)

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.seek(0)
            self._header()
            self._file.close()

    def _header(self) -> None:
        """NumPy pads its header for a first axis that grows, so the header of the final count takes the same room."""
        if self._file:
            shape = (self._count, *self._entry)
            write_array_header_1_0(self._file, {"descr": self._kind, "fortran_order": False, "shape": shape})
