"""LanceDB: tags, columns, indexes, rows without an id."""

import warnings
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from damnatio.galleries.items import Key
from damnatio.galleries.opening import open_store
from damnatio.support.errors import DamnatioError
from tests.galleries.people import ANN
from tests.galleries.purging import NAMES, VECTORS, ann, purged, verdicts, world


def test_a_tag_that_keeps_an_old_version_is_refused_before_anything_is_deleted(tmp_path: Path) -> None:
    with world("lancedb", tmp_path / "store") as address:
        data = pytest.importorskip("lance").dataset(str(tmp_path / "store" / "faces.lance"))
        data.tags.create("keep", data.version)
        with open_store(address) as store:
            assert len(ann(store)[0]) == 4
        with pytest.raises(DamnatioError, match="tag `keep` keeps an old version"):
            open_store(address, write=True)


def test_lancedbs_own_optimize_leaves_every_byte(tmp_path: Path) -> None:
    """It rewrites a file only where a tenth of its rows is deleted."""
    lancedb = pytest.importorskip("lancedb")
    rows = [{"vector": row.tolist(), "person": name} for row, name in zip(VECTORS, NAMES, strict=True)]
    table = lancedb.connect(str(tmp_path)).create_table("faces", rows)
    with open_store(f"lancedb:{tmp_path}?name=person", write=True) as store:
        keys, person = ann(store)
        store.delete(keys)
        table.checkout_latest()
        with warnings.catch_warnings(action="ignore"):
            table.optimize(cleanup_older_than=timedelta(0))
        assert verdicts(store, person, keys) == {"table": "RESIDUE"}
        purged(store, keys)
        assert verdicts(store, person, keys) == {"table": "GONE"}


def test_a_flat_index_is_written_anew_with_the_table(tmp_path: Path) -> None:
    with world("lancedb", tmp_path / "store") as address:
        data = pytest.importorskip("lance").dataset(str(tmp_path / "store" / "faces.lance"))
        data.create_index("vector", "IVF_FLAT", metric="l2", num_partitions=1)
        with open_store(address, write=True) as store:
            keys, person = ann(store)
            assert verdicts(store, person, keys)["indexes"] == "RESIDUE"
            purged(store, keys)
            assert verdicts(store, person, keys) == {"table": "GONE", "indexes": "GONE"}


def test_an_index_of_codes_is_blind_and_not_gone(tmp_path: Path) -> None:
    lance, arrow = pytest.importorskip("lance"), pytest.importorskip("pyarrow")
    many = np.concatenate([VECTORS, np.random.default_rng(0).standard_normal((300, VECTORS.shape[1]))])
    rows = arrow.FixedSizeListArray.from_arrays(arrow.array(many.astype(np.float32).ravel()), many.shape[1])
    table = arrow.table({"vector": rows, "person": [*NAMES, *["other"] * 300]})
    data = lance.write_dataset(table, str(tmp_path / "faces.lance"))
    data.create_index("vector", "IVF_PQ", metric="l2", num_partitions=1, num_sub_vectors=8)
    with open_store(f"lancedb:{tmp_path}?name=person", write=True) as store:
        keys, person = ann(store)
        purged(store, keys)
        assert verdicts(store, person, keys) == {"table": "GONE", "indexes": "BLIND"}


def test_rows_are_known_by_a_column_where_one_is_named(tmp_path: Path) -> None:
    lancedb = pytest.importorskip("lancedb")
    rows = [
        {"vector": row.tolist(), "person": name, "key": n}
        for n, (row, name) in enumerate(zip(VECTORS, NAMES, strict=True))
    ]
    lancedb.connect(str(tmp_path)).create_table("faces", rows)
    with open_store(f"lancedb:{tmp_path}?name=person&id=key", write=True) as store:
        keys, _ = ann(store)
        assert [key.id for key in keys] == [str(row) for row, name in enumerate(NAMES) if name == ANN]
        assert store.delete(keys) == 4
        (added,) = store.add("New", VECTORS[:1])
        assert added.id.isdigit()


def test_equal_rows_are_one_item_and_go_together(tmp_path: Path) -> None:
    lancedb = pytest.importorskip("lancedb")
    rows = [{"vector": VECTORS[row].tolist(), "person": name} for row, name in [(0, "A"), (0, "A"), (1, "A"), (0, "B")]]
    lancedb.connect(str(tmp_path)).create_table("faces", rows)
    with open_store(f"lancedb:{tmp_path}?name=person", write=True) as store:
        first, *others = [block.ids for block in store.blocks("faces")]
        assert not others
        assert first[0] == first[1]
        assert len(set(first)) == 3
        assert store.delete([Key("faces", first[0])]) == 2
        assert store.census().rows == {"faces": 2}


def test_a_table_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with world("lancedb", tmp_path / "store") as address:
        for file in (tmp_path / "store" / "faces.lance" / "_versions").glob("*.manifest"):
            file.write_bytes(file.read_bytes()[:-20])
        with pytest.raises(DamnatioError, match="cannot do it") as caught:
            open_store(address)
        assert "\n" not in str(caught.value)
