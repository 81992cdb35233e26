"""Templates in a pickle, as face_recognition's examples and deepface write them. Nothing in the file is run."""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from damnatio.galleries import STORES
from damnatio.galleries.base import BLOCK, content_ids
from damnatio.galleries.files import FileStore
from damnatio.galleries.items import Block, Key, Place, Vectors
from damnatio.galleries.pickle_layouts import Layout, UnknownLayoutError, layout_of
from damnatio.galleries.unpickling import read_pickle
from damnatio.support.errors import DamnatioError
from damnatio.support.unpickling import UnpicklingError

PLACE = "rows"
ENDINGS = (".pkl", ".pickle", ".p", ".dat")
LONGEST = 1 << 32
"""bytes of the longest pickle that is read: it is held in memory"""


@STORES.register("pickle")
class Pickle(FileStore):
    """A pickled list or dict of vectors and names."""

    scheme = "pickle"
    aliases = ("pkl",)
    options: ClassVar[Mapping[str, str]] = {
        "vectors": "the key of the vectors (encodings, embeddings; embedding where each row is a dict)",
        "names": "the key of the names (names; identity where each row is a dict)",
    }

    @classmethod
    def likeness(cls, path: Path, head: bytes) -> int:
        known = head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
        return 2 if known else int(bool(head) and path.suffix.lower() in ENDINGS)

    def open(self, write: bool) -> None:
        super().open(write)
        self._read()

    def places(self) -> list[Place]:
        return [Place(PLACE, "template")]

    def blocks(self, place: str) -> Iterator[Block]:
        """Rows of one length at a time; deepface keeps rows without a vector too."""
        lengths = sorted({len(row.vector) for row in self._layout.rows})
        for length in lengths:
            chosen = [place for place, row in enumerate(self._layout.rows) if len(row.vector) == length]
            for start in range(0, len(chosen), BLOCK):
                places = chosen[start : start + BLOCK]
                rows = [self._layout.rows[place] for place in places]
                yield Block(
                    [self._ids[place] for place in places],
                    [row.name for row in rows],
                    np.stack([row.vector for row in rows]) if length else None,
                    [row.rest for row in rows],
                )

    @property
    def versions(self) -> dict[str, str]:
        return {"pickle protocol": str(self._protocol)}

    def delete(self, keys: Sequence[Key]) -> int:
        self.need_write()
        wanted = {key.id for key in keys}
        gone = {place for place, id in enumerate(self._ids) if id in wanted}
        if gone:
            self._write(self._layout.without(gone))
        return len(gone)

    def add(self, name: str, vectors: Vectors) -> list[Key]:
        self.need_write()
        before = set(self._ids)
        try:
            self._write(self._layout.with_more(name, vectors))
        except UnknownLayoutError as error:
            raise DamnatioError(f"The gallery {self.path} takes no new rows: {error}.") from error
        return [Key(PLACE, id) for id in self._ids if id not in before]

    def _read(self) -> None:
        if self.path.stat().st_size > LONGEST:
            raise DamnatioError(f"The gallery {self.path} is longer than {LONGEST >> 30} GB, the most that is read.")
        content = self.path.read_bytes()
        self._protocol = content[1] if content[:1] == b"\x80" else 0
        try:
            found: Any = read_pickle(content)
            self._layout: Layout = layout_of(found, self.address.option("vectors"), self.address.option("names"))
        except UnpicklingError as error:
            raise DamnatioError(f"The gallery {self.path} is not read: {error}.") from error
        except UnknownLayoutError as error:
            raise DamnatioError(
                f"The gallery {self.path} has an unknown layout: {error}. Name its keys with ?vectors=...&names=..."
            ) from error
        rows = self._layout.rows
        self._ids = content_ids([row.name for row in rows], (row.vector.tobytes() + row.rest for row in rows))

    def _write(self, content: Any) -> None:
        packed = pickle.dumps(content, protocol=self._protocol)
        self.replace({self.path: lambda file: file.write(packed)})
        self._read()
