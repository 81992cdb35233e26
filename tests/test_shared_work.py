"""What several processes make together is what one makes alone: faces, captures, embeddings, frames, evaluations."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from damnatio import embedding, frames
from damnatio.captures import find_captures
from damnatio.evaluation import nonmated, scanning, searching
from damnatio.evaluation.legacy import Embedded
from damnatio.evaluation.measuring import measure, reference_from, write
from damnatio.evaluation.searching import top_two
from damnatio.evaluation.tails import scan, scan_tail, tail, window
from damnatio.evaluation.tails.zoom import zoom
from damnatio.faces import collecting
from damnatio.faces.base import Faces
from damnatio.faces.collecting import collect
from damnatio.frames import greedy
from damnatio.models.inputs import Pixels, embed_together
from damnatio.recipe.schema import CaptureSettings
from damnatio.support import processes
from tests.evaluation.small_world import compared, partitions, random_units
from tests.evaluation.test_calibrating import development
from tests.faces.test_collecting import source
from tests.test_embedding import CARD, ROWS, Flat, Held

PROGRAM = "import sys; from pathlib import Path; from tests.test_shared_work import main; main(Path(sys.argv[1]))"


def digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def faces_and_captures(folder: Path) -> None:
    collecting.CHUNK = 10
    for workers in (0, 2):
        place = folder / f"faces-{workers}"
        collect(source(workers=workers), place)
        find_captures(Faces(place, source()), CaptureSettings(), place)


def embeddings(folder: Path) -> list[str]:
    embedding.PIECE = 10
    faces = cast(Faces, Held())
    embedding.write_embeddings(Flat(), CARD, faces, ROWS, 4, folder / "embeddings")
    units = embed_together(Flat(), Pixels(faces, CARD), dim=CARD.dim, rows=ROWS, batch=4)
    return [digest(units), digest(embed_together(Flat(), Pixels(faces, CARD), dim=CARD.dim, rows=ROWS[:3], batch=4))]


def frame(folder: Path) -> list[str]:
    frames.DRAWN, frames.ROWS = 60, 16
    others = torch.nn.functional.normalize(torch.randn(30, 8, generator=torch.Generator().manual_seed(1)), dim=1)
    found = [greedy(11, others, 20, 5, folder / place) for place in ("frame", "frame")]
    return [digest(targets.numpy()) for targets in found]


def evaluation(folder: Path) -> list[Any]:
    """Every search, scan and stream is shared here, however small."""
    scanning.ROWS, nonmated.HELD, tail.PILOT = 16, 0, 30
    for module in (scan, searching):
        vars(module)["PAIRS"] = 1
    units, codes = development(1)
    order = np.argsort(codes, kind="stable")
    found: list[Any] = []
    for cap in (300, 40, 0):
        window.CAP = cap
        result = scan_tail(units, codes, (0.002, 0.01, 0.1), (0.05,))
        found += [str(result.calibrations), str(result.curve)]
        found += [sorted(zip(kept.i.tolist(), kept.j.tolist(), strict=True)) for kept in result.samples.values()]
    found.append(zoom(units[order], codes[order], 7))
    best = top_two(units, units[::3])
    found += [digest(array) for array in (best.best, best.score, best.second, best.second_score)]
    table = partitions()
    star, rows = random_units(table, 1)
    other, _ = random_units(table, 2)
    original = measure(compared(table, star, rows, "S1"), [0.01, 0.1], None, 20)
    write(original, folder / "evaluation")
    altered = compared(table, other, rows, "S1", Embedded(star, rows))
    write(measure(altered, [0.01, 0.1], reference_from(original), 20), folder / "altered")
    return found


def main(folder: Path) -> None:
    processes.join()

    def prepare() -> None:
        for place in ("faces-0", "faces-2", "embeddings", "frame", "evaluation", "altered"):
            (folder / place).mkdir(parents=True)

    processes.from_main(prepare)
    faces_and_captures(folder)
    found = {"embeddings": embeddings(folder), "frame": frame(folder), "evaluation": evaluation(folder)}
    (folder / f"{processes.rank()}.json").write_text(json.dumps(found))
    processes.leave()


@pytest.mark.cli
def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    for name, launcher in (("one", []), ("two", run)):
        command = [*launcher, sys.executable, "-c", PROGRAM, str(tmp_path / name)]
        subprocess.run(command, check=True, timeout=300, env=settings)
    one, first, second = (
        json.loads((tmp_path / place).read_text()) for place in ("one/0.json", "two/0.json", "two/1.json")
    )
    for what, found in one.items():
        assert first[what] == found, what
        assert second[what] == found, what
    files = {path.relative_to(tmp_path / "one") for path in (tmp_path / "one").glob("*/**/*") if path.is_file()}
    assert {path.relative_to(tmp_path / "two") for path in (tmp_path / "two").glob("*/**/*") if path.is_file()} == files
    assert len(files) > 20
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file
    assert (tmp_path / "one/faces-0/faces.parquet").read_bytes() == (
        tmp_path / "one/faces-2/faces.parquet"
    ).read_bytes()
