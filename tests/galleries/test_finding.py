"""What all stores share: names, cosines, hashes of everybody else, samples and searches, each beside a naive second."""

import hashlib
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damnatio.galleries.census import row_digests
from damnatio.galleries.finding import Names, cosines_of, find_all
from damnatio.galleries.items import SPELLING, Block, Key, Sought
from damnatio.galleries.opening import open_store
from damnatio.galleries.picking import sample, vectors_of
from damnatio.galleries.searching import compared, exact_search, searches_without
from tests.galleries.scanning.spelt import people


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("Ann Lee", ""),
        ("Zoë", ""),
        (unicodedata.normalize("NFD", "Zoë"), ""),
        ("ann lee", SPELLING),
        ("Ann_Lee", SPELLING),
        (" ANN-LEE ", SPELLING),
        ("Ann Leeds", None),
        ("Ann", None),
        ("", None),
        ("db/Ann Lee/1.jpg", ""),
        ("C:\\faces\\Ann Lee\\1.jpg", ""),
        ("db/Ann Lee_02.jpg", ""),
        ("db/ann_lee (3).PNG", SPELLING),
        ("db/Bob/Ann.jpg", None),
        ("db/Ann Lee/notes.txt", None),
    ],
)
def test_names_match_exactly_or_are_said_to_be_spelt_otherwise(name: str, match: str | None) -> None:
    assert Names(["Ann Lee", "Zoë"]).match(name) == match


def test_cosines_are_the_naive_ones() -> None:
    rows, templates = people(20, seed=1) * 3, people(3, seed=2)
    rows[4] = 0
    rows[5, 0] = np.nan
    found = cosines_of(rows, templates)
    assert np.isnan(found[[4, 5]]).all()
    for row in (0, 1, 6, 19):
        naive = [float(rows[row] @ one) / float(np.linalg.norm(rows[row])) for one in templates]
        assert found[row] == pytest.approx(naive, abs=1e-6)


def test_each_template_has_its_bar_and_candidates_bring_their_name(tmp_path: Path) -> None:
    """Two stores. The second template finds a guest, whose other rows follow wherever they are, and a copy of a row of
    the person's has another name. A shared name brings nobody."""
    vectors, other = people(12, seed=1), people(3, seed=2)
    names = ["Ann", "guest", *(f"p{row}" for row in range(10))]
    np.savez(tmp_path / "a.npz", embeddings=vectors, names=np.array(names))
    rows = np.concatenate([other, vectors[:1] * 3, vectors[2:3]])
    np.savez(tmp_path / "b.npz", embeddings=rows, names=np.array(["guest", "guest 2", "Ann Lee", "badge", "somebody"]))
    templates = np.stack([vectors[4], vectors[1], vectors[2]])
    bars, labels = np.array([1.01, 0.9, 0.9]), ["mean", "photograph", "other"]
    sought = Sought(["Ann"], templates, bars, labels, besides=["p0", "somebody"])
    with open_store(str(tmp_path / "a.npz")) as one, open_store(str(tmp_path / "b.npz")) as two:
        first, second = find_all([one, two], sought)
    assert {(item.name, item.how, item.like) for item in first.items if item.how != "name"} == {
        ("guest", "similarity", "photograph")
    }
    found = {item.name: item for item in second.items}
    assert {name: item.how for name, item in found.items()} == {"guest": "together", "badge": "equal"}
    assert found["badge"].like.endswith("of store 1")
    assert (first.rows, first.compared) == (12, 12)


def test_a_hash_covers_every_part_of_a_row_and_no_order(tmp_path: Path) -> None:
    base: dict[str, Any] = {"ids": ["1"], "names": ["Ann"], "vectors": people(1), "contents": [b"x"]}
    changed: list[dict[str, Any]] = [
        {"ids": ["2"]},
        {"names": ["Bob"]},
        {"vectors": people(1, seed=9)},
        {"contents": [b"y"]},
    ]
    digests = [next(row_digests("rows", Block(**{**base, **one}))) for one in ({}, *changed)]
    digests.append(next(row_digests("other", Block(**base))))
    assert len(set(digests)) == 6
    moved = [("1", "2x"), ("12", "x")]  # no part may run into the next
    spelt = [next(row_digests("rows", Block([id], [name]))) for id, name in moved]
    assert spelt[0] != spelt[1]
    vectors, names = people(50), np.array([f"p{row}" for row in range(50)])
    order = np.random.default_rng(0).permutation(50)
    np.savez(tmp_path / "a.npz", embeddings=vectors, names=names)
    np.savez(tmp_path / "b.npz", embeddings=vectors[order], names=names[order])
    with open_store(str(tmp_path / "a.npz")) as one, open_store(str(tmp_path / "b.npz")) as other:
        assert one.census() == other.census()
        block = next(iter(one.blocks("rows")))
        naive = hashlib.sha256(b"".join(sorted(row_digests("rows", block)))).hexdigest()
        assert one.census().others == naive
        keys = [Key("rows", id) for id in block.ids[:3]]
        three = sorted(list(row_digests("rows", block))[:3])
        assert one.census(keys).matched == hashlib.sha256(b"".join(three)).hexdigest()


def test_samples_are_of_others_and_each_is_as_likely(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", embeddings=people(300), names=np.array([f"p{row}" for row in range(300)]))
    with open_store(str(tmp_path / "a.npz")) as store:
        keys = [Key("rows", id) for block in store.blocks("rows") for id in block.ids]
        counts = dict.fromkeys(keys, 0)
        for seed in range(60):
            drawn = sample(store, keys[:100], 50, seed)
            assert len(drawn) == 50
            for key in drawn:
                counts[key] += 1
        assert not any(counts[key] for key in keys[:100])
        assert all(2 <= counts[key] <= 32 for key in keys[100:])  # 15 are expected
        assert len(sample(store, keys[:100], 1000)) == 200
        assert set(vectors_of(store, keys[5:8])) == set(keys[5:8])


def test_searches_are_the_naive_ones(tmp_path: Path) -> None:
    vectors = people(200)
    vectors[7] = vectors[3]  # a tie
    np.savez(tmp_path / "a.npz", embeddings=vectors, names=np.array([f"p{row}" for row in range(200)]))
    queries = people(20, seed=5)
    queries[0] = vectors[3]
    with open_store(str(tmp_path / "a.npz")) as store:
        ids = next(iter(store.blocks("rows"))).ids
        scores = queries.astype(np.float64) @ vectors.T.astype(np.float64)
        for row, hits in enumerate(exact_search(store, queries, 10)):
            wanted = {ids[place] for place in np.argsort(-scores[row])[:10]}
            assert {hit.key.id for hit in hits} == wanted
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        gone = [Key("rows", ids[3]), Key("rows", ids[7])]
        without = searches_without(store, queries, gone)
        assert all(len(keys) == 10 and not set(keys) & set(gone) for keys in without)


def test_results_are_compared_as_sets() -> None:
    a, b, c = (Key("rows", one) for one in "abc")
    same = compared([[a, b], [c]], [[b, a], [c]], top=2)
    assert (same.equal, same.kept) == (2, 1.0)
    other = compared([[a, b], [c]], [[a, c], [c]], top=2)
    assert (other.equal, other.kept) == (1, 2 / 3)
    assert compared([], []).kept == 1.0
