"""What an ordinary delete leaves in five engines, what the steps leave, and purges that were stopped on the way."""

from pathlib import Path

import pytest

from damnatio.galleries.opening import open_store
from damnatio.support.errors import DamnatioError
from tests.galleries.people import ANN, TWIN
from tests.galleries.purging import ann, held_elsewhere, killed_after, purged, verdicts, world

ENGINES = ["chroma", "lancedb", "milvus", "qdrant", "redis"]
FIRST_STEP = {
    "chroma": {"rows and queue": "GONE", "index": "GONE"},
    "lancedb": {"table": "RESIDUE"},  # the old version is still there
    "milvus": {"data": "GONE", "indexes": "GONE"},
    "qdrant": {"segments": "GONE", "write-ahead log": "RESIDUE"},
    "redis": {"append-only file": "GONE", "snapshot": "RESIDUE"},
}


@pytest.mark.parametrize("scheme", ENGINES)
def test_an_ordinary_delete_leaves_bytes_and_each_step_has_its_part(scheme: str, tmp_path: Path) -> None:
    with world(scheme, tmp_path / "store") as address, open_store(address, write=True) as store:
        keys, person = ann(store)
        store.delete(keys)
        assert "RESIDUE" in verdicts(store, person, keys).values()
        steps = store.steps()
        steps[0].run()
        assert verdicts(store, person, keys) == FIRST_STEP[scheme]
        for step in steps[1:]:
            step.run()
        assert set(verdicts(store, person, keys).values()) == {"GONE"}


@pytest.mark.cli
@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("scheme", ENGINES)
def test_a_purge_that_was_killed_is_ended_by_the_next(scheme: str, steps: int, tmp_path: Path) -> None:
    with world(scheme, tmp_path / "store") as address:
        with open_store(address) as store:
            keys, person = ann(store)
            before = store.census(keys)
        killed_after(address, keys, steps)
        with open_store(address, write=True) as store:
            purged(store, keys)
            after = store.census(keys)
            assert (after.matched_rows, after.others) == (0, before.others)
            assert set(verdicts(store, person, keys).values()) == {"GONE"}


@pytest.mark.cli
@pytest.mark.parametrize("scheme", ["chroma", "milvus", "qdrant"])
def test_a_store_that_is_open_elsewhere_is_refused(scheme: str, tmp_path: Path) -> None:
    said = r"open in (another process|process \d+)"
    with (
        world(scheme, tmp_path / "store") as address,
        held_elsewhere(address),
        pytest.raises(DamnatioError, match=said),
    ):
        open_store(address, write=True)


@pytest.mark.parametrize("scheme", ENGINES)
def test_a_wrong_name_is_one_sentence(scheme: str, tmp_path: Path) -> None:
    with world(scheme, tmp_path / "store") as address:
        wrong = address.replace("name=person", "name=subject")
        if scheme == "milvus":  # rows may hold any field there
            with open_store(wrong) as store:
                assert ann(store)[0] == []
            return
        with pytest.raises(DamnatioError, match="subject") as caught:
            open_store(wrong)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["chroma", "lancedb", "milvus", "qdrant"])
def test_a_wrong_collection_is_one_sentence(scheme: str, tmp_path: Path) -> None:
    said = r"has no .* `people`: choose one with .* of faces\."
    with world(scheme, tmp_path / "store") as address, pytest.raises(DamnatioError, match=said):
        open_store(address.replace("=faces", "=people"))


@pytest.mark.parametrize("scheme", ["chroma", "lancedb", "milvus", "qdrant"])
def test_files_that_are_not_the_stores_own_are_refused(scheme: str, tmp_path: Path) -> None:
    with world(scheme, tmp_path / "store") as address:
        file = max(
            (one for one in (tmp_path / "store").rglob("*") if one.is_file()), key=lambda one: one.stat().st_size
        )
        kept = file.read_bytes()
        (tmp_path / "copy").hardlink_to(file)
        with pytest.raises(DamnatioError, match=r"second name|hard link"):
            open_store(address, write=True)
        file.unlink()
        file.symlink_to(tmp_path / "copy")
        with pytest.raises(DamnatioError, match="a link to elsewhere"):
            open_store(address, write=True)
        file.unlink()
        (tmp_path / "copy").rename(file)
        file.chmod(0o444)
        with pytest.raises(DamnatioError, match="is read-only"):
            open_store(address, write=True)
        assert file.read_bytes() == kept


@pytest.mark.parametrize("scheme", ["chroma", "lancedb", "qdrant"])
def test_a_bare_folder_is_recognised(scheme: str, tmp_path: Path) -> None:
    with world(scheme, tmp_path / "store"), open_store(f"{tmp_path / 'store'}?name=person") as store:
        assert store.scheme == scheme
        assert len(ann(store)[0]) == 4


@pytest.mark.parametrize("scheme", ENGINES)
def test_the_look_alike_is_still_found_by_name(scheme: str, tmp_path: Path) -> None:
    with world(scheme, tmp_path / "store") as address, open_store(address, write=True) as store:
        keys, _ = ann(store)
        purged(store, keys)
        names = [name for place in store.places() for block in store.blocks(place.name) for name in block.names]
        assert names.count(TWIN) == 4
        assert ANN not in names
