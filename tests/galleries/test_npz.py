"""An .npz: one array of rows, one array per person, and arrays that go with the rows."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from damnatio.galleries.base import BLOCK
from damnatio.galleries.items import Sought
from damnatio.galleries.opening import open_store
from damnatio.support.errors import DamnatioError
from tests.galleries.scanning.spelt import people

VECTORS = people(5)


def test_arrays_along_the_rows_go_with_them_and_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    quality, mean = np.arange(5), np.ones(64)
    np.savez_compressed(path, v=VECTORS, who=np.array(list("abacb")), quality=quality, mean=mean, scale=np.array(3.5))
    with open_store(f"npz:{path}?vectors=v&names=who", write=True) as store:
        keys = [item.key for item in store.find(Sought(names=["a"])).items]
        before = store.census(keys)
        assert store.delete(keys) == 2
        assert store.census(keys).others == before.others
        with pytest.raises(DamnatioError, match="`quality` has a value per row"):
            store.add("d", VECTORS[:1])
    with np.load(path) as kept:
        assert kept["who"].tolist() == ["b", "c", "b"]
        assert kept["quality"].tolist() == [1, 3, 4]
        assert np.array_equal(kept["v"], VECTORS[[1, 3, 4]])
        assert np.array_equal(kept["mean"], mean)
        assert kept["scale"] == 3.5
    with zipfile.ZipFile(path) as archive:
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_DEFLATED}


def test_one_array_per_person(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    np.savez(path, **{"Ann Lee": VECTORS[:2], "Bob": VECTORS[2], "Cid": VECTORS[3:]})
    with open_store(str(path), write=True) as store:
        assert store.census().rows == {"rows": 5}
        keys = [item.key for item in store.find(Sought(names=["Ann Lee"])).items]
        assert store.delete(keys[:1]) == 1
        assert store.delete(keys) == 1
        store.add("Bob", VECTORS[:1])
        store.add("Dee", VECTORS[:2])
    with np.load(path) as kept:
        assert sorted(kept.files) == ["Bob", "Cid", "Dee"]
        assert np.array_equal(kept["Bob"], VECTORS[[2, 0]])
        assert np.array_equal(kept["Dee"], VECTORS[:2])
    with open_store(str(path), write=True) as store:
        store.delete([item.key for item in store.find(Sought(names=["Bob", "Cid", "Dee"])).items])
        assert store.census().rows == {"rows": 0}


def test_more_rows_than_a_block(tmp_path: Path) -> None:
    path, count = tmp_path / "g.npz", 2 * BLOCK + 5
    vectors = people(count, dim=8)
    np.savez(path, embeddings=vectors, names=np.array([f"p{row % 100}" for row in range(count)]))
    with open_store(str(path), write=True) as store:
        keys = [item.key for item in store.find(Sought(names=["p7"])).items]
        others = store.census(keys).others
        assert store.delete(keys) == len(range(7, count, 100))
        assert store.census(keys).others == others
    with np.load(path) as kept:
        assert np.array_equal(kept["embeddings"], vectors[[row % 100 != 7 for row in range(count)]])


def test_equal_rows_are_one_item_and_go_together(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    np.savez(path, embeddings=VECTORS[[0, 0, 1]], names=np.array(["Ann", "Ann", "Ann"]))
    with open_store(str(path), write=True) as store:
        items = store.find(Sought(names=["Ann"])).items
        assert sorted(item.copies for item in items) == [1, 2]
        twice = next(item for item in items if item.copies == 2)
        assert store.delete([twice.key]) == 2
        assert store.census().rows == {"rows": 1}


def test_bad_files_are_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"

    def refused(said: str, address: str = f"npz:{path}") -> None:
        with pytest.raises(DamnatioError, match=said):
            open_store(address)

    np.savez(path, embeddings=VECTORS)
    refused("no array `names`; it has embeddings")
    np.savez(path, embeddings=VECTORS, names=np.array(["Ann"]))
    refused("do not fit each other")
    np.savez(path, embeddings=VECTORS, names=np.array(["Ann"] * 5))
    refused("no array `v`", f"npz:{path}?vectors=v")
    np.savez(path, embeddings=np.asfortranarray(VECTORS), names=np.array(["Ann"] * 5))
    refused("Fortran order")
    np.savez(path, embeddings=VECTORS, names=np.array([{}] * 5, dtype=object))
    refused("pickled objects")
    np.savez(path, a=np.ones(3), b=np.ones(4))
    refused("neither `embeddings` and `names` nor one array of vectors per person")
    path.write_bytes(b"PK\x03\x04 cut")
    refused("no readable .npz")
    np.savez(path, embeddings=VECTORS, names=np.array(["Ann"] * 5))
    content = bytearray(path.read_bytes())
    content[300] ^= 1
    path.write_bytes(content)
    refused("Bad CRC-32")
