"""Galleries that are files: pickles, arrays, databases, faiss indexes, files of names, and what a scan unpacks."""

import gzip
import importlib
import io
import json
import pickle
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from damnatio.galleries.items import FileClass, Sought
from damnatio.galleries.name_files import NameFile
from damnatio.galleries.opening import open_store
from damnatio.galleries.scanning.needles import Needles
from damnatio.galleries.scanning.scan import scan_class
from damnatio.galleries.searching import searches_without
from fuzz.mutations import damaged, edited, mixed
from fuzz.readers.base import Reader
from fuzz.structures import payload

ROWS = np.random.default_rng(0).standard_normal((6, 16)).astype(np.float32)
NAMES = ["Ann", "Bob", "Ann", "Cid", "Bob", "Zoë"]


def _pickles(folder: Path) -> list[bytes]:
    rows = [row.astype(np.float64) for row in ROWS]
    layouts: list[Any] = [
        {"encodings": rows, "names": NAMES},
        [{"identity": f"db/{name}/1.jpg", "embedding": row.tolist()} for name, row in zip(NAMES, rows, strict=True)],
        {"Ann": rows[:2], "Bob": ROWS[2:4]},
        (ROWS, np.array(NAMES)),
    ]
    return [pickle.dumps(layout, protocol) for layout in layouts for protocol in range(6)]


def _archives(folder: Path) -> list[bytes]:
    found = []
    for save in (np.savez, np.savez_compressed):
        for arrays in ({"embeddings": ROWS, "names": np.array(NAMES)}, {"Ann": ROWS[0], "Bob": ROWS[1:]}):
            file = io.BytesIO()
            save(file, **arrays)
            found.append(file.getvalue())
    return found


def _arrays(folder: Path) -> list[bytes]:
    found = []
    for dtype in (np.float32, np.float64, np.float16):
        file = io.BytesIO()
        np.save(file, ROWS.astype(dtype))
        found.append(file.getvalue())
    return found


def _name_lists(folder: Path) -> list[bytes]:
    return [json.dumps(NAMES).encode(), json.dumps({str(place): name for place, name in enumerate(NAMES)}).encode()]


def _databases(folder: Path) -> list[bytes]:
    found = []
    for number, kind in enumerate(("BLOB", "TEXT")):
        path = folder / f"{number}.db"
        with closing(sqlite3.connect(path)) as base, base:
            base.execute(f"CREATE TABLE face (id INTEGER PRIMARY KEY, name TEXT, vector {kind})")
            rows = [row.tobytes() if kind == "BLOB" else json.dumps(row.tolist()) for row in ROWS]
            base.executemany("INSERT INTO face (name, vector) VALUES (?, ?)", list(zip(NAMES, rows, strict=True)))
        found.append(path.read_bytes())
    return found


def _indexes(folder: Path) -> list[bytes]:
    faiss = importlib.import_module("faiss")  # after the campaign has bounded its threads
    found, rows = [], np.repeat(ROWS, 8, axis=0)  # as many as a codebook needs
    for kind in (
        "Flat",
        "IDMap,Flat",
        "IVF2,Flat",
        "IVF2,SQfp16",
        "HNSW4,Flat",
        "SQfp16",
        "PQ4x3",
        "IVF2,PQ4x3",
        "IDMap,IVF2,Flat",
    ):
        index = faiss.index_factory(rows.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
        index.train(rows)
        index.add_with_ids(rows, np.arange(len(rows))) if kind.startswith("IDMap") else index.add(rows)
        found.append(faiss.serialize_index(index).tobytes())
    return found


def _packed(folder: Path) -> list[bytes]:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", ROWS.tobytes())
        archive.writestr("b", json.dumps(ROWS.tolist()))
    plain = [file.getvalue(), json.dumps(ROWS.tolist()).encode(), gzip.compress(file.getvalue())]
    return plain + [pa.compress(ROWS.tobytes(), codec=codec, asbytes=True) for codec in ("zstd", "lz4")]


def _read_gallery(scheme: str, path: Path, options: str = "") -> None:
    """As a purge reads it: found, hashed, rehearsed, searched, a row deleted, and what follows."""
    with open_store(f"{scheme}:{path}{options}", write=True) as store:
        keys = [item.key for item in store.find(Sought(names=["Ann"], templates=ROWS[:1], threshold=0.5)).items]
        store.census()
        store.rehearse(keys)
        searches_without(store, ROWS[3:], keys)
        store.delete(keys)
        for step in store.steps():
            step.run()


def _scan(path: Path) -> None:
    scan_class(FileClass("file", [path]), Needles(list(ROWS[:3])), Needles(list(ROWS[3:])))


READERS = [
    Reader(
        "gallery-pickle", ".pkl", _pickles, lambda path: _read_gallery("pickle", path), mixed(damaged, damaged, payload)
    ),
    Reader("gallery-npz", ".npz", _archives, lambda path: _read_gallery("npz", path), damaged),
    Reader("gallery-npy", ".npy", _arrays, lambda path: _read_gallery("npy", path), damaged),
    Reader(
        "gallery-sqlite",
        ".db",
        _databases,
        lambda path: _read_gallery("sqlite", path, "?table=face&vector=vector&name=name"),
        damaged,
    ),
    Reader("gallery-faiss", ".index", _indexes, lambda path: _read_gallery("faiss", path), damaged),
    Reader("gallery-names", ".json", _name_lists, NameFile, edited),
    Reader("scan", ".data", _packed, _scan, damaged),
]
