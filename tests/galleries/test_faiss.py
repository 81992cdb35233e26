"""faiss files: every kind of index, with names by id, by position and without; and sentences for bad files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damnatio.galleries.items import Key, Sought
from damnatio.galleries.opening import open_store
from damnatio.galleries.scanning.scan import needles_of, scan_store
from damnatio.galleries.searching import compared, searches_without
from damnatio.support.errors import DamnatioError
from tests.galleries.people import ANN, DIM, EACH, TWIN, rows

faiss = pytest.importorskip("faiss")
NAMES, VECTORS = rows()
KINDS = [
    "Flat",
    "SQfp16",
    "SQ8",
    "PQ16",
    "IVF4,Flat",
    "IVF4,SQfp16",
    "IVF4,SQ8",
    "IVF4,PQ16",
    "HNSW16",
    "HNSW16_SQ8",
    "IDMap,Flat",
    "IDMap,SQfp16",
    "IDMap,IVF4,Flat",
    "IDMap,HNSW16",
    "IDMap2,Flat",
    "IDMap2,HNSW16",
    "IDMap2,IVF4,SQ8",
]


def written(folder: Path, kind: str, names: Any = None, ids: Any = None) -> str:
    """The address of an index of a kind; ids other than positions where it has ids."""
    index = faiss.index_factory(DIM, kind, faiss.METRIC_INNER_PRODUCT)
    if "PQ" in kind:
        given_codebook(index)
    else:
        index.train(VECTORS)
    if "IDMap" in kind or "IVF" in kind:
        index.add_with_ids(VECTORS, np.arange(len(VECTORS)) if ids is None else np.asarray(ids, np.int64))
    else:
        index.add(VECTORS)
    faiss.write_index(index, str(folder / "gallery.index"))
    (folder / "names.json").write_text(json.dumps(NAMES if names is None else names))
    return f"faiss:{folder}/gallery.index?names=names.json"


def given_codebook(index: Any) -> None:
    """faiss takes most of a minute to train 16 tiny codebooks on a busy machine: these are drawn from the vectors."""
    random = np.random.default_rng(0)
    width = DIM // index.pq.M
    book = VECTORS.reshape(len(VECTORS), index.pq.M, width).transpose(1, 0, 2)
    chosen = np.stack([part[random.integers(0, len(part), index.pq.ksub)] for part in book])
    chosen += 0.01 * random.standard_normal(chosen.shape).astype(np.float32)
    faiss.copy_array_to_vector(chosen.astype(np.float32).ravel(), index.pq.centroids)
    if hasattr(index, "quantizer"):
        index.quantizer.add(VECTORS[random.integers(0, len(VECTORS), index.nlist)] * 0.5)
    index.is_trained = True
    if hasattr(index, "precompute_table"):
        index.precompute_table()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_loses_one_person_and_nobody_else(kind: str, tmp_path: Path) -> None:
    address = written(tmp_path, kind)
    others = VECTORS[[name not in (ANN,) for name in NAMES]][:40]
    with open_store(address, write=True) as store:
        keys = [item.key for item in store.find(Sought(names=[ANN])).items]
        assert len(keys) == EACH
        before, person = store.census(keys), needles_of(store, keys)
        assert scan_store(store, person, keys).verdict == "RESIDUE"
        results = searches_without(store, others, keys)
        assert store.delete(keys) == EACH
        assert store.delete(keys) == 0
    with open_store(address, write=True) as store:
        after = store.census(keys)
        assert after.others == before.others
        assert after.matched_rows == 0
        left = store.find(Sought(names=[ANN, TWIN])).items
        assert [item.name for item in left] == [TWIN] * EACH
        scan = scan_store(store, person, keys)
        assert scan.verdict == "GONE", scan
        assert compared(results, searches_without(store, others, keys)).kept > 0.99
        added = store.add("New", VECTORS[:2] * 2)
        assert {item.key for item in store.find(Sought(names=["New"])).items} == set(added)
    index = faiss.read_index(str(tmp_path / "gallery.index"))
    assert index.ntotal == len(VECTORS) - EACH + 2


@pytest.mark.parametrize("kind", ["IDMap2,Flat", "IVF4,Flat", "IDMap,HNSW16"])
def test_names_by_id_stay_with_their_ids(kind: str, tmp_path: Path) -> None:
    ids = np.arange(len(VECTORS)) * 10_000_000_007 + 5
    address = written(tmp_path, kind, {str(id): name for id, name in zip(ids.tolist(), NAMES, strict=True)}, ids)
    with open_store(address, write=True) as store:
        keys = [item.key for item in store.find(Sought(names=[ANN])).items]
        assert {NAMES[(int(key.id) - 5) // 10_000_000_007] for key in keys} == {ANN}
        before = store.census(keys)
        assert store.delete(keys) == EACH
        assert store.census(keys).others == before.others
    kept = json.loads((tmp_path / "names.json").read_text())
    assert ANN not in kept.values()
    assert {int(id) for id in kept} == {id for id, name in zip(ids.tolist(), NAMES, strict=True) if name != ANN}


def test_names_in_the_order_of_the_rows_move_up_with_them(tmp_path: Path) -> None:
    address = written(tmp_path, "IDMap,Flat", ids=np.arange(len(VECTORS)) + 1_000_000)
    with open_store(address, write=True) as store:
        keys = [item.key for item in store.find(Sought(names=[ANN])).items]
        before = store.census(keys)
        store.delete(keys)
        assert store.census(keys).others == before.others
    assert json.loads((tmp_path / "names.json").read_text()) == [name for name in NAMES if name != ANN]


def test_a_list_by_id_keeps_the_places_of_others(tmp_path: Path) -> None:
    address = written(tmp_path, "IVF4,Flat")
    with open_store(address, write=True) as store:
        store.delete([item.key for item in store.find(Sought(names=[ANN])).items])
    assert json.loads((tmp_path / "names.json").read_text()) == ["" if name == ANN else name for name in NAMES]


def test_a_position_is_no_id_of_a_row(tmp_path: Path) -> None:
    """After the first of two rows went, the second has its position. Deleting the first again must not take it."""
    index = faiss.IndexFlatIP(DIM)
    index.add(VECTORS[:2])
    faiss.write_index(index, str(tmp_path / "gallery.index"))
    with open_store(str(tmp_path / "gallery.index"), write=True) as store:
        first = Key("rows", next(iter(store.blocks("rows"))).ids[0])
        assert store.delete([first]) == 1
        assert store.delete([first]) == 0
        assert store.census().rows == {"rows": 1}


def test_bad_files_are_one_sentence(tmp_path: Path) -> None:
    address = written(tmp_path, "Flat", names=["Ann"])
    with pytest.raises(DamnatioError, match=r"129 rows, and .*names 1"):
        open_store(address)
    written(tmp_path, "PCA16,Flat")
    with pytest.raises(DamnatioError, match="of the kind IndexPreTransform"):
        open_store(address)
    content = bytearray((tmp_path / "gallery.index").read_bytes())
    (tmp_path / "gallery.index").write_bytes(content[: len(content) // 2])
    with pytest.raises(DamnatioError, match="damaged, or of a newer version"):
        open_store(address)
    (tmp_path / "gallery.index").write_bytes(b"IxZZ" + bytes(100))
    with pytest.raises(DamnatioError, match="newer version"):
        open_store(f"faiss:{tmp_path}/gallery.index")
    with pytest.raises(DamnatioError, match=r"needs the file .*none.json"):
        open_store(f"faiss:{tmp_path}/gallery.index?names=none.json")


def overwritten(path: Path, place: int, piece: bytes) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:place] + piece + content[place + len(piece) :])


@pytest.mark.parametrize(
    ("kind", "place", "number"),
    [
        ("IVF4,PQ4x4", 4, 0),  # vectors of no values: faiss would write past the end of memory
        ("IDMap,Flat", 8, 1),  # the map has fewer rows than the index in it
        ("Flat", 37, 2**38),  # an array longer than the file: faiss would allocate it
    ],
)
def test_a_damaged_number_is_one_sentence(tmp_path: Path, kind: str, place: int, number: int) -> None:
    written(tmp_path, kind)
    path = tmp_path / "gallery.index"
    overwritten(path, place, number.to_bytes(4 if place == 4 else 8, "little"))
    with pytest.raises(DamnatioError, match="damaged"):
        open_store(str(path))


def test_a_damaged_number_of_lists_takes_no_memory(tmp_path: Path) -> None:
    written(tmp_path, "IVF4,Flat")
    path = tmp_path / "gallery.index"
    overwritten(path, path.read_bytes().index(b"ilar") + 4, (2**40).to_bytes(8, "little"))
    with pytest.raises(DamnatioError, match="damaged"):
        open_store(str(path))


def test_damage_that_shows_in_a_search_is_one_sentence(tmp_path: Path) -> None:
    written(tmp_path, "IVF4,Flat")
    path = tmp_path / "gallery.index"
    overwritten(path, 32, b"\0")  # says that it is not trained
    with open_store(str(path)) as store, pytest.raises(DamnatioError, match=r"damaged.* \('.*is not trained\)"):
        store.search(VECTORS[:1], 3)


def test_queries_of_another_length_find_nothing(tmp_path: Path) -> None:
    written(tmp_path, "Flat")
    with open_store(str(tmp_path / "gallery.index")) as store:
        assert store.search(VECTORS[:2, :-1], 3) == [[], []]
