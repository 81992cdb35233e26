"""Vectors as many programs write them, and a naive search for them."""

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

DIM = 64
Vectors = NDArray[np.float32]


def people(count: int, seed: int = 0, dim: int = DIM) -> Vectors:
    vectors = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def tagged(tag: int, form: str) -> Callable[[Vectors], bytes]:
    return lambda vectors: b"".join(bytes([tag]) + struct.pack(form, value) for value in vectors.ravel().tolist())


def npz(vectors: Vectors) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, embeddings=vectors)
    return file.getvalue()


SPELT: dict[str, Callable[[Vectors], bytes]] = {
    "float32": lambda v: v.astype("<f4").tobytes(),
    "float32, big-endian": lambda v: v.astype(">f4").tobytes(),
    "float64": lambda v: v.astype("<f8").tobytes(),
    "float64, big-endian": lambda v: v.astype(">f8").tobytes(),
    "float16": lambda v: v.astype("<f2").tobytes(),
    "float16, big-endian": lambda v: v.astype(">f2").tobytes(),
    "CBOR float32": tagged(0xFA, ">f"),
    "CBOR float64": tagged(0xFB, ">d"),
    "msgpack float32": tagged(0xCA, ">f"),
    "msgpack float64": tagged(0xCB, ">d"),
    "pickled list": lambda v: pickle.dumps(v.tolist()),
    "pickled array": pickle.dumps,
    "pickle of protocol 0": lambda v: pickle.dumps(v.tolist(), protocol=0),
    "json": lambda v: json.dumps(v.tolist()).encode(),
    "json, indented": lambda v: json.dumps({"rows": v.tolist()}, indent=1).encode(),
    "csv of float32": lambda v: "\n".join(",".join(map(str, row)) for row in v).encode(),
    "scientific": lambda v: " ".join(f"{x:.8e}" for x in v.ravel()).encode(),
    "capital E": lambda v: ";".join(f"{x:.9E}" for x in v.ravel()).encode(),
    "six decimals": lambda v: "\t".join(f"{x:.6f}" for x in v.ravel()).encode(),
    "five decimals": lambda v: " ".join(f"{x:.5f}" for x in v.ravel()).encode(),
    "no leading zero": lambda v: ", ".join(f"{x:.9f}".replace("0.", ".", 1) for x in v.ravel()).encode(),
    "normalised again": lambda v: (v * np.float32(1 + 3e-6)).astype("<f4").tobytes(),
    "compressed npz": npz,
}


def zipped(content: bytes, name: str = "inner") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def naive(vectors: Vectors, content: bytes) -> set[tuple[int, int]]:
    """(vector, fragment) whose 32 bytes are in the content, for float32."""
    return {
        (row, start)
        for row in range(len(vectors))
        for start in range(0, vectors.shape[1] - 7, 8)
        if vectors[row, start : start + 8].tobytes() in content
    }
