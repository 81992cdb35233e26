"""The rehearsal of the paper's size runs at a thousandth of it, and its records are what InsightFace's would be."""

import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from damnatio.faces.recordio import RecordIO
from damnatio.partitions import FILE, Partitions
from rehearsal.recipe import Size
from rehearsal.records import write
from rehearsal.watching import watch

ROOT = Path(__file__).resolve().parents[2]


def source(path: Path) -> RecordIO:
    return RecordIO(RecordIO.Settings(source="recordio", path=path, size=16))


def test_the_records_are_read_with_their_index_and_without(tmp_path: Path) -> None:
    total = write(tmp_path / "train.rec", identities=40, images=800, side=16)
    with_index = source(tmp_path / "train.rec").index()
    (tmp_path / "train.idx").unlink()
    without = source(tmp_path / "train.rec").index()
    assert len(with_index) == len(without) == total
    assert 500 < total < 1100  # geometric, of mean 20
    for name in ("image", "identity", "offset"):
        assert np.array_equal(with_index[name], without[name])
    assert len(set(with_index["identity"])) == 40
    images = source(tmp_path / "train.rec").read(with_index)
    pixels = np.stack([image for image in images if isinstance(image, np.ndarray)])
    assert pixels.shape == (total, 16, 16, 3)
    first = with_index["identity"] == with_index["identity"][0]
    assert len(np.unique(pixels[first], axis=0)) > 0.8 * first.sum()  # different pictures, and a burst now and then


def test_the_first_record_says_where_the_images_end(tmp_path: Path) -> None:
    total = write(tmp_path / "train.rec", identities=5, images=100, side=16)
    content = (tmp_path / "train.rec").read_bytes()
    flag, _, _, _, end, last = struct.unpack_from("<IfQQff", content, 8)
    assert (flag, end, last) == (2, total + 1, total + 6)
    assert len((tmp_path / "train.idx").read_text().splitlines()) == total + 6


def test_the_full_size_is_the_papers() -> None:
    size = Size(1)
    assert size.identities == 205_990
    assert size.partitions["retain"] == 100_000
    assert size.partitions["scales"] == "{S1: 1000, S2: 5000}"


def test_the_peak_of_a_child_process_is_seen_and_an_endless_command_is_ended(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    child = f"import time; x = b'1' * 300_000_000; open({str(ready)!r}, 'w'); time.sleep(600)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    found = watch([sys.executable, "-c", code], tmp_path / "log", enough=_second_look(ready))
    assert found.ended
    if sys.platform == "linux":
        assert 300e6 < found.peak < 400e6


def _second_look(file: Path) -> Callable[[], bool]:
    """Whether the file was there before: what made it has been looked at since."""
    seen = [False]

    def is_second() -> bool:
        before, seen[0] = seen[0], file.exists()
        return before

    return is_second


@pytest.mark.cli
def test_a_thousandth_of_the_rehearsal(tmp_path: Path) -> None:
    """A training is ended after a few steps and goes on from its checkpoint; finished steps are kept."""
    steps = ["records", "partitions", "train", "resume"]
    command = [sys.executable, str(ROOT / "benchmarks/rehearsal"), "--share", "0.001", "--processes", "1"]
    command += ["--work", str(tmp_path), "--only", *steps, "--set", "threads=1"]
    first = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert first.returncode == 0, first.stdout + first.stderr
    table = (tmp_path / "0.001/rehearsal.md").read_text()
    assert all(f"| {step} |" in table for step in steps)
    assert "after the checkpoint of step" in table
    (file,) = (tmp_path / "0.001/run/3-partitions").glob(f"*/{FILE}")
    partitions = Partitions.read(file)
    assert len(set(partitions.retain()[1])) == 100
    assert partitions.scales == {"S1": 2, "S2": 5}
    again = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert again.stdout.count("kept") == len(steps)
    anew = subprocess.run(
        [*command, "--only", "train", "--again"], check=False, capture_output=True, text=True, cwd=ROOT
    )
    assert "steps from the beginning" in anew.stdout, anew.stdout + anew.stderr
