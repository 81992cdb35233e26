"""Stage 1 in pieces: the same files however the work is shared, and after a kill in the middle."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from damnatio.faces import collecting
from damnatio.faces.base import Faces, FaceSource, UnreadableError
from damnatio.faces.collecting import collect
from damnatio.faces.distances import SCALES, pixel_distances
from damnatio.recipe.schema import FaceSettings, PixelScale
from damnatio.support.errors import DamnatioError
from damnatio.support.tables import Table, groups_of

SIZE = 16
PEOPLE = 23


class Drawn(FaceSource):
    """Images drawn from their names; every seventh cannot be read. Each read is noted in a file, if there is one."""

    class Settings(FaceSettings):
        source: Literal["drawn"] = "drawn"
        log: Path | None = None

    def fingerprint(self) -> Any:
        return 0

    def index(self) -> Table:
        names = [(person, number) for person in range(PEOPLE) for number in range(1 + person * 5 % 9)]
        return Table(
            {
                "image": [f"{p:02d}/{n}" for p, n in names],
                "identity": [f"{p:02d}" for p, _ in names],
                "n": range(len(names)),
            }
        )

    def read(self, rows: Table) -> list[NDArray[np.uint8] | UnreadableError]:
        if self.settings.log:
            with self.settings.log.open("a") as log:
                log.write("".join(f"{number}\n" for number in rows["n"]))
        return [UnreadableError(f"seven and {n % 2}") if n % 7 == 3 else _image(int(n)) for n in rows["n"]]


def _image(number: int) -> NDArray[np.uint8]:
    return np.random.default_rng(number // 3).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8) // (1 + number % 3)


def source(**settings: Any) -> Drawn:
    return Drawn(Drawn.Settings(size=SIZE, **settings))


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def made(folder: Path, **settings: Any) -> dict[str, bytes]:
    folder.mkdir(exist_ok=True)
    collect(source(**settings), folder)
    return files(folder)


def test_outputs_do_not_depend_on_the_workers_or_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = made(tmp_path / "once", workers=0)
    assert set(once) == {"faces.parquet", "skipped.parquet", "distances.npy", "pixels.npy", "summary.json"}
    for chunk, workers in ((1, 2), (10, 3), (10, 0), (40, None)):
        monkeypatch.setattr(collecting, "CHUNK", chunk)
        assert made(tmp_path / f"{chunk}-{workers}", workers=workers) == once
    bare = made(tmp_path / "bare", workers=2, cache_gb=0)
    assert bare == {name: content for name, content in once.items() if name != "pixels.npy"}


@pytest.mark.parametrize("scale", SCALES)
def test_stored_distances_are_those_of_the_pixels(tmp_path: Path, scale: PixelScale) -> None:
    made(tmp_path)
    faces = Faces(tmp_path, source())
    stored, naive = faces.distances(scale), np.load(tmp_path / "pixels.npy")
    identities = faces.table["identity"]
    seen = 0
    for rows in groups_of(np.array([int(name) for name in identities])):
        distances = stored.of(rows)
        for i, a in enumerate(rows):
            for j, b in enumerate(rows):
                assert distances[i, j] == (pixel_distances(naive[[a, b]], scale)[0, 1] if i != j else 0)
                seen += i < j
    assert seen == len(np.load(tmp_path / "distances.npy"))


def test_identities_of_one_image_have_no_distances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Drawn.index
    monkeypatch.setattr(Drawn, "index", lambda self: whole(self).where(np.array([0, 1, 7])))
    made(tmp_path)
    faces = Faces(tmp_path, source())
    assert faces.distances("input").of(np.array([1])).tolist() == [[0]]


def test_identity_at_several_places_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Drawn.index
    monkeypatch.setattr(Drawn, "index", lambda self: whole(self).where(np.array([1, 2, 8, 3])))
    with pytest.raises(DamnatioError, match="must keep the rows of an identity together"):
        made(tmp_path)


@pytest.mark.parametrize("workers", [0, 2])
def test_what_was_finished_is_not_decoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    """An error on the disk stops the first call, whether a worker or the command meets it."""
    monkeypatch.setattr(collecting, "CHUNK", 10)
    once = made(tmp_path / "once")
    read = Drawn.read

    def fails(self: Drawn, rows: Table) -> Any:
        if rows["n"][-1] > 60:
            time.sleep(0.2)
            raise OSError(28, "No space left on device")
        return read(self, rows)

    with monkeypatch.context() as broken:
        broken.setattr(Drawn, "read", fails)
        with pytest.raises(OSError, match="No space left"):
            made(tmp_path / "again", workers=workers)
    kept = [path.name for path in (tmp_path / "again" / "pieces").iterdir()]
    assert kept
    log = tmp_path / "log"
    assert made(tmp_path / "again", workers=workers, log=log) == once
    finished = {n for name in kept for n in range(*map(int, name.split(".")[0].split("-")[1:3]))}
    assert {int(line) for line in log.read_text().split()} == set(range(len(source().index()))) - finished


def test_worker_that_the_system_stops_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "CHUNK", 10)
    monkeypatch.setattr(Drawn, "read", lambda self, rows: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(DamnatioError, match="A worker process ended before its work was done"):
        made(tmp_path, workers=2)


def _runs(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.cli
def test_killed_call_goes_on_to_the_same_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9 of the command: its workers end with it, and leave whole pieces only."""
    program = (
        "import os, sys, time; from pathlib import Path; from damnatio.faces import collecting; collecting.CHUNK = 10\n"
        "from tests.faces.test_collecting import Drawn, made; read = Drawn.read\n"
        "def waits(self, rows):\n"
        "    Path(sys.argv[2], str(os.getpid())).touch()\n"
        "    return time.sleep(600) if rows['n'][-1] > 40 else read(self, rows)\n"
        "Drawn.read = waits; made(Path(sys.argv[1]), workers=2)"
    )
    out, workers = tmp_path / "out", tmp_path / "workers"
    workers.mkdir()
    with subprocess.Popen([sys.executable, "-c", program, str(out), str(workers)]) as process:
        deadline = time.monotonic() + 300
        while not list(out.glob("pieces/faces-*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
    while any(_runs(worker) for worker in os.listdir(workers)):
        assert time.monotonic() < deadline, "a worker goes on alone"
        time.sleep(0.02)
    monkeypatch.setattr(collecting, "CHUNK", 10)
    wanted = made(tmp_path / "once", workers=0)
    log = tmp_path / "log"
    assert made(out, workers=0, log=log) == wanted
    assert 0 < len(log.read_text().split()) < len(source().index())
