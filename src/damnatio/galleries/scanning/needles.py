"""What a scan looks for: the vectors of a person, the codes of a store for them, and the bytes of photographs."""

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from damnatio.galleries.items import Vectors
from damnatio.support.errors import DamnatioError
from damnatio.support.files import atomic_file, private


@dataclass(frozen=True)
class Needles:
    """Personal data: kept in memory, or in the working folder of a purge until its scan is done."""

    vectors: Sequence[Vectors] = ()
    """[d] each, as they are stored"""
    codes: Sequence[bytes] = ()
    contents: Sequence[bytes] = ()
    """pieces of photographs and thumbnails"""
    shared: frozenset[bytes] = frozenset()
    """fragments that rows which stay had too when these were taken: they are nobody's residue, then and later"""

    @property
    def empty(self) -> bool:
        return not (self.vectors or self.contents or self.codes)

    def write(self, path: Path) -> None:
        """Keep them in a file that only its owner can read. Remove it as soon as the scan is done."""
        arrays = {f"vector-{place}": vector for place, vector in enumerate(self.vectors)}
        for kind, pieces in (("code", self.codes), ("content", self.contents)):
            arrays |= {f"{kind}-{place}": np.frombuffer(piece, np.uint8) for place, piece in enumerate(pieces)}
        arrays["shared-0"] = np.frombuffer(b"\n".join(piece.hex().encode() for piece in sorted(self.shared)), np.uint8)
        with private(), atomic_file(path) as temporary:
            content = io.BytesIO()
            np.savez(content, **arrays)  # type: ignore[arg-type]
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(content.getvalue())

    @staticmethod
    def read(path: Path) -> "Needles":
        try:
            with np.load(path, allow_pickle=False) as file:
                kinds: dict[str, list[np.ndarray[tuple[int, ...], np.dtype[np.floating]]]] = {}
                for name in file.files:
                    kinds.setdefault(name.partition("-")[0], []).append(file[name])
        except (OSError, ValueError, EOFError) as error:
            raise DamnatioError(f"{path} holds no vectors to look for ({error}): start the purge anew.") from error
        codes, contents = ([piece.tobytes() for piece in kinds.get(kind, [])] for kind in ("code", "content"))
        shared = b"".join(piece.tobytes() for piece in kinds.get("shared", [])).split()
        return Needles(
            kinds.get("vector", []), codes, contents, frozenset(bytes.fromhex(one.decode()) for one in shared)
        )


PIXELS = {b"\xff\xd8": b"\xff\xda", b"\x89PNG": b"IDAT", b"RIFF": b"VP8"}
"""where the pixels of a JPEG, PNG or WebP begin; what stands before may be the same in everybody's photographs"""
HEADER = 1024
"""bytes at the beginning of other files that are left out"""


def pieces_of(content: bytes, length: int = 32, most: int = 64) -> list[bytes]:
    """Pieces of a photograph's pixels, evenly spread. Those of few different bytes could be anybody's, and are left
    out."""
    mark = next((mark for magic, mark in PIXELS.items() if content.startswith(magic)), None)
    begins = content.find(mark) + 16 if mark is not None and mark in content else min(HEADER, len(content) // 4)
    starts = np.unique(np.linspace(begins, max(len(content) - length, begins), most).astype(int))
    pieces = (content[start : start + length] for start in starts.tolist() if start + length <= len(content))
    return [piece for piece in pieces if len(set(piece)) >= length // 2]
