"""Hours of trainings, by hand from manifests and logs."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from damnatio.reporting.cost import Cost, of_training, read, table, write


def training(folder: Path, seconds: float, settings: dict[str, Any], log: list[tuple[int, float]], **made: Any) -> Path:
    folder.mkdir()
    if log:
        lines = [json.dumps({"step": step, "images_per_second": speed}) for step, speed in log]
        (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    stage = "5-forget" if "forget" in settings or "method" in settings else "4-train"
    manifest = {"key": "k", "stage": stage, "settings": settings, "files": {}, "made": {"seconds": seconds, **made}}
    (folder / "stage.json").write_text(json.dumps(manifest))
    return folder


def test_hours_are_those_of_all_processes(tmp_path: Path) -> None:
    """Ten steps of 100 images at 50 a second and ten at 100 take 30 s; with what was prepared before them 36 s."""
    log = [(10, 50.0), (20, 100.0)]
    whole = training(tmp_path / "a", 36, {"forget": {"batch": 100}}, log, machine="x86_64 x 2")
    assert of_training(whole) == Cost(36 / 3600, 20, "x86_64 x 2")
    four = training(tmp_path / "b", 36, {"train": {"batch": 100}}, log, processes=4, device="A100", machine="x")
    assert of_training(four) == Cost(4 * 36 / 3600, 20, "A100")


def test_interrupted_training_counts_what_was_done_before(tmp_path: Path) -> None:
    """The last call took 12 s of the 30."""
    folder = training(tmp_path / "a", 12, {"forget": {"batch": 100}}, [(10, 50.0), (20, 100.0)])
    assert of_training(folder).hours == pytest.approx(30 / 3600)


def test_closed_form_has_no_step_and_imported_weights_no_hours(tmp_path: Path) -> None:
    assert of_training(training(tmp_path / "a", 9, {"method": {}}, [])) == Cost(9 / 3600, 0, "")
    assert math.isnan(of_training(training(tmp_path / "b", 9, {"model": {}}, [])).hours)


def test_costs_are_read_as_they_were_written(tmp_path: Path) -> None:
    spent = {("S1", "original"): Cost(1.5, 7, "A100"), ("S2", "HD"): Cost(0.25, 3)}
    write(spent, tmp_path)
    assert read(tmp_path) == spent
    assert read(tmp_path / "elsewhere") == {}


def test_table() -> None:
    panels = {"S1": [{"original": Cost(1.0, 5, "A"), "HD": Cost(0.5, 2, "B")}], "S2": [{"original": Cost(1.0, 5, "A")}]}
    grid = table(panels, {"original": "f*", "OF": "OF", "HD": "HD"})
    assert [[cell.text for cell in row] for row in grid.rows] == [
        ["f*", "1.0000", "5", "1.0000", "5"],
        ["HD", "0.5000", "2", "-", "0"],
    ]
    assert "Device: A, B." in grid.notes[0]
