"""Templates in an .npy: an array [n, d]. Their names are in a file beside it: `npy:vectors.npy?names=names.json`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
from numpy.typing import NDArray

from damnatio.galleries import STORES
from damnatio.galleries.base import BLOCK, content_ids
from damnatio.galleries.files import FileStore, Write
from damnatio.galleries.items import Block, Key, Place, Vectors
from damnatio.galleries.name_files import NameFile
from damnatio.galleries.npy_streams import read_header, read_rows, spans, write_header
from damnatio.support.errors import DamnatioError

PLACE = "rows"
MAGIC = b"\x93NUMPY"


@STORES.register("npy")
class Npy(FileStore):
    """An array of vectors."""

    scheme = "npy"
    options: ClassVar[Mapping[str, str]] = {"names": "a file beside it with the names, in the order of the rows"}

    @classmethod
    def likeness(cls, path: Path, head: bytes) -> int:
        return 2 if head.startswith(MAGIC) else 0

    def files(self) -> list[Path]:
        names = self.address.file_option("names")
        return [self.path, *([names.resolve()] if names is not None else [])]

    def open(self, write: bool) -> None:
        super().open(write)
        self._reread()

    def _reread(self) -> None:
        try:
            with self.path.open("rb") as file:
                self._header = read_header(file)
        except (ValueError, OSError, EOFError) as error:
            said = " ".join(str(error).split())[:120]
            raise DamnatioError(f"The gallery {self.path} is no readable .npy ({said}).") from error
        if len(self._header.shape) != 2 or self._header.dtype.kind != "f":
            raise DamnatioError(
                f"The gallery {self.path} holds {self._header.dtype} of shape {list(self._header.shape)}, and vectors, "
                "[n, d], are expected."
            )
        self._names = NameFile(self.files()[1]) if len(self.files()) > 1 else None
        if self._names is not None and not self._names.by_id and len(self._names) != self._header.rows:
            raise DamnatioError(
                f"The gallery {self.path} has {self._header.rows} rows, and {self._names.path} names "
                f"{len(self._names)}: they do not belong together."
            )

    def places(self) -> list[Place]:
        return [Place(PLACE, "template")]

    def blocks(self, place: str) -> Iterator[Block]:
        with self.path.open("rb") as file:
            read_header(file)
            for start, count in spans(self._header.rows, BLOCK):
                vectors = self._rows(file, count)
                names = self._names.names(range(start, start + count)) if self._names else [""] * count
                yield Block(content_ids(names, (vector.tobytes() for vector in vectors)), names, vectors)

    def _rows(self, file: BinaryIO, count: int) -> NDArray[Any]:
        try:
            return read_rows(file, self._header, count)
        except ValueError as error:
            raise DamnatioError(f"The gallery {self.path} is damaged: {error}.") from error

    @property
    def versions(self) -> dict[str, str]:
        return {"numpy": np.__version__}

    def delete(self, keys: Sequence[Key]) -> int:
        self.need_write()
        gone = {key.id for key in keys}
        lost = [id in gone for block in self.blocks(PLACE) for id in block.ids]
        places = {place for place, one in enumerate(lost) if one}
        if places:
            keep = ~np.array(lost)
            changed: dict[Path, Write] = {self.path: lambda file: self._copy(file, keep)}
            if self._names is not None:
                names = self._names.without(places, moved=True)
                changed[self._names.path] = lambda file: file.write(names)
            self.replace(changed)
            self._reread()
        return len(places)

    def add(self, name: str, vectors: Vectors) -> list[Key]:
        self.need_write()
        more = np.asarray(vectors, dtype=self._header.dtype)
        first = self._header.rows
        everybody = np.ones(first, bool)
        changed: dict[Path, Write] = {self.path: lambda file: self._copy(file, everybody, more)}
        if self._names is not None:
            names = self._names.with_more(range(first, first + len(more)), name)
            changed[self._names.path] = lambda file: file.write(names)
        self.replace(changed)
        self._reread()
        kept = [name if self._names is not None else ""] * len(more)
        return [Key(PLACE, id) for id in content_ids(kept, (row.tobytes() for row in more))]

    def _copy(self, target: BinaryIO, keep: NDArray[np.bool_], more: NDArray[Any] | None = None) -> None:
        with self.path.open("rb") as source:
            read_header(source)
            write_header(target, self._header, int(np.count_nonzero(keep)) + (0 if more is None else len(more)))
            for start, count in spans(self._header.rows, BLOCK):
                target.write(self._rows(source, count)[keep[start : start + count]].tobytes())
        if more is not None:
            target.write(np.ascontiguousarray(more).tobytes())
