"""WebDataset shards: tar files in which the files of one key make one sample, `key.jpg` beside `key.cls`.

The WebDataset library reads shards as streams. This source walks over each shard once and stores the places of its
files. Then it can read any image by its place, so that identities can be sampled and a run resumed.
"""

import glob
import json
import mmap
import os
import re
from array import array
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from damnatio.faces import SOURCES
from damnatio.faces.base import UnreadableError
from damnatio.faces.decoding import ENDINGS, EncodedSettings, EncodedSource, mapped, read_at, state
from damnatio.faces.tarindex import Member, members
from damnatio.support.errors import DamnatioError
from damnatio.support.files import content_key, need_regular
from damnatio.support.progress import progress
from damnatio.support.tables import Table

SAMPLE = re.compile(r"((?:.*/)?[^./]+)\.([^/]+)", re.DOTALL)
"""key and ending of a file: the key is the path up to the first dot of the file's name"""
IMAGES = {ending.removeprefix(".") for ending in ENDINGS}
LABELS = ("cls", "json", "txt")
JSON_KEYS = ("identity", "label", "class")
MAX_LABEL = 65_536
UNLABELLED = "an image without a label"


@SOURCES.register("webdataset")
class WebDataset(EncodedSource):
    """Tar shards of WebDataset: the image and the label of a key are files side by side."""

    class Settings(EncodedSettings):
        source: Literal["webdataset"]
        path: Path

    @cached_property
    def _shards(self) -> list[str]:
        """One shard, the shards of a folder, or the shards that a pattern such as `data/train-*.tar` matches."""
        path = os.path.expanduser(self.settings.path)
        if os.path.exists(path) and not os.path.isdir(path):
            need_regular(path)
            return [path]
        shards = sorted(glob.glob(f"{glob.escape(path)}/*.tar" if os.path.isdir(path) else path))
        if not shards:
            raise DamnatioError(f"There is no shard at {path}: name a .tar, a folder of them, or a pattern.")
        return shards

    def fingerprint(self) -> Any:
        return content_key([(shard, *state(shard)) for shard in self._shards])

    def index(self) -> Table:
        names: list[str] = []
        identities: list[str] = []
        shards, offsets, lengths = array("i"), array("q"), array("q")
        known: dict[str, str] = {}
        above = os.path.commonpath([os.path.dirname(os.path.abspath(shard)) for shard in self._shards])
        with progress("index", len(self._shards), "shards") as advance:
            for number, shard in enumerate(self._shards):
                title = os.fsencode(os.path.relpath(shard, above)).decode(errors="replace").removesuffix(".tar")
                for name, identity, image in self._samples(shard, title):
                    names.append(name)
                    identities.append(known.setdefault(identity, identity))  # one string per identity, not one per row
                    shards.append(number)
                    offsets.append(image.offset)
                    lengths.append(image.length)
                advance(1)
        if not names and all(reason == UNLABELLED for _, _, reason in self.skipped):
            what = "images without labels" if self.skipped else "no images"
            raise DamnatioError(
                f"The shards at {self.settings.path} hold {what}: <key>.jpg is expected beside <key>.cls, .json or "
                ".txt. Unpack a tar of folders of identities, and name the folder."
            )
        columns = {"image": names, "identity": identities}
        places = {"shard": np.array(shards), "offset": np.array(offsets), "length": np.array(lengths)}
        return Table({**columns, **places}).sorted_by("identity", "image")

    def content(self, row: Mapping[str, Any]) -> bytes:
        content = read_at(self._shards[row["shard"]], row["offset"], row["length"])
        if len(content) < row["length"]:
            raise UnreadableError("the shard ends inside the image")
        return content

    def _samples(self, shard: str, title: str) -> list[tuple[str, str, Member]]:
        """(name, identity, image) of each whole sample; the others are skipped."""
        images: dict[str, Member] = {}
        labels: dict[str, dict[str, Member]] = {}
        data: bytes | mmap.mmap = b""
        try:
            data = mapped(shard)
            if data[:2] == b"\x1f\x8b":
                raise UnreadableError("packed by gzip: unpack it, its images cannot be read one by one")
            for member in members(data):
                match = SAMPLE.fullmatch(member.name)
                if not match:
                    continue
                key, ending = match[1], match[2].lower()
                if ending in IMAGES:
                    if key in images:
                        self.skip(f"{title}/{member.name}", "a second image of its key")
                    images.setdefault(key, member)
                elif ending in LABELS:
                    labels.setdefault(key, {})[ending] = member
        except UnreadableError as error:
            self.skip(title, str(error))
        samples = []
        for key, image in images.items():
            name = f"{title}/{image.name}"
            try:
                samples.append((name, _identity(data, labels.pop(key, {})), image))
            except UnreadableError as error:
                self.skip(name, str(error))
        for key in labels:
            self.skip(f"{title}/{key}", "a label without an image")
        return samples


def _identity(data: bytes | mmap.mmap, labels: Mapping[str, Member]) -> str:
    for ending in LABELS:
        if ending in labels:
            _, offset, length = labels[ending]
            if length > MAX_LABEL:
                raise UnreadableError("a label longer than any name")
            try:
                text = data[offset : offset + length].decode()
                identity = _named(json.loads(text)) if ending == "json" else text.strip()
                identity.encode()  # JSON can spell characters that UTF-8 cannot
            except (ValueError, RecursionError):
                raise UnreadableError(f"a .{ending} that is not UTF-8 text" + " of JSON" * (ending == "json")) from None
            if identity:
                return identity
    raise UnreadableError("no identity beside it" if labels else UNLABELLED)


def _named(content: Any) -> str:
    """The identity in a JSON object: text or a whole number."""
    for key in JSON_KEYS:
        value = content.get(key) if isinstance(content, dict) else None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, str | int) and not isinstance(value, bool):
            return str(value).strip()
    return ""
