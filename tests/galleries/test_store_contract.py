"""What every registered store promises, with its real engine. A store without a world fails here."""

import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from damnatio.galleries import STORES
from damnatio.galleries.address import parse
from damnatio.galleries.base import BLOCK, Store
from damnatio.galleries.items import UNLIKE, Key, Sought
from damnatio.galleries.opening import open_store
from damnatio.galleries.picking import sample, vectors_of
from damnatio.galleries.scanning.scan import needles_of, scan_store
from damnatio.galleries.searching import compared, searches_without
from tests.galleries.people import ALIAS, ANN, DIM, EACH, LEVEL, TWIN, rows, template

NAMES, VECTORS = rows()
TEMPLATES = template(NAMES, VECTORS)


@pytest.fixture(params=STORES.names())
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "store"
    folder.mkdir()
    with importlib.import_module(f"tests.galleries.worlds.{request.param}").world(folder, NAMES, VECTORS) as found:
        yield found


def all_rows(store: Store) -> list[tuple[Key, str, NDArray[np.float32] | None]]:
    found = []
    for place in store.places():
        for block in store.blocks(place.name):
            assert 0 < len(block.ids) <= BLOCK
            assert len(block.ids) == len(block.names)
            for row, id in enumerate(block.ids):
                vector = None if block.vectors is None else np.asarray(block.vectors[row], dtype=np.float32)
                found.append((Key(place.name, id), block.names[row], vector))
    return found


def ann(store: Store) -> list[Key]:
    return [item.key for item in store.find(Sought(names=[ANN])).items]


def searched(store: Store) -> None:
    if not any(place.searched for place in store.places()):
        pytest.skip("it has no vectors")


def test_every_row_is_read_with_its_name_and_vector(address: str) -> None:
    with open_store(address) as store:
        found = [(name, vector) for _, name, vector in all_rows(store) if vector is not None]
    if found:
        assert Counter(name for name, _ in found) == Counter(NAMES)
        held = np.stack([vector for _, vector in found])
        nearest = (held @ VECTORS.T).argmax(axis=1)
        assert sorted(nearest) == list(range(len(VECTORS)))
        assert [NAMES[row] for row in nearest] == [name for name, _ in found]
        np.testing.assert_allclose(held, VECTORS[nearest], atol=2e-3)  # fp16 and codes are coarse


def test_keys_name_the_same_rows_after_a_restart(address: str) -> None:
    with open_store(address) as store:
        first = {key: name for key, name, _ in all_rows(store)}
        shown = store.address.shown
    with open_store(shown) as store:
        assert {key: name for key, name, _ in all_rows(store)} == first
        assert store.address == parse(shown)


def test_a_person_is_found_by_name_and_under_another_name(address: str) -> None:
    with open_store(address) as store:
        found = store.find(Sought(names=[ANN], templates=TEMPLATES, threshold=LEVEL)).items
        by_name = [item for item in found if item.how == "name"]
        assert len(by_name) >= EACH
        assert all(item.name == ANN and not item.flags and not item.candidate for item in by_name)
        assert not [item for item in found if item.name == TWIN]
        searched(store)
        others = [item for item in found if item.how == "similarity"]
        assert {item.name for item in others} == {ALIAS}
        assert all(item.candidate and item.score is not None and item.score > LEVEL for item in others)


def test_a_name_with_another_face_is_flagged(address: str) -> None:
    with open_store(address) as store:
        searched(store)
        found = store.find(Sought(names=[TWIN], templates=TEMPLATES, threshold=LEVEL)).items
        twins = [item for item in found if item.how == "name" and item.score is not None]
        assert twins
        assert all(UNLIKE in item.flags and item.candidate for item in twins)


def test_deleting_one_of_two_look_alikes_leaves_the_other_alone(address: str) -> None:
    with open_store(address, write=True) as store:
        found = store.find(Sought(names=[ANN], templates=TEMPLATES, threshold=LEVEL)).items
        keys = [item.key for item in found]
        before = store.census(keys)
        others = list(sample(store, keys, 40).values())
        results = searches_without(store, np.stack(others), keys) if others else []
        assert store.delete(keys) >= EACH
        for step in store.steps():
            step.run()
    with open_store(address) as store:
        after = store.census(keys)
        assert after.others == before.others
        assert after.matched_rows == 0
        assert sum(before.rows.values()) - sum(after.rows.values()) == before.matched_rows
        left = {name for _, name, _ in all_rows(store)}
        assert TWIN in left
        assert not {ANN, ALIAS if others else ANN} & left
        if others:
            assert compared(results, searches_without(store, np.stack(others), keys)).kept == 1.0


def test_delete_and_steps_may_be_repeated(address: str) -> None:
    with open_store(address, write=True) as store:
        keys = ann(store)
        names = [step.name for step in store.steps()]
        assert len(set(names)) == len(names)
        assert all(step.command for step in store.steps())
        store.delete(keys)
        assert store.delete(keys) == 0
        for step in store.steps():
            step.run()
    with open_store(address, write=True) as store:
        assert [step.name for step in store.steps()] == names
        assert store.delete(keys) == 0
        for step in store.steps():
            step.run()
        after = store.census()
        for step in store.steps():
            step.run()
        assert store.census() == after
        assert ann(store) == []


def test_a_rehearsal_changes_nothing(address: str) -> None:
    with open_store(address, write=True) as store:
        keys, before = ann(store), store.census()
        store.rehearse(keys)
        assert store.census() == before
        assert store.delete(keys) >= EACH


def test_reading_changes_nothing_and_deletes_nothing(address: str) -> None:
    with open_store(address) as store:
        keys, before = ann(store), store.census()
        with pytest.raises(RuntimeError):
            store.delete(keys)
        assert store.census() == before


def test_an_enrolment_is_searched_and_is_drift(address: str) -> None:
    new = np.random.default_rng(1).standard_normal((2, DIM)).astype(np.float32)
    new /= np.linalg.norm(new, axis=1, keepdims=True)
    with open_store(address, write=True) as store:
        searched(store)
        keys = ann(store)
        before = store.census(keys)
        added = store.add("New Person", new)
        assert len(added) == 2
        after = store.census(keys)
        assert after.others != before.others
        assert after.matched == before.matched
        hits = store.search(new, 3)
        assert [found[0].key for found in hits] == added
        assert all(found[0].score > 0.999 for found in hits)
        assert {item.key for item in store.find(Sought(names=["New Person"])).items} >= set(added)
        assert set(vectors_of(store, added)) == set(added)


def test_every_byte_of_the_store_is_in_a_class_of_files(address: str) -> None:
    with open_store(address) as store:
        classes = store.file_classes()
        assert len({one.name for one in classes}) == len(classes)
        assert any(one.files or one.unreached for one in classes) or store.remains()
        assert all(file.is_file() for one in classes for file in one.files)
        assert store.versions


def test_after_the_steps_no_byte_is_left_and_who_stays_is_seen(address: str) -> None:
    with open_store(address, write=True) as store:
        keys = ann(store)
        if not store.file_classes():
            pytest.skip("a server's files are not read")
        person = needles_of(store, keys)
        before = scan_store(store, person, keys)
        assert before.verdict == "RESIDUE"
        store.delete(keys)
        for step in store.steps():
            step.run()
        after = scan_store(store, person, keys)
        assert after.verdict == "GONE", after
        assert after.found == 0
        assert all(one.control_found or not one.bytes for one in after.classes)
