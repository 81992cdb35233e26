"""Compressed containers inside files: members of a zip (so an .npz), gzip, zstd and lz4 frames.

They are found by their first bytes wherever they stand, not by a directory: so members that a directory no longer names
are unpacked too, and so are pieces of pages whose rest is gone, as far as they go.
"""

import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator

ZIP, GZIP, ZSTD, LZ4 = b"PK\x03\x04", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"
MAGICS = (ZIP, GZIP, ZSTD, LZ4)
OUT, STEP = 1 << 22, 1 << 16
"""bytes that are unpacked at once, and that are given to an unpacker at once: what follows a container is copied"""
FRAME = 1 << 26
"""compressed bytes of a zstd or lz4 frame that are held at once"""
MOST = 1 << 36
"""bytes that are unpacked of one container: more is no gallery but a trap"""
ZIP_HEADER, DEFLATED = 30, 8


class Unpacker(ABC):
    """Takes the bytes of a container as they come, and gives what is in it."""

    done = False
    cut = False
    """whether some of it was not unpacked, since it is too long"""

    @abstractmethod
    def feed(self, content: bytes) -> Iterator[bytes]:
        """The next bytes."""

    def end(self) -> Iterator[bytes]:
        """No more bytes will come."""
        yield from ()


def unpacker(magic: bytes) -> Unpacker:
    if magic in (ZIP, GZIP):
        return Deflated(magic)
    return Framed("zstd" if magic == ZSTD else "lz4")


class Deflated(Unpacker):
    """A member of a zip, from its own header on, or a gzip. A stored member needs no unpacking."""

    def __init__(self, magic: bytes) -> None:
        self._zip, self._head, self._given = magic == ZIP, b"", 0
        self._inner = None if self._zip else zlib.decompressobj(wbits=31)

    def feed(self, content: bytes) -> Iterator[bytes]:
        if self._inner is None:
            self._head += content
            begins = _begins(self._head)
            if begins is None:
                return
            if begins < 0:
                self.done = True
                return
            content, self._head = self._head[begins:], b""
            self._inner = zlib.decompressobj(wbits=-15)
        view = memoryview(content)
        for start in range(0, len(view), STEP):
            if not self.done:
                yield from self._inflated(self._inner, view[start : start + STEP])

    def _inflated(self, inner: "zlib._Decompress", content: memoryview | bytes) -> Iterator[bytes]:
        while content and not self.done:
            try:
                out = inner.decompress(content, OUT)
            except zlib.error:
                self.done = True
                return
            content = inner.unconsumed_tail
            self._given += len(out)
            self.cut = self._given > MOST
            self.done = inner.eof or self.cut
            if out:
                yield out


def _begins(head: bytes) -> int | None:
    """Where the compressed data of a zip member begin; -1: it is not compressed; None: the header is not whole yet."""
    if len(head) < ZIP_HEADER:
        return None
    method, name, extra = struct.unpack("<8xH16xHH", head[:ZIP_HEADER])
    if method != DEFLATED:
        return -1
    begins = ZIP_HEADER + int(name) + int(extra)
    return begins if len(head) >= begins else None


class Framed(Unpacker):
    """A zstd or lz4 frame, which is held until it is whole. Its blocks say where it ends."""

    def __init__(self, codec: str) -> None:
        self._codec, self._held = codec, bytearray()

    def feed(self, content: bytes) -> Iterator[bytes]:
        self._held += content
        try:
            end = zstd_end(self._held) if self._codec == "zstd" else lz4_end(self._held)
        except ValueError:
            self.done = True
            return
        if end is not None:
            yield from self._unpacked(bytes(self._held[:end]))
        elif len(self._held) > FRAME:
            self.cut = True
            yield from self.end()

    def end(self) -> Iterator[bytes]:
        yield from self._unpacked(bytes(self._held))

    def _unpacked(self, frame: bytes) -> Iterator[bytes]:
        import pyarrow as pa

        self.done, self._held, given = True, bytearray(), 0
        try:
            with pa.CompressedInputStream(pa.BufferReader(frame), self._codec) as stream:
                while out := stream.read(STEP):
                    yield out
                    given += len(out)
                    if given > MOST:
                        self.cut = True
                        return
        except (OSError, pa.ArrowException):  # a frame whose rest is gone
            return


def zstd_end(held: bytes | bytearray) -> int | None:
    """The length of a zstd frame (RFC 8878); None: it is not whole yet. A ValueError says that it is none."""
    if len(held) < 5:
        return None
    descriptor = held[4]
    if descriptor & 0b1000:
        raise ValueError("a reserved bit is set")
    single = bool(descriptor & 0b100000)
    size = (int(single), 2, 4, 8)[descriptor >> 6]
    at = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3] + size
    while at + 3 <= len(held):
        block = int.from_bytes(held[at : at + 3], "little")
        kind = block >> 1 & 3
        if kind == 3:
            raise ValueError("a block of a reserved kind")
        at += 3 + (1 if kind == 1 else block >> 3)
        if block & 1:
            at += 4 * bool(descriptor & 0b100)
            return at if at <= len(held) else None
    return None


def lz4_end(held: bytes | bytearray) -> int | None:
    """The length of an lz4 frame; None: it is not whole yet. A ValueError says that it is none."""
    if len(held) < 7:
        return None
    flags = held[4]
    if flags >> 6 != 1 or held[5] & 0x8F:
        raise ValueError("another version, or a reserved bit is set")
    at = 7 + 8 * bool(flags & 0b1000) + 4 * (flags & 1)
    while at + 4 <= len(held):
        size = int.from_bytes(held[at : at + 4], "little")
        at += 4
        if not size:
            at += 4 * bool(flags & 0b100)
            return at if at <= len(held) else None
        at += (size & 0x7FFFFFFF) + 4 * bool(flags & 0b10000)
    return None
