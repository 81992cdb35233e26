"""Damage inside containers, which edits of bytes hardly reach: lengths and sums around it are made to fit again."""

import io
import json
import pickle
import re
import struct
import zipfile
import zlib
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from functools import lru_cache
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.mutations import LARGE, NUMBERS, changed, damaged, length_first

CANARY = "fuzz-canary"
"""a file that no reader may make"""


def summed_png(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A damaged PNG whose chunks have correct sums, so that the decoder accepts them."""
    content = damaged(rng, [seed for seed in seeds if seed.startswith(b"\x89PNG")])
    place, out = 8, content[:8]
    while place + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, place)
        body = content[place + 4 : place + 8 + length]
        out += content[place : place + 4] + body + struct.pack(">I", zlib.crc32(body))
        place += 12 + length
    return out


def long_words(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A tar whose pax header is many records long."""
    words = rng.choice((b"6 a=b\n", b"11 path=xy\n", b"9 size=5\n", b"2 ", b"99999999 ", b"a=b")) * rng.choice(
        (1, 90_000)
    )
    header = bytearray(512)
    header[:1], header[124:136], header[156:157] = b"p", b"%011o\0" % len(words), b"x"
    header[257:263], header[148:156] = b"ustar\0", b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + words + bytes(-len(words) % 512) + rng.choice(seeds)


def summed_tar(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A tar with damaged headers that have correct sums."""
    content = bytearray(rng.choice(seeds))
    for start in range(0, len(content) - 511, 512):
        if content[start + 257 : start + 262] != b"ustar" or rng.random() < 0.5:
            continue
        header = bytearray(damaged(rng, [bytes(content[start : start + 512])])[:512].ljust(512, b"\0"))
        if rng.random() < 0.5:  # only one field: the name, the size, the kind, the prefix
            first, last = rng.choice(((0, 100), (124, 136), (156, 157), (345, 500)))
            header[:first], header[last:] = content[start : start + first], content[start + last : start + 512]
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % (sum(header) % 0o1000000)
        content[start : start + 512] = header
    return bytes(content)


def changed_safetensors(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A safetensors file with another header: types, shapes, places, names, metadata."""
    content = rng.choice(seeds)
    (length,) = struct.unpack_from("<Q", content)
    header: Any = json.loads(content[8 : 8 + length])
    if rng.random() < 0.4:
        _retyped(rng, header[rng.choice([name for name in header if name != "__metadata__"])])
    for _ in range(rng.choice((0, 1, 1, 2))):
        header = changed(rng, header)
    return length_first(json.dumps(header).encode()) + content[8 + length :]


def _retyped(rng: Random, entry: dict[str, Any]) -> None:
    """Another type or shape of the same number of bytes."""
    sizes = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2, "U8": 1, "BOOL": 1}
    sizes |= {"F8_E4M3": 1, "F8_E5M2": 1, "C64": 8}
    start, end = entry["data_offsets"]
    kind = rng.choice(list(sizes))
    count = (end - start) // sizes[kind]
    entry["dtype"] = kind
    entry["shape"] = rng.choice(([count], [1, count], [count, 1], [], [2, count // 2], [0], [count, 0]))
    entry["data_offsets"] = [start, end]


def changed_torch(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """The archive of torch.save with damaged members, or with a program for a pickle."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(rng.choice(seeds))) as old, zipfile.ZipFile(out, "w") as new:
        chosen = rng.choice([name for name in old.namelist() if rng.random() < 0.3 or name.endswith(".pkl")])
        for name in old.namelist():
            body = old.read(name)
            if name == chosen:
                body = payload(rng, [body]) if rng.random() < 0.2 else damaged(rng, [body])
            new.writestr(name, body)
    return out.getvalue()


class _Program:
    """An object that an attacker would pickle."""

    def __init__(self, call: Any, *words: Any) -> None:
        self.call, self.words = call, words

    def __reduce__(self) -> tuple[Any, Any]:
        return self.call, self.words


def payload(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A pickle that would make the canary, whole or in the middle of a valid one."""
    import os
    import subprocess

    program = rng.choice(
        (
            _Program(os.system, f"touch {CANARY}"),
            _Program(exec, f"open({CANARY!r}, 'w')"),
            _Program(open, CANARY, "w"),
            _Program(subprocess.Popen, ["touch", CANARY]),
        )
    )
    bad = pickle.dumps(rng.choice((program, [program], {"state_dict": program})), protocol=rng.randrange(6))
    if rng.random() < 0.5:
        return bad
    good = rng.choice(seeds)
    place = rng.randrange(len(good) + 1)
    return good[:place] + re.sub(rb"^\x80.", b"", bad).removesuffix(b".") + good[place:]


# --- ONNX ------------------------------------------------------------------------------------------------------------

OPERATORS = (
    *(
        "Add",
        "Mul",
        "Div",
        "Conv",
        "Gemm",
        "MatMul",
        "Reshape",
        "Flatten",
        "Transpose",
        "Concat",
        "Slice",
        "Split",
        "Gather",
    ),
    *(
        "Squeeze",
        "Unsqueeze",
        "Expand",
        "Shape",
        "Cast",
        "Clip",
        "PRelu",
        "Softmax",
        "ReduceMean",
        "ReduceL2",
        "MaxPool",
    ),
    *(
        "AveragePool",
        "GlobalAveragePool",
        "BatchNormalization",
        "LayerNormalization",
        "Identity",
        "Constant",
        "Dropout",
    ),
    *("If", "Loop", "Scan", "ConstantOfShape", "Tile", "Range", "Unknown"),
)


def changed_onnx(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A graph in which one or more fields changed: sides, operators, attributes, the names that join the nodes."""
    import onnx

    model = onnx.load_model_from_string(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        graph = model.graph
        node = graph.node[rng.randrange(len(graph.node))] if graph.node else graph.node.add()
        match rng.randrange(11):
            case 0:
                node.op_type = rng.choice(OPERATORS)
            case 7:
                _reshape(rng, model)
            case 1:  # another value, perhaps one that comes later: a cycle
                names = [name for other in graph.node for name in (*other.input, *other.output)] + ["", "nowhere"]
                ends = rng.choice((node.input, node.output))
                if ends:
                    ends[rng.randrange(len(ends))] = rng.choice(names)
            case 2:
                if graph.initializer:
                    del graph.initializer[rng.randrange(len(graph.initializer))]
            case 3:
                shape = graph.input[0].type.tensor_type.shape if graph.input else None
                if shape and shape.dim:
                    shape.dim[rng.randrange(len(shape.dim))].dim_value = rng.choice((*NUMBERS, *LARGE[:4], -1))
            case 4:
                del graph.node[rng.randrange(len(graph.node))]
            case 5:
                graph.node.add().CopyFrom(node)
            case 6:
                for attribute in node.attribute:
                    for place in range(len(attribute.ints)):
                        attribute.ints[place] = rng.choice((0, -1, 1, 2, 1000, 2**31, 2**40, 2**63 - 1))
            case _:
                _change_message(rng, model)
    try:
        return bytes(model.SerializeToString())
    except ValueError:  # not valid text
        return rng.choice(seeds)


def _reshape(rng: Random, model: Any) -> None:
    """Change one whole number of the graph, a shape or a place; it may become huge."""
    constants = [attribute.t for node in model.graph.node for attribute in node.attribute if attribute.HasField("t")]
    whole = [t for t in (*model.graph.initializer, *constants) if t.data_type == 7 and len(t.raw_data) >= 8]
    if whole:
        tensor = rng.choice(whole)
        values = bytearray(tensor.raw_data)
        place = 8 * rng.randrange(len(values) // 8)
        values[place : place + 8] = struct.pack("<q", rng.choice((0, -1, 1, 2, 2**16, 2**28, 2**31, 2**40, 2**63 - 1)))
        tensor.raw_data = bytes(values)


def _change_message(rng: Random, message: Any) -> None:
    """Change some field of some message of a protocol buffer."""
    fields = [(field, value) for field, value in message.ListFields()]
    if not fields:
        return
    field, value = rng.choice(fields)
    repeated = isinstance(value, Sequence) or hasattr(value, "append") or hasattr(value, "add")
    if field.message_type is not None:
        if not repeated:
            _change_message(rng, value)
        elif len(value):
            some = rng.randrange(len(value))
            if rng.random() < 0.8:
                _change_message(rng, value[some])
            elif rng.random() < 0.5:
                del value[some]
            else:
                value.add().CopyFrom(value[some])
        return
    new = _field_value(rng, field, value)
    try:
        if repeated and not isinstance(value, str | bytes):
            if len(value):
                value[rng.randrange(len(value))] = new
        else:
            setattr(message, field.name, new)
    except (ValueError, TypeError):
        message.ClearField(field.name)


def _field_value(rng: Random, field: Any, value: Any) -> Any:
    match field.cpp_type:
        case field.CPPTYPE_STRING if field.type == field.TYPE_BYTES:
            return damaged(rng, [value if isinstance(value, bytes) else b"\0" * 8])
        case field.CPPTYPE_STRING:
            return rng.choice(("", "x", "input", "..", "/etc/passwd", "é" * 50, "\0"))
        case field.CPPTYPE_FLOAT | field.CPPTYPE_DOUBLE:
            return rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
        case field.CPPTYPE_ENUM:
            return rng.randrange(20)
        case _:
            return rng.choice((0, 1, -1, 2, 3, 7, 16, 17, 100, 2**20, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1))


# --- Parquet ---------------------------------------------------------------------------------------------------------


def odd_table(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A valid Parquet file with other columns, types or values than the reader expects."""
    table = pq.read_table(io.BytesIO(rng.choice(seeds)))
    if rng.random() < 0.01:
        return _dense(tuple(table.column_names))
    rows = rng.choice((table.num_rows, table.num_rows, 0, 1))
    table = table.slice(0, rows)
    names, columns = list(table.column_names), [column.combine_chunks() for column in table.columns]
    for _ in range(rng.choice((1, 1, 2, 3))):
        if not names:
            break
        place = rng.randrange(len(names))
        match rng.randrange(8):
            case 0:
                del names[place], columns[place]
            case 1:
                names[place] = rng.choice((*names, "", "x", "\0", "path", "é"))
            case 2:
                columns[place] = pa.nulls(rows, columns[place].type)
            case 3:
                other = rng.randrange(len(names))
                columns[place], columns[other] = columns[other], columns[place]
            case _:
                columns[place] = _odd_column(rng, rows)
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array(c) for c in columns], names=names), out)
    return out.getvalue()


@lru_cache(maxsize=4)
def _dense(names: tuple[str, ...]) -> bytes:
    """Millions of rows in a few bytes: Parquet counts equal values instead of storing each."""
    out = io.BytesIO()
    pq.write_table(pa.table({name: pa.nulls(30_000_000) for name in names}), out)
    return out.getvalue()


def _odd_column(rng: Random, rows: int) -> Any:
    kinds: tuple[tuple[Any, Sequence[Any]], ...] = (
        (pa.string(), ("", "a", "b", "\0", "é" * 100, None, "S1", "F", "train", "1")),
        (pa.int64(), (0, 1, -1, 2**62, None)),
        (pa.uint64(), (0, 2**64 - 1)),
        (pa.int8(), (0, -1)),
        (pa.float64(), (0.0, float("nan"), float("inf"), -1e300, 0.5, None)),
        (pa.float32(), (0.0, 1e30)),
        (pa.bool_(), (True, False, None)),
        (pa.binary(), (b"", b"\xff\xfe", None)),
        (pa.list_(pa.int64()), ([], [1, 2], None)),
        (pa.struct([("a", pa.int64())]), ({"a": 1}, None)),
        (pa.map_(pa.string(), pa.int64()), ([("a", 1)], [])),
        (pa.date32(), (date(2000, 1, 1), None)),
        (pa.timestamp("us"), (0, 2**60, None)),
        (pa.decimal128(10, 2), (Decimal("1.50"), None)),
        (pa.large_string(), ("a", None)),
        (pa.duration("ns"), (0, 5)),
        (pa.null(), (None,)),
    )
    kind, values = rng.choice(kinds)
    column = pa.array([rng.choice(values) for _ in range(rows)], kind)
    return column.dictionary_encode() if kind in (pa.string(), pa.int64()) and rng.random() < 0.3 else column
