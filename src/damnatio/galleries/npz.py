"""Templates in an .npz: one array of vectors and one of names, or one array per person.

embeddings [n, d], names [n], and any other arrays of n rows, which go with them      (?vectors=...&names=...)
Ann [d] or [n, d], Bob [d] or [n, d], ...                                              (each array is a person)
"""

import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from damnatio.galleries import STORES
from damnatio.galleries.base import BLOCK, content_ids
from damnatio.galleries.files import FileStore
from damnatio.galleries.items import Block, Key, Place, Vectors
from damnatio.galleries.npy_streams import Header, read_header, read_rows, spans, texts, write_header
from damnatio.support.errors import DamnatioError

PLACE = "rows"
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
ENDING = ".npy"
DAMAGED = (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error)
Rows = NDArray[Any]


@dataclass(frozen=True)
class _Group:
    """Arrays whose rows belong together: row i of each is of one person."""

    vectors: str
    names: str = ""
    """the array of names; empty: all rows are of `person`"""
    person: str = ""
    others: tuple[str, ...] = ()

    @property
    def arrays(self) -> tuple[str, ...]:
        return (self.vectors, *([self.names] if self.names else []), *self.others)


@STORES.register("npz")
class Npz(FileStore):
    """An .npz of templates."""

    scheme = "npz"
    options: ClassVar[Mapping[str, str]] = {
        "vectors": "the array of vectors, [n, d] (embeddings)",
        "names": "the array of names, [n] (names)",
    }

    @classmethod
    def likeness(cls, path: Path, head: bytes) -> int:
        return 2 if head.startswith(ZIP) and (path.suffix == ".npz" or b".npy" in head) else 0

    def open(self, write: bool) -> None:
        super().open(write)
        self._headers = self._read_headers()
        self._groups = self._layout()

    def places(self) -> list[Place]:
        return [Place(PLACE, "template")]

    def blocks(self, place: str) -> Iterator[Block]:
        for group in self._groups:
            for rows in self._rows(group):
                yield self._block(group, rows)

    @property
    def versions(self) -> dict[str, str]:
        return {"numpy": np.__version__}

    def delete(self, keys: Sequence[Key]) -> int:
        self.need_write()
        gone = {key.id for key in keys}
        keep: dict[str, NDArray[np.bool_]] = {}
        for group in self._groups:
            blocks = (self._block(group, rows) for rows in self._rows(group))
            flags = [np.array([id not in gone for id in block.ids], dtype=bool) for block in blocks]
            kept = np.concatenate(flags) if flags else np.zeros(0, dtype=bool)
            keep.update(dict.fromkeys(group.arrays, kept))
        deleted = sum(int(np.count_nonzero(~keep[group.vectors])) for group in self._groups)
        if deleted:
            self._write(keep.get, {})
        return deleted

    def add(self, name: str, vectors: Vectors) -> list[Key]:
        self.need_write()
        group = next((group for group in self._groups if group.names or group.person == name), None)
        if group is not None and group.others:
            raise DamnatioError(f"{self.path}: the array `{group.others[0]}` has a value per row, and none is known.")
        more: dict[str, Rows] = {}
        if group is None:
            group = _Group(vectors=name, person=name)
            like = self._headers[self._groups[0].vectors].dtype if self._groups else np.dtype(np.float32)
            more[name] = np.asarray(vectors, dtype=like)
        else:
            more[group.vectors] = np.asarray(vectors, dtype=self._headers[group.vectors].dtype)
            if group.names:
                more[group.names] = np.array([name] * len(vectors))
        self._write(lambda _: None, more)
        return [
            Key(PLACE, id) for id in content_ids([name] * len(vectors), (row.tobytes() for row in more[group.vectors]))
        ]

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read_headers(self) -> dict[str, Header]:
        headers: dict[str, Header] = {}
        try:
            with zipfile.ZipFile(self.path) as archive:
                for name in archive.namelist():
                    with archive.open(name) as file:
                        headers[name.removesuffix(ENDING)] = read_header(file)
        except (*DAMAGED, NotImplementedError, RuntimeError) as error:
            said = " ".join(str(error).split())[:120]
            raise DamnatioError(f"The gallery {self.path} is no readable .npz ({said}).") from error
        return headers

    def _layout(self) -> list[_Group]:
        vectors, names = self.address.option("vectors", "embeddings"), self.address.option("names", "names")
        chosen = self.address.options or vectors in self._headers or names in self._headers
        if not chosen:
            return self._people()
        for wanted in (vectors, names):
            if wanted not in self._headers:
                raise DamnatioError(
                    f"The gallery {self.path} has no array `{wanted}`; it has {', '.join(sorted(self._headers))}: name "
                    "them with ?vectors=...&names=..."
                )
        found, rows = self._headers[vectors], self._headers[names]
        if len(found.shape) != 2 or found.dtype.kind != "f" or rows.shape != found.shape[:1]:
            raise DamnatioError(
                f"The gallery {self.path}: `{vectors}` {list(found.shape)} and `{names}` {list(rows.shape)} do not fit "
                "each other: [n, d] numbers and [n] names are expected."
            )
        alike = (name for name, one in self._headers.items() if one.shape[:1] == found.shape[:1])
        return [_Group(vectors, names, others=tuple(name for name in alike if name not in (vectors, names)))]

    def _people(self) -> list[_Group]:
        if not self._headers:
            return []
        sizes = {header.shape[-1:] for header in self._headers.values()}
        if len(sizes) != 1 or any(one.dtype.kind != "f" or len(one.shape) > 2 for one in self._headers.values()):
            raise DamnatioError(
                f"The gallery {self.path} holds neither `embeddings` and `names` nor one array of vectors per person: "
                "name its arrays with ?vectors=...&names=..."
            )
        self._headers = {name: replace(one, flat=len(one.shape) == 1) for name, one in self._headers.items()}
        return [_Group(name, person=name) for name in self._headers]

    def _rows(self, group: _Group) -> Iterator[dict[str, Rows]]:
        """The rows of all arrays of a group, in blocks, side by side."""
        with zipfile.ZipFile(self.path) as archive, ExitStack() as stack:
            files = {name: stack.enter_context(archive.open(name + ENDING)) for name in group.arrays}
            for file in files.values():
                read_header(file)
            for _, count in spans(self._headers[group.vectors].rows, BLOCK):
                yield {name: self._read(files[name], name, count) for name in group.arrays}

    def _read(self, file: IO[bytes], name: str, count: int) -> Rows:
        try:
            return read_rows(file, self._headers[name], count)
        except DAMAGED as error:
            raise DamnatioError(f"The gallery {self.path}: the array `{name}` is damaged ({error}).") from error

    def _block(self, group: _Group, rows: Mapping[str, Rows]) -> Block:
        vectors = rows[group.vectors]
        names = texts(rows[group.names]) if group.names else [group.person] * len(vectors)
        others = [b"".join(rows[name][row].tobytes() for name in group.others) for row in range(len(vectors))]
        ids = content_ids(names, (vector.tobytes() + other for vector, other in zip(vectors, others, strict=True)))
        return Block(ids, names, vectors, others if group.others else ())

    # --- writing -----------------------------------------------------------------------------------------------------

    def _write(self, keep: Callable[[str], NDArray[np.bool_] | None], more: Mapping[str, Rows]) -> None:
        """Write the file anew: of each array the rows to keep (None: all), and more rows at its end. An array of a
        person without rows is left out."""

        def write(file: BinaryIO) -> None:
            with zipfile.ZipFile(self.path) as old, zipfile.ZipFile(file, "w", allowZip64=True) as new:
                for entry in old.infolist():
                    name = entry.filename.removesuffix(ENDING)
                    fresh = zipfile.ZipInfo(entry.filename, entry.date_time)
                    fresh.compress_type, fresh.external_attr = entry.compress_type, entry.external_attr
                    chosen, extra = keep(name), more.get(name)
                    alone = any(group.person == name for group in self._groups)
                    if alone and chosen is not None and not chosen.any() and extra is None:
                        continue
                    with old.open(entry) as source, new.open(fresh, "w", force_zip64=True) as target:
                        self._copy(name, source, target, chosen, extra)
                for name in more:
                    if name not in self._headers:
                        with new.open(name + ENDING, "w", force_zip64=True) as target:
                            write_header(target, Header(more[name].shape, more[name].dtype), len(more[name]))
                            target.write(np.ascontiguousarray(more[name]).tobytes())

        self.replace({self.path: write})
        self._headers = self._read_headers()
        self._groups = self._layout()

    def _copy(
        self, name: str, source: IO[bytes], target: IO[bytes], chosen: NDArray[np.bool_] | None, extra: Rows | None
    ) -> None:
        """One array, row by row."""
        read_header(source)
        header = self._headers[name]
        kept = header.rows if chosen is None else int(np.count_nonzero(chosen))
        if extra is not None and (header.flat or extra.dtype.itemsize > header.dtype.itemsize):
            header = replace(header, flat=False, shape=(header.rows, *header.row_shape))
            header = replace(header, dtype=np.promote_types(header.dtype, extra.dtype))
        write_header(target, header, kept + (0 if extra is None else len(extra)))
        if not header.shape:
            target.write(source.read())
            return
        for start, count in spans(self._headers[name].rows, BLOCK):
            rows = self._read(source, name, count)
            rows = rows if chosen is None else rows[chosen[start : start + count]]
            target.write(np.ascontiguousarray(rows.astype(header.dtype, copy=False)).tobytes())
        if extra is not None:
            target.write(np.ascontiguousarray(extra.astype(header.dtype, copy=False)).tobytes())
