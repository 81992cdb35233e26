"""Reading faces: our sources against pillow on a folder and against webdataset on a shard, in one process on one core.

usage: python benchmarks/faces.py [--images N] [--size S] [--repeats R]

The same JPEGs are put into each container. Every reader gives RGB arrays in the order of a shuffled epoch, except
webdataset, which reads in the order of the shard. The best of the repeats counts. The files are in the page cache, so
the times are of finding and decoding, not of the disk.
"""

import argparse
import io
import os
import struct
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import simplejpeg
from PIL import Image

import history
from damnatio.faces import SOURCES, detect
from damnatio.faces.collecting import CHUNK

PEOPLE = 50


def jpegs(count: int, size: int) -> list[bytes]:
    """Smooth random pictures, with about as many bytes as a face of this size."""
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (count, 14, 14, 3), dtype=np.uint8)
    large = [np.asarray(Image.fromarray(each).resize((size, size), Image.Resampling.BICUBIC)) for each in small]
    return [simplejpeg.encode_jpeg(np.ascontiguousarray(each), quality=95) for each in large]


def fill(root: Path, images: list[bytes]) -> None:
    """Write the same images as a folder, a manifest of it, a .rec with its .idx, and a shard."""
    lines, index, place = ["path,identity"], [], 0
    with (root / "train.rec").open("wb") as rec, tarfile.open(root / "shard.tar", "w") as shard:
        for number, image in enumerate(images):
            person = number % PEOPLE
            file = root / f"folder/{person:03d}/{number:06d}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(image)
            lines.append(f"folder/{person:03d}/{number:06d}.jpg,{person}")
            payload = struct.pack("<IfQQ", 0, person, number, 0) + image
            frame = struct.pack("<II", 0xCED7230A, len(payload)) + payload + b"\0" * (-len(payload) % 4)
            index.append(f"{number}\t{place}\n")
            place += rec.write(frame)
            for ending, content in (("jpg", image), ("cls", str(person).encode())):
                member = tarfile.TarInfo(f"{number:06d}.{ending}")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))
    (root / "train.idx").write_text("".join(index))
    (root / "faces.csv").write_text("\n".join(lines) + "\n")


def ours(path: Path, size: int) -> Callable[[], Iterator[object]]:
    settings = detect(path, size=size)
    source = SOURCES.get(settings.source)(settings)
    index = source.index()
    order = np.random.default_rng(1).permutation(len(index))

    def read() -> Iterator[object]:
        for start in range(0, len(order), CHUNK):
            yield from source.read(index.where(order[start : start + CHUNK]))

    return read


def image_folder(root: Path) -> Callable[[], Iterator[object]]:
    """Reads like torchvision's ImageFolder: pillow opens and converts each file of a list."""
    files = sorted(root.glob("*/*.jpg"))
    order = np.random.default_rng(1).permutation(len(files))

    def read() -> Iterator[object]:
        for place in order:
            with files[place].open("rb") as file:
                yield np.asarray(Image.open(file).convert("RGB"))

    return read


def web_dataset(shard: Path) -> Callable[[], Iterator[object]]:
    import webdataset

    def read() -> Iterator[object]:
        for image, _ in webdataset.WebDataset(str(shard), shardshuffle=False).decode("rgb8").to_tuple("jpg", "cls"):
            yield image

    return read


def rate(read: Callable[[], Iterator[object]], count: int, repeats: int) -> float:
    best = 0.0
    for _ in range(repeats):
        started = time.process_time()
        seen = sum(isinstance(image, np.ndarray) for image in read())
        best = max(best, count / (time.process_time() - started))
        assert seen == count, f"{seen} of {count} images were read"
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=5_000)
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--repeats", type=int, default=3)
    o = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        images = jpegs(o.images, o.size)
        fill(root, images)
        mean = sum(map(len, images)) / len(images)
        print(f"{o.images:,} JPEGs of {o.size}x{o.size}, {mean / 1e3:.1f} kB each; images/s of one core's time\n")
        readers = {
            "pillow, ImageFolder style": image_folder(root / "folder"),
            "webdataset, in order": web_dataset(root / "shard.tar"),
            "ours, folder": ours(root / "folder", o.size),
            "ours, manifest": ours(root / "faces.csv", o.size),
            "ours, train.rec": ours(root / "train.rec", o.size),
            "ours, tar shard": ours(root / "shard.tar", o.size),
        }
        rates = {name: rate(read, o.images, o.repeats) for name, read in readers.items()}
        pillow, web = list(rates.values())[:2]
        print(f"{'reader':<28} {'images/s':>9} {'to pillow':>10} {'to webdataset':>14}")
        for name, speed in rates.items():
            print(f"{name:<28} {speed:>9,.0f} {speed / pillow:>9.2f}x {speed / web:>13.2f}x")
    to_pillow = {f"{name} to pillow": speed / pillow for name, speed in rates.items()}
    to_web = {f"{name} to webdataset": speed / web for name, speed in rates.items()}
    history.append("faces", to_pillow | to_web, images=o.images, size=o.size)


if __name__ == "__main__":
    main()
