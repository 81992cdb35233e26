"""Redis: where the name is, how a vector is written, where the files are, and servers that refuse."""

import json
from pathlib import Path

import numpy as np
import pytest

from damnatio.galleries.address import parse
from damnatio.galleries.opening import open_store
from damnatio.galleries.redis import hidden, shown
from damnatio.support.errors import DamnatioError
from tests.galleries.people import ANN
from tests.galleries.purging import NAMES, VECTORS, ann, purged, verdicts, world
from tests.galleries.worlds.redis import fill, server


@pytest.mark.parametrize("key", [b"face:1", "face:Jos\u00e9".encode(), b"face:\xff\x00\\x41", b"\\", b"a b\n"])
def test_a_key_is_shown_as_one_text(key: bytes) -> None:
    assert hidden(shown(key)) == key
    shown(key).encode()  # it can be written as JSON


def test_a_snapshot_alone_leaves_the_log(tmp_path: Path) -> None:
    with world("redis", tmp_path / "store") as address, open_store(address, write=True) as store:
        keys, person = ann(store)
        store.delete(keys)
        {step.name: step for step in store.steps()}["snapshot"].run()
        assert verdicts(store, person, keys) == {"snapshot": "GONE", "append-only file": "RESIDUE"}


def test_strings_have_the_name_in_their_key(tmp_path: Path) -> None:
    redis = pytest.importorskip("redis")
    with server(tmp_path) as port:
        client = redis.Redis(port=port)
        for row, name in enumerate(NAMES):
            client.set(f"face:{name}:{row}", json.dumps(VECTORS[row].tolist()))
        with open_store(f"redis://localhost:{port}/0?pattern=face:{{name}}:*&type=json", write=True) as store:
            keys, _ = ann(store)
            assert sorted(key.id for key in keys) == sorted(
                f"face:{ANN}:{row}" for row, name in enumerate(NAMES) if name == ANN
            )
            (added,) = store.add("New: one", VECTORS[:1])
            assert added.id.startswith("face:New: one:")
            assert store.delete([*keys, added]) == 5
            assert store.steps()[-1].name == "snapshot"
        assert client.dbsize() == len(NAMES) - 4


def test_other_keys_stay_and_other_fields_count(tmp_path: Path) -> None:
    with world("redis", tmp_path / "store") as address, open_store(address, write=True) as store:
        keys, _ = ann(store)
        before = store.census(keys)
        client = store._server  # type: ignore[attr-defined]
        other = next(f"face:{row}" for row, name in enumerate(NAMES) if name != ANN)
        client.hset(other, "row", "changed")
        assert store.census(keys).others != before.others
        purged(store, keys)
        assert client.get("other") == b"no face"


def test_a_server_without_files_here_is_unreached(tmp_path: Path) -> None:
    with world("redis", tmp_path / "store") as address, open_store(address, write=True) as store:
        store._info["process_id"] = 0  # type: ignore[attr-defined]
        found = store.file_classes()
        assert all("not seen from here" in one.unreached and not one.files for one in found)
        seen = parse(f"{address}&dir={tmp_path / 'store'}")
        with open_store(seen) as other:
            other._info["process_id"] = 0  # type: ignore[attr-defined]
            assert all(one.files and not one.unreached for one in other.file_classes())


def test_a_cache_gets_no_snapshot_that_it_never_had(tmp_path: Path) -> None:
    with server(tmp_path, "--save", "") as port:
        pytest.importorskip("redis").Redis(port=port).hset("face:1", mapping={"v": VECTORS[0].tobytes(), "n": "A"})
        with open_store(f"redis://127.0.0.1:{port}/0?pattern=face:*&vector=v&name=n", write=True) as store:
            assert store.steps() == []
            assert all(not one.files for one in store.file_classes())


def test_an_old_log_beside_is_residue(tmp_path: Path) -> None:
    """One file up to Redis 6, a folder of files from Redis 7 on."""
    with world("redis", tmp_path / "store") as address, open_store(address, write=True) as store:
        keys, person = ann(store)
        log = max((tmp_path / "store").rglob("appendonly.aof*"), key=lambda file: file.stat().st_size)
        (tmp_path / "store" / "temp-rewriteaof-1.aof").write_bytes(log.read_bytes())
        purged(store, keys)
        assert verdicts(store, person, keys) == {"snapshot": "GONE", "append-only file": "RESIDUE"}


def test_servers_that_refuse(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    options = "pattern=face:*&vector=embedding&name=person"
    with pytest.raises(DamnatioError, match="does not do it"):
        open_store(f"redis://127.0.0.1:1/0?{options}")
    with server(tmp_path, "--requirepass", "right") as port:
        with pytest.raises(DamnatioError, match="does not do it") as caught:
            open_store(f"redis://:wrong@127.0.0.1:{port}/0?{options}")
        assert "wrong" not in str(caught.value)
        open_store(f"redis://:right@127.0.0.1:{port}/0?{options}").close()
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    with (
        server(tmp_path / "first") as first,
        server(tmp_path / "second", "--replicaof", "127.0.0.1", str(first)) as port,
    ):
        open_store(f"redis://127.0.0.1:{port}/0?{options}").close()
        with pytest.raises(DamnatioError, match=f"is a replica.*127.0.0.1:{first}"):
            open_store(f"redis://127.0.0.1:{port}/0?{options}", write=True)


def test_wrong_fields_and_types_are_one_sentence(tmp_path: Path) -> None:
    with server(tmp_path) as port:
        fill(port, NAMES[:3], VECTORS[:3]).close()
        address = f"redis://127.0.0.1:{port}/0?pattern=face:*"
        for options, said in {
            "": "is a hash: name the field",
            "&vector=vector": "has no field 'vector'; it has embedding, person, row",
            "&vector=embedding&type=int4": "there is no type 'int4'",
            "&vector=person&type=json": "no json vector",
        }.items():
            with pytest.raises(DamnatioError, match=said), open_store(address + options) as store:
                store.census()
        with pytest.raises(DamnatioError, match="lacks the option 'pattern'"):
            open_store(f"redis://127.0.0.1:{port}/0")


def test_vectors_of_half_precision(tmp_path: Path) -> None:
    redis = pytest.importorskip("redis")
    with server(tmp_path) as port:
        client = redis.Redis(port=port)
        for row, name in enumerate(NAMES):
            client.hset(f"face:{row}", mapping={"v": VECTORS[row].astype(np.float16).tobytes(), "n": name})
        client.save()
        with open_store(f"redis://127.0.0.1:{port}/0?pattern=face:*&vector=v&name=n&type=float16", write=True) as store:
            keys, person = ann(store)
            purged(store, keys)
            assert verdicts(store, person, keys) == {"snapshot": "GONE"}
