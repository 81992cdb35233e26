"""Qdrant's three layouts, its settings, its log and its snapshots."""

import json
import pickle
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from damnatio.galleries.opening import open_store
from damnatio.galleries.qdrant_shards import KEPT
from damnatio.support.errors import DamnatioError
from tests.galleries.people import ANN
from tests.galleries.purging import NAMES, VECTORS, ann, purged, verdicts, world
from tests.galleries.worlds.qdrant import local, shard


def test_a_shard_of_edge_keeps_its_settings(tmp_path: Path) -> None:
    address = shard(tmp_path / "shard", NAMES, VECTORS)
    with open_store(address, write=True) as store:
        keys, person = ann(store)
        purged(store, keys)
        assert set(verdicts(store, person, keys).values()) == {"GONE"}
    assert "deleted_threshold" not in (tmp_path / "shard" / "edge_config.json").read_text()


def test_no_settings_of_edge_are_left_in_the_storage_of_a_server(tmp_path: Path) -> None:
    with world("qdrant", tmp_path / "store") as address:
        with open_store(address, write=True) as store:
            store.steps()[0].run()
        assert not list((tmp_path / "store").rglob("*edge_config*"))


def test_settings_of_a_vacuum_that_was_killed_are_put_back(tmp_path: Path) -> None:
    address = shard(tmp_path / "shard", NAMES, VECTORS)
    settings = tmp_path / "shard" / "edge_config.json"
    given = settings.read_text()
    settings.rename(settings.with_name(KEPT))
    settings.write_text(json.dumps({**json.loads(given), "optimizers": {"deleted_threshold": 1e-12}}))
    with pytest.raises(DamnatioError, match="run the purge again"):
        open_store(address)
    open_store(address, write=True).close()
    assert "deleted_threshold" not in settings.read_text()
    assert not settings.with_name(KEPT).exists()


def test_a_log_in_which_nobody_is_makes_the_scan_blind(tmp_path: Path) -> None:
    address = shard(tmp_path / "shard", NAMES, VECTORS)
    with open_store(address, write=True) as store:
        keys, person = ann(store)
        purged(store, keys)
    with open_store(address) as store:  # for reading nothing is planted
        assert verdicts(store, person, keys) == {"segments": "GONE", "write-ahead log": "BLIND"}


def test_planted_vectors_are_no_points(tmp_path: Path) -> None:
    address = shard(tmp_path / "shard", NAMES, VECTORS)
    with open_store(address, write=True) as store:
        before = store.census()
        assert list(store.plants()) == ["write-ahead log"]
        assert store.census() == before


def test_snapshots_are_scanned_and_not_changed(tmp_path: Path) -> None:
    with world("qdrant", tmp_path / "store") as address:
        inside = tmp_path / "store" / "snapshots" / "faces"
        inside.mkdir(parents=True)
        source = tmp_path / "store" / "collections" / "faces" / "0" / "segments"
        subprocess.run(["tar", "-cf", str(inside / "one.snapshot"), "-C", str(source), "."], check=True)
        kept = (inside / "one.snapshot").read_bytes()
        with open_store(address, write=True) as store:
            keys, person = ann(store)
            purged(store, keys)
            assert verdicts(store, person, keys)["snapshots"] == "RESIDUE"
        assert (inside / "one.snapshot").read_bytes() == kept


def test_the_local_mode_keeps_deleted_points_until_a_vacuum(tmp_path: Path) -> None:
    address = local(tmp_path / "local", NAMES, VECTORS)
    with open_store(address, write=True) as store:
        keys, person = ann(store)
        before = store.census(keys)
        store.delete(keys)
        if sqlite3.connect(":memory:").execute("PRAGMA secure_delete").fetchone()[0] == 0:
            assert verdicts(store, person, keys) == {"points": "RESIDUE"}
        purged(store, keys)
        assert verdicts(store, person, keys) == {"points": "GONE"}
        assert store.census(keys).others == before.others
        with pytest.raises(DamnatioError, match="open in another process"):
            open_store(address)


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("called",)


def test_a_pickle_that_calls_a_function_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = local(tmp_path / "local", NAMES, VECTORS)
    base = sqlite3.connect(tmp_path / "local" / "collection" / "faces" / "storage.sqlite")
    base.execute("UPDATE points SET point = ? WHERE rowid = 3", (pickle.dumps(_Evil()),))
    base.commit()
    base.close()
    with pytest.raises(DamnatioError, match=r"it asks for builtins\.print"):
        open_store(address)
    assert "called" not in capsys.readouterr().out


def test_one_of_several_collections_is_chosen(tmp_path: Path) -> None:
    with world("qdrant", tmp_path / "store") as address:
        shard(tmp_path / "store" / "collections" / "others" / "0", NAMES[:3], VECTORS[:3])
        with pytest.raises(DamnatioError, match=r"several collections: choose one .* of faces, others\."):
            open_store(address.replace("collection=faces&", ""))


def test_segments_that_cannot_be_read_are_one_sentence(tmp_path: Path) -> None:
    address = shard(tmp_path / "shard", NAMES, VECTORS)
    for file in (tmp_path / "shard" / "segments").glob("*/segment.json"):
        file.write_text('{"version": 10000, "config": {"future": true}}')
    with pytest.raises(DamnatioError, match="cannot be read by qdrant-edge-py"):
        open_store(address)


def test_reading_needs_no_engine_to_refuse_another_folder(tmp_path: Path) -> None:
    program = f"from damnatio.galleries.opening import open_store; open_store('qdrant:{tmp_path}')"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert "is no folder of Qdrant" in done.stderr


@pytest.mark.cli
def test_a_log_that_the_control_rolls_is_scanned_under_its_new_name(tmp_path: Path) -> None:
    """One long operation fills a file of the log, so that the next one closes and renames it."""
    many = np.random.default_rng(3).standard_normal((18_000, 512)).astype(np.float32)
    many /= np.linalg.norm(many, axis=1, keepdims=True)
    address = shard(tmp_path / "shard", [ANN] * 4 + ["other"] * (len(many) - 4), many)
    with open_store(address, write=True) as store:
        keys, person = ann(store)
        assert verdicts(store, person, keys) == {"segments": "RESIDUE", "write-ahead log": "RESIDUE"}
