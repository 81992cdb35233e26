"""Pickled galleries: every layout, every protocol, and files that would run something."""

import os
import pickle
import pickletools
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from damnatio.galleries.items import Sought
from damnatio.galleries.opening import open_store
from damnatio.galleries.pickle_layouts import UnknownLayoutError, layout_of
from damnatio.galleries.unpickling import read_pickle
from damnatio.support.errors import DamnatioError
from damnatio.support.unpickling import UnpicklingError
from tests.galleries.scanning.spelt import people

ROWS = [row.astype(np.float64) for row in people(5)]
NAMES = ["Ann", "Bob", "Ann", "Cid", "Bob"]
PATHS = ["db/Ann/1.jpg", "db/Bob/1.jpg", "db/Ann/2.jpg", "db/Cid.png", "db/Bob/2.jpg"]
LAYOUTS: dict[str, Any] = {
    "face_recognition": {"encodings": ROWS, "names": NAMES},
    "an array and extra lists": {
        "embeddings": np.stack(ROWS),
        "names": np.array(NAMES),
        "boxes": [1, 2, 3, 4, 5],
        "v": 2,
    },
    "a pair": (ROWS, NAMES),
    "a pair the other way": [NAMES, [row.tolist() for row in ROWS]],
    "deepface": [
        {"identity": path, "hash": str(place), "embedding": row.tolist(), "target_x": place}
        for place, (path, row) in enumerate(zip(PATHS, ROWS, strict=True))
    ],
    "old deepface": [[path, row.tolist()] for path, row in zip(PATHS, ROWS, strict=True)],
    "by name": {"Ann": [ROWS[0], ROWS[2]], "Bob": np.stack([ROWS[1], ROWS[4]]), "Cid": ROWS[3]},
}


def written(path: Path, content: Any, protocol: int = 4) -> str:
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return str(path)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("protocol", range(6))
def test_every_layout_loses_ann_and_nobody_else(tmp_path: Path, layout: str, protocol: int) -> None:
    address = "pickle:" + written(tmp_path / "g.pkl", LAYOUTS[layout], protocol)
    with open_store(address, write=True) as store:
        items = store.find(Sought(names=["Ann"])).items
        keys = [item.key for item in items]
        assert len(keys) == 2
        before = store.census(keys)
        assert store.delete(keys) == 2
        assert store.delete(keys) == 0
        assert store.census(keys).others == before.others
        if layout != "an array and extra lists":
            added = store.add("Dee", np.stack(ROWS[:1]).astype(np.float32))
            assert [item.key for item in store.find(Sought(names=["Dee"])).items] == added
    content = (tmp_path / "g.pkl").read_bytes()
    assert (content[1] if content[0] == 0x80 else 0) in (protocol, 0)
    kept = layout_of(pickle.loads(content)).rows
    assert len([row for row in kept if "Ann" in row.name]) == 0
    assert len(kept) in (3, 4)


def test_extra_lists_go_with_their_rows(tmp_path: Path) -> None:
    address = written(tmp_path / "g.pkl", LAYOUTS["an array and extra lists"])
    with open_store(address, write=True) as store:
        store.delete([item.key for item in store.find(Sought(names=["Ann"])).items])
        with pytest.raises(DamnatioError, match="takes no new rows"):
            store.add("Dee", np.stack(ROWS[:1]))
    kept = pickle.loads((tmp_path / "g.pkl").read_bytes())
    assert kept["boxes"] == [2, 4, 5]
    assert kept["v"] == 2
    assert kept["names"].tolist() == ["Bob", "Cid", "Bob"]


def test_rows_without_a_vector_and_of_other_lengths_are_read(tmp_path: Path) -> None:
    rows = [
        *LAYOUTS["deepface"],
        {**LAYOUTS["deepface"][0], "embedding": None},
        {**LAYOUTS["deepface"][1], "embedding": [0.5] * 9},
    ]
    with open_store(written(tmp_path / "g.pkl", rows)) as store:
        blocks = list(store.blocks("rows"))
        assert [None if block.vectors is None else block.vectors.shape[1] for block in blocks] == [None, 9, 64]
        found = store.find(Sought(names=["Ann"], templates=people(1), threshold=0.99))
        assert len(found.items) == 3
        assert any("9 values" in note for note in found.notes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_gallery_may_become_empty(tmp_path: Path, layout: str) -> None:
    address = written(tmp_path / "g.pkl", LAYOUTS[layout])
    with open_store(address, write=True) as store:
        assert store.delete([item.key for item in store.find(Sought(names=["Ann", "Bob", "Cid"])).items]) == 5
    with open_store(address) as store:
        assert store.census().rows == {"rows": 0}


@pytest.mark.parametrize(
    "content",
    [
        1,
        "text",
        {},
        [1, 2, 3],
        {"encodings": ROWS, "names": ["Ann"]},
        {"Ann": "text"},
        [{"identity": "a.jpg"}],
        {1: ROWS[0]},
        {"Ann": [["a", "b"]]},
    ],
)
def test_other_objects_are_refused(tmp_path: Path, content: Any) -> None:
    if content == {}:
        assert layout_of(content).rows == []
        return
    with pytest.raises(UnknownLayoutError):
        layout_of(content)
    with pytest.raises(DamnatioError, match="unknown layout"):
        open_store("pickle:" + written(tmp_path / "g.pkl", content))


# --- nothing is run --------------------------------------------------------------------------------------------------

MARK = "/tmp/damnatio-was-run"


class Evil:
    def __reduce__(self) -> Any:
        return os.system, (f"touch {MARK}",)


EVIL: dict[str, bytes] = {
    "a program": pickle.dumps({"encodings": [Evil()], "names": ["Ann"]}),
    "a program, protocol 0": pickle.dumps([Evil()], protocol=0),
    "eval": b"cbuiltins\neval\n(S'1+1'\ntR.",
    "getattr": b"c__builtin__\ngetattr\n(cos\nS'system'\ntR.",
    "an instance": b"(S'touch'\nios\nsystem\n.",
    "a class": pickle.dumps(OrderedDict(a=1)),
    "a persistent id": b"Pos\n.",
    "an extension": b"\x82\x01.",
    "numpy, but not an array": b"cnumpy\nload\n(S'/etc/passwd'\ntR.",
    "a name below an array's": b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.",
    "an array of objects": pickle.dumps(np.array([{}], dtype=object)),
    "a state for a list": b"](K\x01tb.",
    "only a name": b"cnumpy\nndarray\n.",
}


@pytest.mark.parametrize("kind", EVIL)
def test_nothing_in_a_pickle_is_run(tmp_path: Path, kind: str) -> None:
    Path(MARK).unlink(missing_ok=True)
    with pytest.raises(UnpicklingError):
        read_pickle(EVIL[kind])
    (tmp_path / "g.pkl").write_bytes(EVIL[kind])
    with pytest.raises(DamnatioError) as raised:
        open_store(f"pickle:{tmp_path}/g.pkl")
    assert "\n" not in str(raised.value)
    assert not Path(MARK).exists()


@pytest.mark.parametrize("protocol", range(6))
def test_what_is_admitted_is_what_python_reads(protocol: int) -> None:
    content: dict[str, Any] = {
        "arrays": [np.arange(6.0).reshape(2, 3), np.ones((2, 3), np.float32, order="F"), np.ones(2, ">f8")],
        "texts": ["Ann", "Zoë", "", "x" * 300, "\n'\\"],
        "numbers": [0, -1, 255, 65536, 2**70, 0.5, -1e300, True, None, np.float32(1.5), np.int64(3)],
        "bytes": [b"", b"ab\xff", b"x" * 300],
        "nested": ((), (1,), (1, 2, 3, 4), [], {}, {"a": [1]}),
    }
    content["again"] = content["arrays"]
    found = read_pickle(pickle.dumps(content, protocol=protocol))
    assert found["again"] is found["arrays"]
    for key in ("texts", "numbers", "bytes", "nested"):
        assert found[key] == content[key], key
        assert [type(one) for one in found[key]] == [type(one) for one in content[key]]
    for one, other in zip(found["arrays"], content["arrays"], strict=True):
        assert np.array_equal(one, other)
        assert one.dtype == other.dtype


CODES = [code.code.encode("latin-1") for code in pickletools.opcodes]


@given(st.lists(st.one_of(st.sampled_from(CODES), st.binary(max_size=6)), max_size=40), st.integers(0, 2**32))
def test_damaged_pickles_are_refused_or_read_and_never_run(words: list[bytes], seed: int) -> None:
    random = np.random.default_rng(seed)
    whole = bytearray(pickle.dumps(LAYOUTS["face_recognition"], protocol=int(random.integers(0, 6))))
    for _ in range(int(random.integers(0, 6))):
        whole[int(random.integers(len(whole)))] = int(random.integers(256))
    for content in (b"".join(words) + b".", bytes(whole), bytes(whole[: int(random.integers(len(whole)))])):
        try:
            found = read_pickle(content)
        except UnpicklingError:
            continue
        try:
            layout_of(found)
        except UnknownLayoutError:
            continue
