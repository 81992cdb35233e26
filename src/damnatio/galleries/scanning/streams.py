"""Bytes as they come, chunk by chunk: looked at, and unpacked where a container begins."""

from collections.abc import Callable, Iterable

import numpy as np

from damnatio.galleries.scanning.containers import Unpacker, unpacker
from damnatio.galleries.scanning.decimals import Decimals
from damnatio.galleries.scanning.matching import Matcher, Seen

CHUNK = 1 << 20
"""bytes that are looked at together: more do not fit the cache of a core"""
OVERLAP = 1024
"""bytes of the last chunk that are looked at again: a fragment may reach over its end, eight printed numbers too"""
DEEPEST = 3
"""containers inside containers"""
ACTIVE = 64
"""containers of one stream that are unpacked at a time"""
Report = Callable[[Seen, int], None]
"""(what was seen, at which byte the chunk begins; -1 inside a container)"""


class Stream:
    """One file, or the content of one container."""

    def __init__(self, matcher: Matcher, decimals: Decimals, report: Report, depth: int = 0) -> None:
        self._matcher, self._decimals, self._report, self._depth = matcher, decimals, report, depth
        self._kept, self._at = b"", 0
        self._inner: list[tuple[Unpacker, Stream]] = []
        self.skipped = 0
        """containers that were not unpacked to their end, since they lay too deep, were too long or too many"""

    def feed(self, content: bytes) -> None:
        """The next bytes."""
        self._pass_on(content)
        whole = self._kept + content
        chunk, begins = np.frombuffer(whole, np.uint8), self._at - len(self._kept)
        for look in (self._matcher.look, self._decimals.look):
            for seen in look(chunk):
                self._report(seen, begins if self._depth == 0 else -1)
        fresh = len(self._kept)
        for place, magic in self._matcher.magics(chunk):
            if place + len(magic) > fresh:  # the others were seen in the last chunk
                self._begin(magic, whole[place:])
        self._at += len(content)
        self._kept = whole[-OVERLAP:]

    def end(self) -> None:
        """No more bytes will come."""
        for unpacked, stream in self._inner:
            _pour(unpacked.end(), stream)
            unpacked.done = True
        self._close()

    def _begin(self, magic: bytes, content: bytes) -> None:
        if self._depth >= DEEPEST or len(self._inner) >= ACTIVE:
            self.skipped += 1
            return
        inner = unpacker(magic), Stream(self._matcher, self._decimals, self._report, self._depth + 1)
        self._inner.append(inner)
        _pour(inner[0].feed(content), inner[1])
        self._close()

    def _pass_on(self, content: bytes) -> None:
        for unpacked, stream in self._inner:
            _pour(unpacked.feed(content), stream)
        self._close()

    def _close(self) -> None:
        for unpacked, stream in self._inner:
            if unpacked.done:
                stream.end()
                self.skipped += stream.skipped + unpacked.cut
        self._inner = [(unpacked, stream) for unpacked, stream in self._inner if not unpacked.done]


def _pour(pieces: Iterable[bytes], stream: Stream) -> None:
    """Small pieces are joined: looking at each alone would cost more than looking."""
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= 2 * CHUNK:  # so that no small rest is looked at alone
            stream.feed(bytes(held))
            held.clear()
    if held:
        stream.feed(bytes(held))
