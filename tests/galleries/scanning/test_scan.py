"""Verdicts: each of the four, the worst of them, and what must be seen before GONE is said."""

import itertools
import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from damnatio.galleries.address import Address, parse
from damnatio.galleries.items import FileClass, Key, Sought, Vectors
from damnatio.galleries.npz import Npz
from damnatio.galleries.opening import open_store
from damnatio.galleries.scanning.needles import Needles
from damnatio.galleries.scanning.scan import needles_of, scan_class, scan_store
from damnatio.galleries.scanning.verdicts import ORDER, ClassScan, worst
from tests.galleries.scanning.spelt import DIM, people

PERSON, OTHERS = people(2, seed=1), people(20, seed=2)
WHO, STAYS = Needles(list(PERSON)), Needles(list(OTHERS[:3]))
EACH = DIM // 8


def written(folder: Path, **contents: bytes) -> FileClass:
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return FileClass("data", [folder / name for name in contents])


def test_gone_needs_a_person_who_stays(tmp_path: Path) -> None:
    gone = scan_class(written(tmp_path, a=OTHERS.tobytes(), b=b"nothing"), WHO, STAYS)
    assert (gone.verdict, gone.found, gone.fragments) == ("GONE", 0, 2 * EACH)
    assert (gone.control_found, gone.control_fragments) == (3 * EACH, 3 * EACH)
    assert (gone.files, gone.bytes) == (2, OTHERS.nbytes + 7)
    hidden = bytes(byte ^ 0x5A for byte in np.concatenate([PERSON, OTHERS]).tobytes())
    blind = scan_class(written(tmp_path, a=hidden), WHO, STAYS)
    assert blind.verdict == "BLIND"
    assert "vectors" in blind.reason


def test_residue_is_counted_and_said_where(tmp_path: Path) -> None:
    left = scan_class(written(tmp_path, a=b"xyz" + PERSON[1, 8:32].tobytes()), WHO, STAYS)
    assert (left.verdict, left.found) == ("RESIDUE", 3)
    assert left.encodings == {"float32": 3}
    assert left.where == [f"{tmp_path / 'a'} at byte 3: float32"]


def test_no_bytes_are_gone_and_unreadable_files_are_unreached(tmp_path: Path) -> None:
    assert scan_class(FileClass("log", []), WHO, STAYS).verdict == "GONE"
    assert scan_class(written(tmp_path, a=b""), WHO, STAYS).verdict == "GONE"
    away = scan_class(FileClass("log", [], unreached="The server is elsewhere."), WHO, STAYS)
    assert (away.verdict, away.reason) == ("UNREACHED", "The server is elsewhere.")
    folder = scan_class(FileClass("log", [tmp_path]), WHO, STAYS)  # a folder cannot be read as a file
    assert folder.verdict == "UNREACHED"


def test_what_only_the_store_can_unpack_is_looked_at_too(tmp_path: Path) -> None:
    hidden = bytes(byte ^ 0x5A for byte in np.concatenate([PERSON, OTHERS]).tobytes())
    one = written(tmp_path, a=hidden)
    opened = FileClass("data", one.files, opened=lambda path: [bytes(byte ^ 0x5A for byte in path.read_bytes())])
    assert scan_class(opened, WHO, STAYS).found == 2 * EACH


@pytest.mark.parametrize("holds", [("vectors",), ("pictures",), ("vectors", "pictures")])
def test_each_kind_that_a_class_holds_must_be_seen(tmp_path: Path, holds: tuple[str, ...]) -> None:
    """A table with photographs in the clear and vectors that are not: seeing a photograph says nothing of vectors."""
    random = np.random.default_rng(0)
    photographs = [random.bytes(64) for _ in range(2)]
    one = FileClass("table", written(tmp_path, a=photographs[1]).files, holds=holds)  # type: ignore[arg-type]
    who = Needles(WHO.vectors, contents=[photographs[0][:32]])
    scan = scan_class(one, who, Needles(STAYS.vectors, contents=[photographs[1][:32]]))
    assert scan.verdict == ("GONE" if holds == ("pictures",) else "BLIND")


def test_the_worst_verdict_counts() -> None:
    assert worst([]) == "GONE"
    assert worst(["GONE", "BLIND"]) == "BLIND"
    assert worst(["UNREACHED", "BLIND", "GONE"]) == "UNREACHED"
    assert worst(list(ORDER)) == "RESIDUE"


# --- stores ----------------------------------------------------------------------------------------------------------


def gallery(path: Path, names: list[str], vectors: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> str:
    np.savez(path, embeddings=vectors, names=np.array(names))
    return str(path)


def test_a_copy_beside_the_store_is_residue(tmp_path: Path) -> None:
    address = gallery(tmp_path / "g.npz", ["Ann", "Ann", *map(str, range(20))], np.concatenate([PERSON, OTHERS]))
    (tmp_path / "g.npz.bak").write_bytes((tmp_path / "g.npz").read_bytes())
    with open_store(address, write=True) as store:
        keys = [item.key for item in store.find(Sought(names=["Ann"])).items]
        person = needles_of(store, keys)
        store.delete(keys)
        scan = scan_store(store, person, keys)
    assert {one.name: one.verdict for one in scan.classes} == {"file": "GONE", "copies beside it": "RESIDUE"}
    assert (scan.verdict, scan.found) == ("RESIDUE", 2 * EACH)


def test_the_same_template_under_a_name_that_stays_is_no_residue(tmp_path: Path) -> None:
    others = people(500, seed=3)
    names = ["Ann", "Ann", "Guest", *map(str, range(500))]
    vectors = np.concatenate([PERSON, PERSON[:1], others])
    with open_store(gallery(tmp_path / "g.npz", names, vectors), write=True) as store:
        keys = [item.key for item in store.find(Sought(names=["Ann"])).items]
        person = needles_of(store, keys)
        store.delete(keys)
        scan = scan_store(store, person, keys).classes[0]
        assert (scan.verdict, scan.found, scan.shared) == ("GONE", 0, EACH)


def test_when_everything_is_shared_nothing_can_be_said(tmp_path: Path) -> None:
    names, vectors = ["Ann", "Guest", "Bob"], np.stack([PERSON[0], PERSON[0], OTHERS[0]])
    with open_store(gallery(tmp_path / "g.npz", names, vectors), write=True) as store:
        keys = [item.key for item in store.find(Sought(names=["Ann"])).items]
        person = needles_of(store, keys)
        store.delete(keys)
        assert scan_store(store, person, keys).classes[0].verdict == "BLIND"


def test_the_last_person_of_a_gallery_leaves_nobody_to_be_seen(tmp_path: Path) -> None:
    with open_store(gallery(tmp_path / "g.npz", ["Ann", "Ann"], PERSON), write=True) as store:
        keys = [item.key for item in store.find(Sought(names=["Ann"])).items]
        person = needles_of(store, keys)
        assert store.delete(keys) == 2
        assert scan_store(store, person, keys).classes[0].verdict == "BLIND"


def test_needles_survive_in_a_file_that_only_the_owner_reads(tmp_path: Path) -> None:
    needles = Needles([PERSON[0], PERSON[1].astype(np.float64)], [b"code"], [b"piece", b"other"])
    needles.write(tmp_path / "needles.npz")
    read = Needles.read(tmp_path / "needles.npz")
    assert [vector.dtype for vector in read.vectors] == [np.float32, np.float64]
    assert all(np.array_equal(one, other) for one, other in zip(read.vectors, needles.vectors, strict=True))
    assert (read.codes, read.contents) == ([b"code"], [b"piece", b"other"])
    assert stat.S_IMODE(os.stat(tmp_path / "needles.npz").st_mode) == 0o600


def test_rows_that_stay_are_not_looked_for_among_those_that_go(tmp_path: Path) -> None:
    names = ["Ann", "Ann", *map(str, range(20))]
    with open_store(gallery(tmp_path / "g.npz", names, np.concatenate([PERSON, OTHERS]))) as store:
        keys = [item.key for item in store.find(Sought(names=["Ann"])).items]
        scan = scan_store(store, needles_of(store, keys), keys).classes[0]
        assert (scan.found, scan.shared, scan.control_found) == (2 * EACH, 0, 20 * EACH)
        every = [Key("rows", id) for block in store.blocks("rows") for id in block.ids]
        assert scan_store(store, needles_of(store, keys), every).classes[0].control_fragments == 0


# --- files that come and go while they are read ----------------------------------------------------------------------


class Rolling(Npz):
    """A gallery with a log. Whenever its files are listed, `roll` happens right after."""

    def __init__(self, address: Address, roll: Callable[[Path], None], planted: bool = False) -> None:
        super().__init__(address)
        self.roll, self.planted, self.logs = roll, planted, self.path.parent / "logs"

    def plants(self) -> dict[str, Vectors]:
        if not self.planted:
            return {}
        (self.logs / "control").write_bytes(OTHERS[5:6].tobytes())
        return {"log": OTHERS[5:6]}

    def file_classes(self) -> list[FileClass]:
        found = [*super().file_classes(), FileClass("log", sorted(self.logs.iterdir()))]
        self.roll(self.logs)
        return found


def rolled(folder: Path, roll: Callable[[Path], None], planted: bool = False) -> ClassScan:
    """The scan of the log, while it is rolled. The person is in no row of the gallery."""
    np.savez(folder / "gallery.npz", embeddings=OTHERS, names=np.array([f"p{i}" for i in range(len(OTHERS))]))
    (folder / "logs").mkdir()
    (folder / "logs" / "1").write_bytes(PERSON.tobytes())
    store = Rolling(parse(str(folder / "gallery.npz")), roll, planted)
    store.open(False)
    with store:
        return next(one for one in scan_store(store, WHO, []).classes if one.name == "log")


def test_what_takes_the_place_of_a_listed_file_is_read_too(tmp_path: Path) -> None:
    def roll(logs: Path) -> None:
        if (logs / "1").exists():
            (logs / "1").rename(logs / "2")

    found = rolled(tmp_path, roll)
    assert (found.verdict, found.found, found.files) == ("RESIDUE", 2 * EACH, 1)


def test_a_file_that_vanished_unread_is_no_proof(tmp_path: Path) -> None:
    """It may lie under a name that nobody lists. Without a control nothing is GONE."""
    found = rolled(tmp_path, lambda logs: (logs / "1").unlink(missing_ok=True))
    assert (found.verdict, found.files, found.bytes) == ("BLIND", 0, 0)
    assert "vanished" in found.reason


def test_a_control_that_was_written_must_be_seen(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    assert rolled(tmp_path / "seen", lambda logs: (logs / "1").unlink(missing_ok=True), planted=True).verdict == "GONE"

    def roll(logs: Path) -> None:
        for path in logs.iterdir():
            path.write_bytes(b"")

    (tmp_path / "cut").mkdir()
    cut = rolled(tmp_path / "cut", roll, planted=True)
    assert (cut.verdict, cut.control_found) == ("BLIND", 0)


def test_files_that_never_settle_are_unreached(tmp_path: Path) -> None:
    numbers = itertools.count(10)

    def roll(logs: Path) -> None:
        (logs / "1").unlink(missing_ok=True)
        (logs / f"{next(numbers)}").write_bytes(OTHERS.tobytes())

    found = rolled(tmp_path, roll)
    assert found.verdict == "UNREACHED"
    assert "stop whatever writes" in found.reason
