"""Arrays in the .npy format as streams of rows, so that a file of any size is read and written in bounded memory."""

import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray


@dataclass(frozen=True)
class Header:
    """The shape and type of an array. A single vector (`flat`) counts as one row."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    flat: bool = False

    @property
    def rows(self) -> int:
        return 1 if self.flat or not self.shape else self.shape[0]

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.shape if self.flat else self.shape[1:]

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * int(np.prod(self.row_shape, dtype=np.int64))


def read_header(file: IO[bytes]) -> Header:
    """The header of an array; the stream then stands at its data. A ValueError says what is refused."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version[0]}.{version[1]} of the .npy format is newer than 2.0")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        shape, fortran, dtype = read(file)
    except tokenize.TokenError as error:
        raise ValueError("its header is damaged") from error
    if dtype.hasobject:
        raise ValueError("pickled objects inside an array are not read")
    if fortran and len(shape) > 1:
        raise ValueError("the array is in Fortran order: write it anew from np.ascontiguousarray")
    return Header(shape, dtype)


def read_rows(file: IO[bytes], header: Header, rows: int) -> NDArray[Any]:
    """The next rows. A ValueError says that the file ends too early."""
    wanted = rows * header.row_bytes
    content = bytearray()
    while len(content) < wanted:
        piece = file.read(wanted - len(content))
        if not piece:
            raise ValueError("the array ends too early")
        content += piece
    return with_characters(np.frombuffer(content, dtype=header.dtype)).reshape((rows, *header.row_shape))


def with_characters(values: NDArray[Any]) -> NDArray[Any]:
    """The values, unless they are text with a number that is no character: Python cannot handle such a text."""
    if values.dtype.kind == "U" and values.dtype.itemsize:
        numbers = np.ascontiguousarray(values).view(np.dtype(np.uint32).newbyteorder(values.dtype.byteorder))
        if (numbers > sys.maxunicode).any():
            raise ValueError("a text in it holds what is no character")
    return values


def spans(rows: int, block: int) -> Iterator[tuple[int, int]]:
    """(first row, number of rows) of consecutive blocks."""
    for start in range(0, rows, block):
        yield start, min(block, rows - start)


def write_header(file: IO[bytes], header: Header, rows: int) -> None:
    """The header of an array like `header`, but for the number of its rows."""
    _write_header(file, header.shape if header.flat else (rows, *header.row_shape), header.dtype)


def _write_header(file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    content = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    npy.write_array_header_2_0(file, content)


def texts(values: NDArray[Any]) -> list[str]:
    """Names from an array of text, bytes or numbers."""
    if values.dtype.kind == "S":
        return [value.decode("utf-8", "surrogateescape") for value in values.tolist()]
    return [str(value) for value in values.tolist()]
