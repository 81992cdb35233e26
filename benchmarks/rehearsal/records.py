"""Writes a `train.rec` and its `train.idx` in InsightFace's layout, of tiny images that repeat.

usage: python benchmarks/rehearsal/records.py train.rec --identities N --images M

Identities have numbers of images as on the web: geometric, so most have few and some many. An identity's images are
different pictures of noise out of a few hundred, and now and then the one before once more: a burst.
"""

import argparse
import io
import struct
from pathlib import Path

import numpy as np
from PIL import Image

MAGIC = (0xCED7230A).to_bytes(4, "little")
HEAD, ENTRY = struct.Struct("<4sI"), struct.Struct("<IfQQ")
PICTURES = 509
"""different pictures; no identity has more images"""
BURST = 0.03
"""share of images that repeat the one before"""
FLUSH = 1 << 24


def picture(rng: np.random.Generator, side: int) -> bytes:
    """A few patches of colour as a JPEG of some 330 bytes."""
    patches = Image.fromarray(rng.integers(0, 256, (4, 4, 3), np.uint8))
    file = io.BytesIO()
    patches.resize((side, side), Image.Resampling.BICUBIC).save(file, "JPEG", quality=30, optimize=True)
    return file.getvalue()


def record(labels: bytes, number: int, body: bytes) -> bytes:
    """A frame: magic, length, header and body, filled to four bytes. `labels` are the flag and the first label."""
    length = ENTRY.size + len(body)
    padding = b"\0" * (-length % 4)
    return HEAD.pack(MAGIC, length) + labels + struct.pack("<QQ", number, 0) + body + padding


def write(path: Path, identities: int, images: int, side: int, seed: int = 0) -> int:
    """Write the two files; the number of images."""
    rng = np.random.default_rng(seed)
    pictures: list[bytes] = []
    while len(pictures) < PICTURES:
        drawn = picture(rng, side)
        if MAGIC not in drawn:  # a payload that holds it would have to be cut
            pictures.append(drawn)
    counts = np.minimum(rng.geometric(identities / images, identities), PICTURES)
    total = int(counts.sum())
    first = rng.integers(0, PICTURES, identities)
    again = rng.random(total) < BURST
    place, offset = 0, 0
    with path.open("wb") as file, path.with_suffix(".idx").open("w") as index:
        block, lines = bytearray(), []

        def add(number: int, labels: bytes, body: bytes) -> None:
            lines.append(f"{number}\t{offset + len(block)}\n")
            block.extend(record(labels, number, body))

        ranges = struct.pack("<If", 2, 0.0)
        add(0, ranges, struct.pack("<ff", total + 1, total + 1 + identities))
        for identity, count in enumerate(counts.tolist()):
            labels, shown = struct.pack("<If", 0, identity), int(first[identity])
            for step in range(count):
                shown += 1 if step and not again[place] else 0
                place += 1
                add(place, labels, pictures[shown % PICTURES])
            if len(block) > FLUSH:
                file.write(block)
                index.writelines(lines)
                offset += len(block)
                block.clear()
                lines.clear()
        ends = np.concatenate([[1], 1 + np.cumsum(counts)])
        for identity in range(identities):
            add(total + 1 + identity, ranges, struct.pack("<ff", ends[identity], ends[identity + 1]))
        file.write(block)
        index.writelines(lines)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--identities", type=int, required=True)
    parser.add_argument("--images", type=int, required=True)
    parser.add_argument("--side", type=int, default=16)
    o = parser.parse_args()
    o.path.parent.mkdir(parents=True, exist_ok=True)
    print(f"{write(o.path, o.identities, o.images, o.side):,} images of {o.identities:,} identities")


if __name__ == "__main__":
    main()
