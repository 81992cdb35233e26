"""Lists of pairs: both formats, their faults by line, and what a draw promises."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damnatio.errors import DamnatioError
from damnatio.pair_lists import draw_pairs, read_pair_list

PEOPLE = {"Ann_Lee": 3, "Bo": 2, "Cy": 2}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for person, images in PEOPLE.items():
        (tmp_path / "faces" / person).mkdir(parents=True)
        for number in range(1, images + 1):
            (tmp_path / "faces" / person / f"{person}_{number:04d}.png").touch()
    return tmp_path / "faces"


def named(path: Path, root: Path) -> list[tuple[str, str, bool]]:
    listed = read_pair_list(path, root)
    assert len(set(listed.images)) == len(listed.images)
    return [
        (listed.images[a], listed.images[b], bool(same))
        for a, b, same in zip(listed.first, listed.second, listed.same, strict=True)
    ]


def test_lfws_own_format(root: Path) -> None:
    path = root.parent / "pairs.txt"
    path.write_text("2\t1\nAnn_Lee\t1\t3\nBo\t2\tCy\t1\nBo\t1\t2\n\nAnn_Lee\t1\tBo\t2\n")
    assert named(path, root) == [
        ("Ann_Lee/Ann_Lee_0001.png", "Ann_Lee/Ann_Lee_0003.png", True),
        ("Bo/Bo_0002.png", "Cy/Cy_0001.png", False),
        ("Bo/Bo_0001.png", "Bo/Bo_0002.png", True),
        ("Ann_Lee/Ann_Lee_0001.png", "Bo/Bo_0002.png", False),
    ]
    assert read_pair_list(path, root).folds == 2


def test_a_list_of_one_part_has_ten_folds(root: Path) -> None:
    path = root.parent / "pairsDevTest.txt"
    path.write_text("5\n" + "Bo 1 2\n" * 5 + "Bo 1 Cy 1\n" * 5)
    assert read_pair_list(path, root).folds == 10
    assert read_pair_list(path, root).same.tolist() == [True] * 5 + [False] * 5


def test_csv(root: Path) -> None:
    path = root.parent / "pairs.csv"
    lines = ["Bo/Bo_0001.png,Bo/Bo_0002.png,1", "Bo/Bo_0001.png,Cy/Cy_0001.png,False"] * 5
    path.write_text("\n".join(["\ufeffimage_a,image_b,same", *lines]))
    assert named(path, root)[:2] == [
        ("Bo/Bo_0001.png", "Bo/Bo_0002.png", True),
        ("Bo/Bo_0001.png", "Cy/Cy_0001.png", False),
    ]
    assert len(read_pair_list(path, root).images) == 3


HEAD = "image_a,image_b,same\n"
FAULTS = [
    ("p.csv", "image_a,image_b\n", "p.csv has no column 'same'"),
    ("p.csv", "", "has no column 'image_a'"),
    ("p.csv", HEAD + "Bo/Bo_0001.png,Bo/Bo_0002.png,yes\n", "line 2: 'same' is 1 or 0, not 'yes'"),
    ("p.csv", HEAD + "Bo/Bo_0001.png,Bo/Bo_0002.png\n", "line 2: 'same' is 1 or 0, not ''"),
    ("p.csv", HEAD + "Bo/Bo_0001.png,Bo/Bo_0009.png,1\n", "line 2: there is no image Bo/Bo_0009.png in "),
    ("p.csv", HEAD + "Bo/Bo_0001.png,Bo/Bo_0002.png,1\n", "lists 1 pairs: 10 folds need one each"),
    ("p.csv", HEAD + f"Bo/Bo_0001.png,{'o' * 5000},1\n", "line 2: there is no image ooo"),
    ("p.csv", HEAD + f"Bo/Bo_0001.png,{'o' * 200_000},1\n", "line 2: field larger than field limit"),
    ("p.csv", f"{'o' * 200_000},image_b,same\n", "line 1: field larger than field limit"),
    ("p.txt", f"2 {'9' * 5000}\nBo 1 2\n", "does not begin with the numbers of folds and pairs"),
    ("p.txt", f"1\n{'o' * 300} 1 2\nBo 1 Cy 1\n", "line 2: there is no image ooo"),
    ("p.txt", f"1\nBo 1 {'9' * 5000}\nBo 1 Cy 1\n", "line 2: expected 'name i j'"),
    ("p.txt", "Bo 1 2\n", "does not begin with the numbers of folds and pairs"),
    ("p.txt", "", "does not begin with the numbers of folds and pairs"),
    ("p.txt", "2 1\nBo 1 2\n", "announces 4 pairs and lists 1"),
    ("p.txt", "2 1\nBo 1 2\nBo 1 Cy one\nBo 1 2\nBo 1 Cy 1\n", "line 3: expected 'name i j'"),
    ("p.txt", "2 1\nBo 1 2\nBo 1 Cy 7\nBo 1 2\nBo 1 Cy 1\n", "line 3: there is no image Cy/Cy_0007.jpg in "),
]


@pytest.mark.parametrize(("name", "text", "sentence"), FAULTS)
def test_a_fault_gets_one_sentence(root: Path, name: str, text: str, sentence: str) -> None:
    path = root.parent / name
    path.write_text(text)
    with pytest.raises(DamnatioError) as error:
        read_pair_list(path, root)
    assert sentence in str(error.value)


def test_a_list_that_is_not_there_or_no_text(root: Path) -> None:
    with pytest.raises(DamnatioError, match="There is no list of pairs"):
        read_pair_list(root / "pairs.txt", root)
    (root.parent / "pairs.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DamnatioError, match="not text in UTF-8"):
        read_pair_list(root.parent / "pairs.txt", root)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=60), st.integers(1, 400), st.integers(1, 50))
def test_what_a_draw_promises(sizes: list[int], count: int, seed: int) -> None:
    codes = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    first, second, same = draw_pairs(codes, count, seed)
    assert len(same) % 20 == 0
    assert len(same) <= count
    assert ((codes[first] == codes[second]) == same).all()
    assert (first != second).all()
    assert len({frozenset(pair) for pair in zip(first.tolist(), second.tolist(), strict=True)}) == len(same)
    people = [set(codes[part].ravel().tolist()) for part in np.split(np.stack([first, second]), 10, axis=1)]
    assert sum(map(len, people)) == len(set.union(*people)), "nobody is in two folds"
    for label in np.split(same, 10):
        assert label.tolist() == [True] * (len(label) // 2) + [False] * (len(label) // 2)


def test_everybody_gives_one_mated_pair_before_anybody_gives_a_second() -> None:
    codes = np.repeat(np.arange(40), [12, *[3] * 39])  # four people a fold, the first with many images
    first, _, same = draw_pairs(codes, 160, seed=3)
    assert len(same) == 160
    mated = Counter(codes[first[same]].tolist())
    assert set(mated.values()) == {2}
    assert len(mated) == 40


def test_a_draw_follows_its_seed_and_stops_where_there_are_no_more() -> None:
    codes = np.repeat(np.arange(20), 2)
    first, second, same = draw_pairs(codes, 6000, seed=1)
    assert len(same) == 40  # two people of one mated pair each a fold
    again = draw_pairs(codes, 6000, seed=1)
    assert (first.tolist(), second.tolist()) == (again[0].tolist(), again[1].tolist())
    assert first.tolist() != draw_pairs(codes, 6000, seed=2)[0].tolist()
    assert len(draw_pairs(codes[:20], 6000, seed=1)[2]) == 0  # ten people: no fold has two
