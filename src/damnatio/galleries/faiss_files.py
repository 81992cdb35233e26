"""A faiss index in a file, with its names in a file beside it: `faiss:gallery.index?names=names.json`.

The names are a list by id (by position where the index has no ids), or a dict by id; see `name_files`. faiss reads an
index as a whole: so much memory is needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from damnatio.galleries import STORES
from damnatio.galleries.base import content_ids, need
from damnatio.galleries.faiss_indexes import Ids, Rows, read
from damnatio.galleries.files import FileStore, Write
from damnatio.galleries.items import Block, Hit, Key, Place, Vectors
from damnatio.galleries.name_files import NameFile
from damnatio.galleries.searching import normalised
from damnatio.support.errors import DamnatioError

PLACE = "rows"
MAGICS = (b"IxF", b"IxM", b"IxS", b"IxP", b"Iw", b"IH", b"IvSQ", b"Iv")
ENDINGS = (".index", ".faiss", ".faissindex")
BUFFER = 1 << 20
TRAINED = (
    "The centroids and codebooks of the index were trained with everybody's vectors, the person's among them, and stay "
    "as they are: train the index anew where that matters."
)


@STORES.register("faiss")
class Faiss(FileStore):
    """A file of a faiss index."""

    scheme = "faiss"
    options: ClassVar[Mapping[str, str]] = {"names": "a file beside it with the names, by id or by position"}

    @classmethod
    def likeness(cls, path: Path, head: bytes) -> int:
        return 2 if head.startswith(MAGICS) and path.suffix != ".txt" else 0

    def files(self) -> list[Path]:
        names = self.address.file_option("names")
        return [self.path, *([names.resolve()] if names is not None else [])]

    def open(self, write: bool) -> None:
        super().open(write)
        self._faiss = need("faiss", "faiss")
        self._held = read(self.path, f"The gallery {self.path}")
        self._names = NameFile(self.files()[1]) if len(self.files()) > 1 else None
        self._check_names()

    def close(self) -> None:
        super().close()
        self.__dict__.pop("_held", None)

    def _check_names(self) -> None:
        """The names are by id where the index has ids, unless they are too few for these: then by position."""
        self._by_place = not self._held.has_ids
        if self._names is None or self._names.by_id:
            return
        if self._held.has_ids:
            highest = max((int(rows.ids.max()) for rows in self._held.rows()), default=-1)
            self._by_place = highest >= len(self._names)
        if self._by_place and (self._held.is_ivf or len(self._names) != len(self._held)):
            raise DamnatioError(
                f"The gallery {self.path} has {len(self._held)} rows, and {self._names.path} names {len(self._names)}: "
                "they do not belong together."
            )

    def places(self) -> list[Place]:
        return [Place(PLACE, "template")]

    def blocks(self, place: str) -> Iterator[Block]:
        for rows in self._held.rows():
            names = self._named(rows.places, rows.ids)
            yield Block(self._keys(rows, names), names, rows.vectors)

    def _named(self, places: Ids, ids: Ids) -> list[str]:
        if self._names is None:
            return [""] * len(ids)
        return self._names.names((places if self._by_place and not self._names.by_id else ids).tolist())

    def _keys(self, rows: Rows, names: Sequence[str]) -> list[str]:
        if self._held.has_ids:
            return [str(id) for id in rows.ids.tolist()]
        return content_ids(names, (vector.tobytes() for vector in rows.vectors))

    @property
    def versions(self) -> dict[str, str]:
        return {"faiss": self._faiss.__version__, "index": self._held.kind}

    def delete(self, keys: Sequence[Key]) -> int:
        self.need_write()
        gone, places, ids = {key.id for key in keys}, list[int](), list[int]()
        for rows in self._held.rows():
            for row, key in enumerate(self._keys(rows, self._named(rows.places, rows.ids))):
                if key in gone:
                    places.append(int(rows.places[row]))
                    ids.append(int(rows.ids[row]))
        if places:
            names = self._names
            content = None
            if names is not None:
                by_place = self._by_place and not (names.by_id and self._held.has_ids)
                content = names.without(set(places if by_place else ids), moved=by_place)
            self._held.remove(places, ids)
            self._write(content)
        return len(places)

    def add(self, name: str, vectors: Vectors) -> list[Key]:
        self.need_write()
        first, more = len(self._held), np.ascontiguousarray(vectors, dtype=np.float32)
        ids = self._held.add(more)
        numbers = range(first, first + len(more)) if self._by_place else ids.tolist()
        self._write(self._names.with_more(numbers, name) if self._names is not None else None)
        if self._held.has_ids:
            return [Key(PLACE, str(id)) for id in ids.tolist()]
        stored = [rows for rows in self._held.rows() if rows.places[-1] >= first]
        kept = np.concatenate([rows.vectors[rows.places >= first] for rows in stored])
        return [Key(PLACE, id) for id in content_ids([name if self._names else ""] * len(kept), map(_bytes, kept))]

    def _write(self, names: bytes | None) -> None:
        changed: dict[Path, Write] = {self.path: self._dump}
        if names is not None and self._names is not None:
            changed[self._names.path] = lambda file: file.write(names)
        self.replace(changed)
        self._names = NameFile(self._names.path) if self._names is not None else None

    def _dump(self, file: BinaryIO) -> None:
        plain = self._faiss.PyCallbackIOWriter(file.write)
        buffered = self._faiss.BufferedIOWriter(plain, BUFFER)
        self._faiss.write_index(self._held.index, buffered)
        del buffered  # writes the rest

    def search(self, queries: Vectors, k: int) -> list[list[Hit]]:
        units, results = normalised(queries), []
        for query, found in zip(units, self._held.search(units, k), strict=True):
            names = self._named(found.places, found.ids)
            keys = self._keys(Rows(found.places, found.ids, found.vectors), names)
            scores = normalised(found.vectors) @ query
            hits = [Hit(Key(PLACE, key), float(score)) for key, score in zip(keys, scores, strict=True)]
            results.append(sorted(hits, key=lambda hit: (-hit.score, hit.key)))
        return results

    def codes(self, vectors: Vectors) -> Sequence[bytes]:
        return self._held.codes(vectors)

    def unreached(self) -> list[str]:
        return [*super().unreached(), *([TRAINED] if self._held.trained else [])]


def _bytes(vector: Any) -> bytes:
    return bytes(vector.tobytes())
