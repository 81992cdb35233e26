"""The scan of files for a person's vectors, beside ripgrep with one fixed needle, on one core.

usage: python benchmarks/scanning.py [--megabytes N] [--vectors V] [--kinds K ...]

The scan looks for 64 fragments of each of the person's vectors, in every spelling, and for people who stay. ripgrep
looks for the 32 bytes of one fragment. Both take processor time only, so that a neighbour on the machine does not
count; the files are in the page cache. A container counts with its bytes and with what is in it, since the scan looks
at both. The target is 10 s for a gigabyte.
"""

import argparse
import io
import json
import os
import pickle
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import history
from damnatio.galleries.items import FileClass
from damnatio.galleries.scanning.needles import Needles
from damnatio.galleries.scanning.scan import scan_class

DIM, ROWS = 512, 1000
TARGET = 10.0
"""seconds of a core for a gigabyte"""
Vectors = NDArray[np.float32]
PACKED = "compressed .npz"


def drawn(count: int, seed: int) -> Vectors:
    vectors = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def packed(vectors: Vectors) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, embeddings=vectors)
    return file.getvalue()


KINDS: dict[str, Callable[[Vectors], bytes]] = {
    "random bytes": lambda v: np.random.default_rng(0).bytes(v.nbytes),
    "float32 rows": lambda v: v.tobytes(),
    "float64 rows": lambda v: v.astype(np.float64).tobytes(),
    "float16 rows": lambda v: v.astype(np.float16).tobytes(),
    "pickled lists": lambda v: pickle.dumps(v.tolist()),
    "JSON": lambda v: json.dumps(v.tolist()).encode(),
    PACKED: packed,
}


def pieces(kind: str, length: int) -> Iterator[tuple[bytes, int]]:
    """Rows of many people, some of them the control's, until the file is long enough; and the bytes to look at."""
    looked, seed = 0, 100
    while looked < length:
        vectors = np.concatenate([drawn(ROWS, seed), drawn(8, 2)])
        content = KINDS[kind](vectors)
        each = len(content) + (vectors.nbytes if kind == PACKED else 0)
        yield content, each
        looked, seed = looked + each, seed + 1


def processor_time(of: int) -> float:
    used = resource.getrusage(of)
    return used.ru_utime + used.ru_stime


def by_ripgrep(path: Path, fragment: bytes) -> float:
    """The processor time of a search for one fragment."""
    pattern = "(?-u)" + "".join(f"\\x{byte:02x}" for byte in fragment)
    before = processor_time(resource.RUSAGE_CHILDREN)
    subprocess.run(["rg", "--text", "--count", "--threads", "1", "--no-mmap", pattern, str(path)], check=False)
    return processor_time(resource.RUSAGE_CHILDREN) - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--vectors", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    o = parser.parse_args()
    person, control, ratios = drawn(o.vectors, 1), drawn(8, 2), dict[str, float]()
    print(f"{'':<16} {'s a GB':>8} {'ripgrep':>8} {'control':>9}")
    for kind in o.kinds:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "data"
            gigabytes = 0.0
            with path.open("wb") as file:
                for content, looked in pieces(kind, o.megabytes * 10**6):
                    file.write(content)
                    gigabytes += looked / 1e9
            size = os.path.getsize(path) / 1e9
            other = by_ripgrep(path, person[0, :8].tobytes()) / size if shutil.which("rg") else float("nan")
            started = time.process_time()
            scan = scan_class(FileClass("data", [path]), Needles(list(person)), Needles(list(control)))
            taken = (time.process_time() - started) / gigabytes
        print(f"{kind:<16} {taken:>8.2f} {other:>8.2f} {scan.control_found:>4}/{scan.control_fragments}", flush=True)
        ratios[f"{kind}, s/GB"] = taken
        if other == other:
            ratios[f"{kind}, ripgrep s/GB"] = other
    worst = max(value for name, value in ratios.items() if "ripgrep" not in name)
    print(f"\na gigabyte takes at most {worst:.1f} s of a core (target: {TARGET:.0f} s)")
    history.append("scanning", ratios, megabytes=o.megabytes, vectors=o.vectors, dim=DIM)


if __name__ == "__main__":
    main()
