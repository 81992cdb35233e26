"""Milvus Lite: a collection that is built anew keeps its ids, partitions, aliases and fields."""

from pathlib import Path
from typing import Any

import pytest

from damnatio.galleries.address import parse
from damnatio.galleries.items import Key
from damnatio.galleries.milvus import NEW, Milvus
from damnatio.galleries.opening import open_store
from damnatio.support.errors import DamnatioError
from tests.galleries.people import ANN
from tests.galleries.purging import NAMES, VECTORS, ann, purged, verdicts, world
from tests.galleries.worlds.milvus import released


def with_own_ids(path: Path) -> list[int]:
    """A collection whose ids Milvus chooses, with two partitions, an alias and an index of its own."""
    pytest.importorskip("milvus_lite")
    milvus: Any = pytest.importorskip("pymilvus")
    client = milvus.MilvusClient(str(path))
    schema = client.create_schema(auto_id=True, enable_dynamic_field=True)
    schema.add_field("key", milvus.DataType.INT64, is_primary=True)
    schema.add_field("embedding", milvus.DataType.FLOAT_VECTOR, dim=VECTORS.shape[1])
    schema.add_field("person", milvus.DataType.VARCHAR, max_length=100)
    indexes = client.prepare_index_params()
    indexes.add_index("embedding", index_type="HNSW", metric_type="COSINE", params={"M": 8, "efConstruction": 32})
    client.create_collection("faces", schema=schema, index_params=indexes)
    client.create_partition("faces", "second")
    client.create_alias("faces", "gallery")
    rows = [{"embedding": VECTORS[n].tolist(), "person": name, "row": n} for n, name in enumerate(NAMES)]
    ids = [
        *client.insert("faces", rows[:60])["ids"],
        *client.insert("faces", rows[60:], partition_name="second")["ids"],
    ]
    client.flush("faces")
    client.close()
    released(path)
    return [int(id) for id in ids]


def test_ids_partitions_and_aliases_stay(tmp_path: Path) -> None:
    path = tmp_path / "gallery.db"
    ids = with_own_ids(path)
    gone = {id for id, name in zip(ids, NAMES, strict=True) if name == ANN}
    with open_store(f"milvus:{path}?collection=faces&name=person", write=True) as store:
        keys, person = ann(store)
        assert {int(key.id) for key in keys} == gone
        before = store.census(keys)
        purged(store, keys)
        assert store.census(keys).others == before.others
        assert set(verdicts(store, person, keys).values()) == {"GONE"}
        client = store._client  # type: ignore[attr-defined]
        assert client.list_collections() == ["faces"]
        assert client.describe_alias("gallery")["collection_name"] == "faces"
        second = client.query("faces", filter="", limit=1000, output_fields=["key"], partition_names=["second"])
        assert {row["key"] for row in second} == set(ids[60:]) - gone
        assert client.describe_index("faces", client.list_indexes("faces")[0])["index_type"] == "HNSW"
        (added,) = store.add("New", VECTORS[:1])
        assert int(added.id) not in ids


def test_compact_leaves_every_byte(tmp_path: Path) -> None:
    with world("milvus", tmp_path / "store") as address, open_store(address, write=True) as store:
        keys, person = ann(store)
        store.delete(keys)
        client = store._client  # type: ignore[attr-defined]
        client.flush("faces")
        client.compact("faces")
        assert verdicts(store, person, keys)["data"] == "RESIDUE"


def test_a_rebuild_that_was_stopped_is_ended(tmp_path: Path) -> None:
    with world("milvus", tmp_path / "store") as address:
        with open_store(address, write=True) as store:
            keys, _ = ann(store)
            before = store.census(keys)
            store._client.rename_collection("faces", "faces" + NEW)  # type: ignore[attr-defined]
        with pytest.raises(DamnatioError, match="half purged"):
            open_store(address)
        with open_store(address, write=True) as store:
            assert store.census(keys) == before
            store._create("faces" + NEW)  # type: ignore[attr-defined]
            store._client.create_alias("faces" + NEW, "gallery")  # type: ignore[attr-defined]
        with open_store(address, write=True) as store:  # stopped earlier: the new one is empty
            purged(store, keys)
            assert store.census(keys).others == before.others
            assert store._client.list_collections() == ["faces"]  # type: ignore[attr-defined]
            assert store._client.list_aliases("faces")["aliases"] == ["gallery"]  # type: ignore[attr-defined]


def test_the_queue_of_a_server_is_unreached_or_scanned(tmp_path: Path) -> None:
    """No server runs here: only what is said of its files."""
    pytest.importorskip("pymilvus")
    address = "milvus://root:secret@127.0.0.1:19530/default?collection=faces&name=person"
    (one,) = Milvus(parse(address)).file_classes()
    assert "message queue" in one.unreached
    assert "secret" not in parse(address).shown
    (tmp_path / "rdb_data").mkdir()
    (tmp_path / "rdb_data" / "000012.log").write_bytes(VECTORS.tobytes())
    (tmp_path / "insert_log").write_bytes(b"")
    found = {one.name: len(one.files) for one in Milvus(parse(f"{address}&dir={tmp_path}")).file_classes()}
    assert found == {"data": 1, "indexes": 0, "message queue": 1}


def test_a_server_that_is_not_there_is_one_sentence() -> None:
    pytest.importorskip("pymilvus")
    with pytest.raises(DamnatioError, match="cannot be opened") as caught:
        open_store("milvus://user:secret@127.0.0.1:1/default?collection=faces")
    assert "secret" not in str(caught.value)


def test_a_delete_of_nobody_is_none(tmp_path: Path) -> None:
    with world("milvus", tmp_path / "store") as address, open_store(address, write=True) as store:
        assert store.delete([Key("faces", "-1"), Key("faces", "no number")]) == 0
