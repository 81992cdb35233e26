import struct
from pathlib import Path

import pytest

from damnatio.galleries.postgres_values import LONG_HEADER, PAGE, SHORT_HEADER, unpacked

WHOLE = b"abc" * 4
PGLZ = b"\x08abc\x06\x03"
"""three bytes as they are, then (length 3 + 6, 3 bytes back): the fourth mark is set"""
LZ4 = b"\x35abc\x03\x00"
"""three bytes as they are and a length of 4 + 5 in one byte, then 3 bytes back"""
METHODS = [(PGLZ, 0), (LZ4, 1)]
SIZES = [len(WHOLE)]


def head(method: int) -> bytes:
    return struct.pack("<I", len(WHOLE) | method << 30)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "16384"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(("packed", "method"), METHODS)
@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_a_value_in_its_row_is_unpacked(tmp_path: Path, packed: bytes, method: int, shift: int) -> None:
    row = struct.pack("<I", (8 + len(packed)) << 2 | 2) + head(method) + packed
    path = written(tmp_path, b"\x7f" * (100 + shift) + row + b"\x7f" * 100)
    assert list(unpacked(path, SIZES)) == [WHOLE]
    assert list(unpacked(path, [len(WHOLE) + 1])) == []


@pytest.mark.parametrize(("packed", "method"), METHODS)
def test_a_value_in_pieces_is_joined_in_any_order(tmp_path: Path, packed: bytes, method: int) -> None:
    def piece(number: int, content: bytes) -> bytes:
        return struct.pack("<III", 4711, number, (4 + len(content)) << 2) + content

    pieces = [piece(0, head(method) + packed[:4]), piece(1, packed[4:])]
    for order in (pieces, pieces[::-1]):
        assert list(unpacked(written(tmp_path, b"\x7f" * 64 + b"\x7f".join(order) + b"\x7f" * 64), SIZES)) == [WHOLE]
    assert list(unpacked(written(tmp_path, b"\x7f" * 64 + pieces[0] + b"\x7f" * 64), SIZES)) == []  # one is missing


def test_a_long_repetition_has_a_byte_more(tmp_path: Path) -> None:
    whole, packed = b"z" * 101, b"\x02z\x0f\x01" + bytes([100 - 18])
    row = struct.pack("<II", (8 + len(packed)) << 2 | 2, len(whole)) + packed
    assert list(unpacked(written(tmp_path, bytes(8) + row + bytes(8)), [len(whole)])) == [whole]


def test_the_log_is_read_without_the_headers_of_its_pages(tmp_path: Path) -> None:
    first, second = b"A" * (PAGE - LONG_HEADER), b"A" * (PAGE - SHORT_HEADER)
    content = b"h" * LONG_HEADER + first + b"h" * SHORT_HEADER + second
    assert b"".join(unpacked(written(tmp_path, content), [], is_log=True)) == first + second


@pytest.mark.parametrize("damaged", [b"", b"\xff", b"\x08abc\x06", b"\x01\x00\x00", b"\x08abc\x06\x00", b"\xf0" * 4])
def test_damaged_values_are_passed_over(tmp_path: Path, damaged: bytes) -> None:
    for method in (0, 1, 3):
        row = struct.pack("<I", (8 + len(damaged)) << 2 | 2) + head(method) + damaged
        assert list(unpacked(written(tmp_path, bytes(8) + row), SIZES)) == []
