"""Chroma: its queue, its index, the folders that it leaves behind."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from damnatio.galleries.chroma_index import overwrite_dead
from damnatio.galleries.opening import open_store
from damnatio.support.errors import DamnatioError
from tests.galleries.people import ANN
from tests.galleries.purging import NAMES, VECTORS, ann, purged, verdicts, world
from tests.galleries.worlds.chroma import fill


@pytest.mark.parametrize("space", ["cosine", "l2", "ip"])
@pytest.mark.parametrize("synced", [20, 1000])
def test_rows_go_from_the_index_and_from_the_queue(space: str, synced: int, tmp_path: Path) -> None:
    fill(tmp_path, NAMES, VECTORS * np.float32(1.7), space, synced)
    with open_store(f"chroma:{tmp_path}?name=person", write=True) as store:
        keys, person = ann(store)
        before = store.census(keys)
        store.delete(keys)
        assert "RESIDUE" in verdicts(store, person, keys).values()
        purged(store, keys)
        assert set(verdicts(store, person, keys).values()) == {"GONE"}
        assert store.census(keys).others == before.others


def test_its_own_search_finds_who_stays_and_nobody_else(tmp_path: Path) -> None:
    chromadb = pytest.importorskip("chromadb")
    with world("chroma", tmp_path / "store") as address:
        with open_store(address, write=True) as store:
            purged(store, ann(store)[0])
        client = chromadb.PersistentClient(str(tmp_path / "store"))
        found = client.get_collection("faces", embedding_function=None).query(query_embeddings=VECTORS, n_results=1)
        client.close()
        for row, (ids, about) in enumerate(zip(found["ids"], found["metadatas"], strict=True)):
            assert about[0]["person"] != ANN
            if NAMES[row] != ANN:
                assert ids == [f"row {row}"]


def test_the_folder_of_a_dropped_collection_is_removed(tmp_path: Path) -> None:
    chromadb = pytest.importorskip("chromadb")
    with world("chroma", tmp_path / "store") as address:
        client = chromadb.PersistentClient(str(tmp_path / "store"))
        settings = {"hnsw": {"sync_threshold": 50, "batch_size": 50}}
        other = client.create_collection("old", configuration=settings, embedding_function=None)
        other.add(ids=[f"row {row}" for row in range(len(NAMES))], embeddings=VECTORS)
        client.delete_collection("old")
        client.close()
        with open_store(address, write=True) as store:
            keys, person = ann(store)
            assert verdicts(store, person, keys)["orphan folders"] == "RESIDUE"
            purged(store, keys)
            assert "orphan folders" not in verdicts(store, person, keys)
        folders = [one for one in (tmp_path / "store").iterdir() if one.is_dir()]
        assert len(folders) == 1


def test_an_index_that_does_not_hold_the_living_is_left_alone(tmp_path: Path) -> None:
    with world("chroma", tmp_path / "store"):
        (index,) = (one for one in (tmp_path / "store").iterdir() if one.is_dir())
        before = (index / "data_level0.bin").read_bytes()
        with pytest.raises(DamnatioError, match="nothing was overwritten"):
            overwrite_dead(index, {b"of nobody"}, expected=1)
        header = index / "header.bin"
        header.write_bytes(b"\x02" + header.read_bytes()[1:])
        with pytest.raises(DamnatioError, match="layout that is not known"):
            overwrite_dead(index, set(), expected=0)
        assert (index / "data_level0.bin").read_bytes() == before


def test_nothing_of_the_control_is_left(tmp_path: Path) -> None:
    with world("chroma", tmp_path / "store") as address:
        with open_store(address, write=True) as store:
            assert list(store.plants()) == ["rows and queue"]
        base = sqlite3.connect(tmp_path / "store" / "chroma.sqlite3")
        assert not base.execute("SELECT name FROM sqlite_master WHERE name LIKE 'damnatio%'").fetchall()
        base.close()


def test_a_newer_layout_is_refused(tmp_path: Path) -> None:
    with world("chroma", tmp_path / "store") as address:
        base = sqlite3.connect(tmp_path / "store" / "chroma.sqlite3")
        base.execute("INSERT INTO migrations VALUES ('metadb', 99, '00099-later.sql', '', '')")
        base.commit()
        base.close()
        with pytest.raises(DamnatioError, match=r"newer Chroma \(metadb 99"):
            open_store(address)


def test_unused_room_in_the_index_is_cleared(tmp_path: Path) -> None:
    """Chroma writes it as it found it in its memory, which may hold anybody."""
    fill(tmp_path, NAMES, VECTORS, "l2", 1000)
    (index,) = (one for one in tmp_path.iterdir() if one.is_dir())
    row = NAMES.index(ANN)
    data = bytearray((index / "data_level0.bin").read_bytes())
    data[:256] = VECTORS[row].tobytes()
    (index / "data_level0.bin").write_bytes(data)
    with open_store(f"chroma:{tmp_path}?name=person", write=True) as store:
        keys, person = ann(store)
        purged(store, keys)
        assert set(verdicts(store, person, keys).values()) == {"GONE"}
    assert not any((index / "data_level0.bin").read_bytes())
