"""A safetensors file of tensors some of which are spread over the processes of a job: each process has some rows.

The main process writes the file, and the rows of the others reach it block by block: no process holds more than before.
The file is the same whatever the number of processes. It may carry a hash of its whole content, since the format has
none.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import torch
from safetensors import safe_open
from torch import Tensor, distributed

from damnatio.support import processes
from damnatio.support.files import atomic_file

BLOCK = 16 << 20
"""bytes of rows that travel at once"""
HASH, NO_HASH = "sha256", "0" * 64
"""the entry of the metadata that holds the hash, and what stands there while the hash is computed"""
_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


@dataclass(frozen=True)
class Rows:
    """A tensor, or the rows of it that this process has. `count` is the number of all rows; None: they are all here."""

    mine: Tensor
    count: int | None = None

    @property
    def shape(self) -> list[int]:
        return list(self.mine.shape) if self.count is None else [self.count, *self.mine.shape[1:]]

    @property
    def bytes(self) -> int:
        return torch.Size(self.shape).numel() * self.mine.element_size()


def write(tensors: Mapping[str, Rows], path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write the tensors, atomically; `metadata` may hold `HASH: NO_HASH`. If rows are spread, every process calls this,
    the main process writes, and if it cannot, it is an error in all of them. If none are, only the caller writes."""
    spread = any(rows.count is not None for rows in tensors.values())
    names = sorted(tensors, key=lambda name: (-tensors[name].mine.element_size(), name))  # so that each is aligned
    if spread and not processes.is_main():
        for name in names:
            _send(tensors[name])
        processes.from_main(lambda: None)
        return
    blocks = (block for name in names for block in _blocks(tensors[name]))
    metadata, failure = metadata or {}, None
    try:
        with atomic_file(path) as temporary, temporary.open("w+b") as file:
            digest = _write_head(file, names, tensors, metadata)
            for block in blocks:
                content = block.view(torch.uint8).numpy().data
                digest.update(content)
                file.write(content)
            if HASH in metadata:
                _put_hash(file, digest.hexdigest())
    except OSError as error:
        failure = error
        for _ in blocks:  # the others are still sending
            pass
    if spread:
        processes.from_main(lambda: _raise(failure))
    _raise(failure)


def _raise(failure: OSError | None) -> None:
    if failure:
        raise failure


def _write_head(
    file: IO[bytes], names: list[str], tensors: Mapping[str, Rows], metadata: Mapping[str, str]
) -> "hashlib._Hash":
    entries: dict[str, object] = {"__metadata__": dict(metadata)}
    end = 0
    for name in names:
        rows = tensors[name]
        offsets = [end, end := end + rows.bytes]
        entries[name] = {"dtype": _TYPES[rows.mine.dtype], "shape": rows.shape, "data_offsets": offsets}
    head = json.dumps(entries, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    begin = len(head).to_bytes(8, "little") + head
    file.write(begin)
    return hashlib.sha256(begin)


def _put_hash(file: IO[bytes], found: str) -> None:
    """Replace the placeholder in the head of the file."""
    file.seek(0)
    head = file.read(8 + int.from_bytes(file.read(8), "little"))
    file.seek(8 + head.index(f'"{HASH}":"{NO_HASH}"'.encode()))
    file.write(f'"{HASH}":"{found}"'.encode())


def _blocks(rows: Rows) -> Iterator[Tensor]:
    """All rows in their order, as flat blocks on the processor: first those of the main process, then the others'."""
    yield from _own_blocks(rows)
    if rows.count is not None:
        for rank in range(1, processes.size()):
            share = processes.share_of(rows.count, (rank, processes.size()))
            left = (share.stop - share.start) * rows.mine[0].numel()
            while left:
                block = torch.empty(min(left, _block_length(rows)), dtype=rows.mine.dtype)
                distributed.recv(block, src=rank)
                left -= len(block)
                yield block


def _send(rows: Rows) -> None:
    if rows.count is not None:
        for block in _own_blocks(rows):
            distributed.send(block, dst=0)


def _own_blocks(rows: Rows) -> Iterator[Tensor]:
    for block in torch.split(rows.mine.detach().reshape(-1), _block_length(rows)):
        yield block.cpu().contiguous()


def _block_length(rows: Rows) -> int:
    return BLOCK // rows.mine.element_size()


# --- reading ---------------------------------------------------------------------------------------------------------


def check(path: Path) -> dict[str, str]:
    """The metadata of a file that was written with a hash; ValueError if its content is not what was written."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        head = file.read(length) if length <= path.stat().st_size else b""
        try:
            metadata = dict(json.loads(head)["__metadata__"])
            found = str(metadata.pop(HASH))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError("it has no readable beginning") from None
        digest = hashlib.sha256(length.to_bytes(8, "little") + head.replace(found.encode(), NO_HASH.encode(), 1))
        while piece := file.read(BLOCK):
            digest.update(piece)
    if digest.hexdigest() != found:
        raise ValueError("its content is not what was written")
    return metadata


def shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor of a file."""
    with safe_open(path, framework="pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - not a dict


def read(path: Path, rows: Mapping[str, slice]) -> dict[str, Tensor]:
    """The tensors of a file; of those named, these rows only."""
    with safe_open(path, framework="pt") as file:
        return {
            name: file.get_slice(name)[rows[name]] if name in rows else file.get_tensor(name)
            for name in file.keys()  # noqa: SIM118 - not a dict
        }
