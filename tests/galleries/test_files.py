"""What stores that are files share: they are replaced as a whole or not at all, and refused where that cannot be."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damnatio.galleries.base import Store
from damnatio.galleries.files import NEW, NOTE
from damnatio.galleries.items import Key, Sought
from damnatio.galleries.opening import open_store
from damnatio.support.errors import DamnatioError
from tests.galleries.scanning.spelt import people

NAMES, VECTORS = ["Ann", "Bob", "Ann", "Cid"], people(4)


@pytest.fixture
def address(tmp_path: Path) -> str:
    np.save(tmp_path / "rows.npy", VECTORS)
    (tmp_path / "names.json").write_text(json.dumps(NAMES))
    return f"npy:{tmp_path}/rows.npy?names=names.json"


def ann(store: Store) -> list[Key]:
    return [item.key for item in store.find(Sought(names=["Ann"])).items]


def state(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# --- killed ----------------------------------------------------------------------------------------------------------


class KilledError(BaseException):
    pass


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Die before the n-th act on the disk: a sync, a rename or a removal."""
    done = [0]

    def counted(act: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            done[0] += 1
            if done[0] >= step:  # a dead process does nothing afterwards either
                raise KilledError
            return act(*arguments, **named)

        return run

    for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))


@pytest.mark.parametrize("step", range(1, 16))
def test_wherever_it_is_killed_the_rows_and_their_names_agree(
    address: str, tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(address, write=True) as store:
        keys, others = ann(store), store.census(ann(store)).others
        with monkeypatch.context() as patched:
            killed_at(step, patched)
            with suppress(KilledError):
                store.delete(keys)
    with open_store(address, write=True) as store:
        assert store.census(keys).others == others
        left = store.census(keys).matched_rows
        assert left in (0, 2)
        assert store.delete(keys) == left
        for one in store.steps():
            one.run()
    assert json.loads((tmp_path / "names.json").read_text()) == ["Bob", "Cid"]
    assert np.array_equal(np.load(tmp_path / "rows.npy"), VECTORS[[1, 3]])
    assert sorted(state(tmp_path)) == ["names.json", "rows.npy"]


def test_half_a_replacement_is_said_to_a_reader(address: str, tmp_path: Path) -> None:
    (tmp_path / f".rows.npy{NOTE}").write_text("[]")
    with pytest.raises(DamnatioError, match="half replaced"):
        open_store(address)
    with open_store(address, write=True) as store:
        assert store.census().rows == {"rows": 4}


def test_leftovers_of_a_killed_process_are_scanned_and_removed(address: str, tmp_path: Path) -> None:
    left = tmp_path / f".rows.npy.123{NEW}"
    left.write_bytes(VECTORS.tobytes())
    with open_store(address, write=True) as store:
        assert left in {file for one in store.file_classes() for file in one.files}
        for step in store.steps():
            step.run()
    assert not left.exists()


def test_mode_is_kept_and_the_old_content_is_overwritten(address: str, tmp_path: Path) -> None:
    (tmp_path / "rows.npy").chmod(0o640)
    with (tmp_path / "rows.npy").open("rb") as old, open_store(address, write=True) as store:
        store.delete(ann(store))
        assert not any(old.read())
    assert (tmp_path / "rows.npy").stat().st_mode & 0o777 == 0o640


def test_a_link_to_the_file_stays_a_link(address: str, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "rows.npy").rename(tmp_path / "real/rows.npy")
    (tmp_path / "rows.npy").symlink_to("real/rows.npy")
    with open_store(address, write=True) as store:
        assert store.delete(ann(store)) == 2
    assert (tmp_path / "rows.npy").is_symlink()
    assert len(np.load(tmp_path / "real/rows.npy")) == 2


# --- refused ---------------------------------------------------------------------------------------------------------


def refused(address: str, said: str, folder: Path) -> None:
    before = state(folder)
    with pytest.raises(DamnatioError, match=said) as raised:
        open_store(address, write=True)
    assert "\n" not in str(raised.value)
    assert state(folder) == before


def test_a_read_only_file_is_refused(address: str, tmp_path: Path) -> None:
    (tmp_path / "rows.npy").chmod(0o444)
    refused(address, "is read-only", tmp_path)


def test_a_file_with_a_second_name_is_refused(address: str, tmp_path: Path) -> None:
    os.link(tmp_path / "rows.npy", tmp_path / "copy.npy")
    refused(address, "has 2 names", tmp_path)


def test_a_file_that_is_open_elsewhere_is_refused(address: str, tmp_path: Path) -> None:
    code = f"file = open({str(tmp_path / 'rows.npy')!r}, 'rb'); print('open', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        refused(address, rf"is open in process {other.pid}", tmp_path)
        with open_store(address) as store:  # reading is no harm
            assert store.census().rows == {"rows": 4}
        other.communicate(b"\n")


def test_a_file_that_is_mapped_elsewhere_is_refused(address: str, tmp_path: Path) -> None:
    path = str(tmp_path / "rows.npy")
    code = (
        "import mmap\n"
        f"with open({path!r}, 'rb') as file: held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n"
        "import os\n"
        "for n in os.listdir('/proc/self/fd'):\n"
        f"    if os.path.realpath(f'/proc/self/fd/{{n}}') == {path!r}: os.close(int(n))\n"
        "print('mapped', flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mapped\n"
        refused(address, "is open in process", tmp_path)
        other.communicate(b"\n")


def test_a_lock_is_respected(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "rows.npy").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused(address, "which locked it", tmp_path)


def test_a_disk_that_is_too_small_is_refused_before_anything_is_written(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with open_store(address, write=True) as store:
        before = state(tmp_path)
        with pytest.raises(DamnatioError, match="Nothing was deleted"):
            store.delete(ann(store))
    assert state(tmp_path) == before


def test_a_full_disk_leaves_everything_as_it_was(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with open_store(address, write=True) as store:
        before = state(tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space"):
                store.delete(ann(store))
        assert state(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("names.json", b'["Ann"]', "names 1: they do not belong together"),
        ("names.json", b'"Ann"', "cannot be read"),
        ("names.json", b"[", "cannot be read"),
        ("rows.npy", b"\x93NUMPY", "no readable .npy"),
        ("rows.npy", b"\x93NUMPY\x09\x00", "no readable .npy"),
    ],
)
def test_a_damaged_file_is_one_sentence(address: str, tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    refused(address, said, tmp_path)


def test_other_shapes_and_names_are_refused(address: str, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.ones(5))
    refused(address, r"of shape \[5\]", tmp_path)
    np.save(tmp_path / "rows.npy", np.array([["a"]]))
    refused(address, "vectors, ", tmp_path)
    np.save(tmp_path / "rows.npy", VECTORS)
    refused(address.replace("names.json", "none.json"), r"needs the file .*none\.json", tmp_path)
    (tmp_path / "names.csv").write_text("Ann")
    refused(address.replace("names.json", "names.csv"), "no known format", tmp_path)
    refused(address.replace("rows.npy", "gone.npy"), "There is no gallery", tmp_path)
