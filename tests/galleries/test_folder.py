"""Folders of photographs: names, thumbnails, sidecars and caches; links, kills and look-alikes."""

import json
import os
import pickle
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from PIL import Image

from damnatio.galleries import files, folder
from damnatio.galleries.folder import LIST
from damnatio.galleries.items import GROUP, Key, Sought, Units
from damnatio.galleries.opening import open_store
from damnatio.galleries.scanning.scan import needles_of, scan_store
from damnatio.support.errors import DamnatioError
from tests.galleries.scanning.spelt import people


def picture(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Ann by folder and by file, Bob, their thumbnails and sidecars, and deepface's cache of embeddings."""
    root = tmp_path / "photos"
    for seed, path in enumerate(
        [
            "Ann/1.jpg",
            "Ann/2.png",
            "Bob/1.jpg",
            "Bob/2.jpg",
            "Ann_3.jpg",
            "Bob-3.jpg",
            "Ann/thumbs/1.jpg",
            "Bob/1_thumb.jpg",
            ".thumbnails/Ann_3.jpg.png",
        ]
    ):
        picture(root / path, seed)
    (root / "Ann/2.json").write_text(json.dumps({"box": [1, 2]}))
    (root / "Bob/2.jpg.xmp").write_text("<x/>")
    embeddings = people(4)
    paths = ["Ann/1.jpg", "Ann/2.png", "Bob/1.jpg", "Bob/2.jpg"]
    rows = [
        {"identity": str(root / path), "hash": f"{place:040x}", "embedding": embeddings[place].tolist(), "target_x": 1}
        for place, path in enumerate(paths)
    ]
    (root / "ds_model_arcface_detector_opencv_aligned_normalization_base_expand_0.pkl").write_bytes(pickle.dumps(rows))
    return root


def ids(items: list[Key]) -> set[str]:
    return {key.id for key in items if not key.place.startswith("cache")}


def test_a_person_is_found_with_all_that_belongs_to_the_photographs(photos: Path) -> None:
    with open_store(str(photos)) as store:
        found = store.find(Sought(names=["Ann"])).items
        expected = {
            "Ann/1.jpg",
            "Ann/2.png",
            "Ann_3.jpg",
            "Ann/thumbs/1.jpg",
            ".thumbnails/Ann_3.jpg.png",
            "Ann/2.json",
        }
        assert ids([item.key for item in found]) == expected
        assert len(found) == len(expected) + 2
        assert {item.kind for item in found if item.place.startswith("cache")} == {"embedding"}


def test_everything_of_ann_goes_and_nothing_of_bob(photos: Path) -> None:
    with open_store(str(photos), write=True) as store:
        keys = [item.key for item in store.find(Sought(names=["Ann"])).items]
        before, person = store.census(keys), needles_of(store, keys)
        assert len(person.vectors) == 2
        assert store.delete(keys) == len(keys)
        assert store.delete(keys) == 0
        for step in store.steps():
            step.run()
        assert store.census(keys).others == before.others
        scan = {one.name: one.verdict for one in scan_store(store, person, keys).classes}
        assert scan == {
            "photographs": "GONE",
            "thumbnails": "GONE",
            "caches of embeddings": "GONE",
            "other files": "BLIND",  # an .xmp, in which nobody is seen
        }
    assert not (photos / "Ann").exists()
    left = sorted(str(path.relative_to(photos)) for path in photos.rglob("*") if path.is_file())
    assert [name for name in left if "Ann" in name] == []
    cache = next(photos.glob("ds_model*.pkl"))
    assert [Path(row["identity"]).parent.name for row in pickle.loads(cache.read_bytes())] == ["Bob", "Bob"]


def test_a_photograph_is_found_by_its_face_under_any_name(photos: Path) -> None:
    """A stand-in for f* that knows which file shows whom: Ann is in one of Bob's photographs, with Bob."""
    ann, bob = np.eye(2, dtype=np.float32)
    seen = {
        (photos / path).read_bytes(): faces
        for path, faces in {"Ann/1.jpg": [ann], "Ann/2.png": [bob], "Bob/1.jpg": [bob], "Bob/2.jpg": [bob, ann]}.items()
    }

    def faces(content: bytes) -> Units:
        return np.array(seen.get(content, []), dtype=np.float32).reshape(-1, 2)

    with open_store(str(photos)) as store:
        found = store.find(Sought(names=["Ann"], templates=ann[None], threshold=0.5, faces=faces)).items
    flags = {item.id: (item.how, item.flags) for item in found if item.place == "photographs"}
    assert flags == {
        "Ann/1.jpg": ("name", ()),
        "Ann/2.png": ("name", ("unlike",)),
        "Bob/2.jpg": ("similarity", (GROUP,)),
        "Ann_3.jpg": ("name", ()),
    }


def test_what_cannot_be_looked_at_is_named(photos: Path) -> None:
    (photos / "Bob/3.heic").write_bytes(b"x")
    (photos / "Bob/clip.mp4").write_bytes(b"x")
    latin = os.fsencode(photos) + b"/M\xfcller"
    os.mkdir(latin)
    with open(latin + b"/1.jpg", "wb") as file:
        file.write(b"x")

    def faces(content: bytes) -> Units | str:
        return "no image" if content == b"x" else np.zeros((0, 2), np.float32)

    with open_store(str(photos)) as store:
        notes = store.find(Sought(templates=np.eye(2, dtype=np.float32), threshold=0.5, faces=faces)).notes
        assert "Not looked at: photographs/Bob/3.heic (no image)." in notes
        unreached = " ".join(store.unreached())
        assert "Bob/clip.mp4" in unreached
        assert r"M\xfcller has no name in UTF-8" in unreached
        json.dumps([store.unreached(), store.census().model_dump()]).encode()


@pytest.mark.parametrize("kind", ["symlink", "hard link", "hard link to a neighbour", "symlink to a neighbour"])
def test_links_out_of_what_goes_are_refused_and_nothing_is_deleted(photos: Path, kind: str) -> None:
    path = photos / "Ann/1.jpg"
    outside = photos.parent / "outside.jpg" if "neighbour" not in kind else photos / "Bob/9.jpg"
    outside.write_bytes(path.read_bytes())
    path.unlink()
    if kind.startswith("symlink"):
        path.symlink_to(outside)
    else:
        os.link(outside, path)
    with open_store(str(photos), write=True) as store:
        items = store.find(Sought(names=["Ann"])).items
        before = store.census()
        with pytest.raises(DamnatioError, match="Nothing was deleted"):
            store.delete([item.key for item in items])
        assert store.census() == before
    assert outside.exists()


def test_links_among_what_goes_are_removed(photos: Path) -> None:
    (photos / "Ann/4.jpg").symlink_to("1.jpg")
    os.link(photos / "Ann/1.jpg", photos / "Ann/5.jpg")
    with open_store(str(photos), write=True) as store:
        keys = [item.key for item in store.find(Sought(names=["Ann"])).items]
        assert {"Ann/4.jpg", "Ann/5.jpg"} <= ids(keys)
        assert store.delete(keys) == len(keys)
    assert not list((photos / "Ann").glob("*.jpg"))


def test_a_link_to_a_folder_is_not_followed_and_said(photos: Path, tmp_path: Path) -> None:
    picture(tmp_path / "elsewhere/Ann/7.jpg", 1)
    (photos / "more").symlink_to(tmp_path / "elsewhere")
    with open_store(str(photos)) as store:
        assert not [item for item in store.find(Sought(names=["Ann"])).items if "7.jpg" in item.id]
        assert any("more is a link" in sentence for sentence in store.unreached())


def test_a_removal_that_was_killed_is_ended_by_the_next(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cleared, clear = list[object](), files.cleared

    def killed(file: BinaryIO) -> None:
        cleared.append(file)
        if len(cleared) == 3:
            raise KeyboardInterrupt
        clear(file)

    with open_store(str(photos), write=True) as store:
        keys = [item.key for item in store.find(Sought(names=["Ann"])).items]
        others = store.census(keys).others
        monkeypatch.setattr(folder, "cleared", killed)
        with pytest.raises(KeyboardInterrupt):
            store.delete(keys)
    monkeypatch.undo()
    with pytest.raises(DamnatioError, match="half removed"):
        open_store(str(photos))
    with open_store(str(photos), write=True) as store:
        assert store.delete(keys) == 0
        census = store.census(keys)
        assert (census.others, census.matched_rows) == (others, 0)
    assert not (photos / LIST).exists()


def test_the_content_of_a_removed_file_is_overwritten(photos: Path) -> None:
    with (photos / "Ann/1.jpg").open("rb") as held, open_store(str(photos), write=True) as store:
        store.delete([Key("photographs", "Ann/1.jpg")])
        content = held.read()
    assert content
    assert not any(content)


def test_a_folder_without_anything_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DamnatioError, match="is empty"):
        open_store(str(tmp_path / "empty"))
    with pytest.raises(DamnatioError, match="There is no folder"):
        open_store(f"folder:{tmp_path}/none")
