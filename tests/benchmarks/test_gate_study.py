"""The study of gate and scatter runs, and its committed tables are what it wrote."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damnatio.evaluation.measuring import measure, reference_from
from damnatio.evaluation.protocol import compare
from tests.conftest import TINY

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results" / "gate-and-scatter"


def module(name: str) -> Any:
    return importlib.import_module(f"benchmarks.gate_study.{name}")


SMALL = [
    *TINY,
    "partitions.scales={P10: 2, P40: 6}",
    "forget.scales=[P10, P40]",
    "forget.methods=[HD]",
]
FEW = {
    "people": 3,
    "used": 3,
    "new": 3,
    "counts": (1, 3),
    "bounds": (1e-2, 1e-1),
    "draws": 1,
    "at_hand": 10,
    "bandwidths": (8,),
    "waves": (64,),
    "again": 1,
    "bystanders": 2,
    "averages": (1, 3),
    "nearest": 1,
}


@pytest.mark.cli
def test_every_study_runs_and_its_rates_are_those_of_the_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    choices = module("choices").Choices(**FEW)
    tables, main = module("tables"), module("__main__")
    sets = [word for setting in SMALL for word in ("--set", setting)]
    work, out = str(tmp_path / "work"), str(tmp_path / "out")
    main.main(["--out", out, "--work", work, "--worlds", "rendered", "--threads", "1", *sets], choices)
    for study in main.STUDIES:
        rows = tables.read(study, tmp_path / "out")
        assert rows, study
        assert (tmp_path / "out" / f"{study}.md").read_text() == tables.markdown(study, rows)
    assert {file.stem for file in (tmp_path / "out").glob("*.png")} == set(module("figures").FIGURES)

    worlds, trials, rates = module("worlds"), module("trials"), module("rates")
    world = worlds.with_people(worlds.rendered(tmp_path / "work", [*SMALL, "threads=1"]), choices)
    judge = rates.Judge(world, worlds.SCALE)
    before = measure(compare(world.units, world.rows, world.partitions, worlds.SCALE, 0, 1), (1e-4, 1e-2), None)
    wide = trials.forget(world, trials.known(world), strangers=0.4)
    assert np.count_nonzero(wide.opening > 0)
    after = measure(
        compare(wide.units, world.rows, world.partitions, worlds.SCALE, 0, 1), (1e-4, 1e-2), reference_from(before)
    )
    for found, units in ((before, world.units), (after, wide.units)):
        value = {(r.group, r.metric, r.operating_point): r.value for r in found.results if r.task == "1:1"}
        shown = judge.rates(units)
        for name, group in {"test": "T", "tr-tr": "Ftr-Ftr", "ev-ev": "Fev-Fev", "averaged": "avg(Ftr)-Fev"}.items():
            for point in (1e-4, 1e-2):
                assert shown[f"{name} {point:g}"] == pytest.approx(value[group, "TMR", point], abs=0.02), (name, point)
        distances = {(r.group, r.metric): r.value for r in found.results if r.metric in ("W1", "footprint")}
        assert shown["W1 ev-ev"] == pytest.approx(distances["Fev-Fev", "W1"], abs=1e-4)
        assert shown["footprint"] == pytest.approx(distances["R", "footprint"], abs=1e-4)


def test_the_committed_tables_are_made_of_the_committed_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    tables = module("tables")
    for study in tables.SHORT:
        rows = tables.read(study, RESULTS)
        assert {row["world"] for row in rows}, study
        assert (RESULTS / f"{study}.md").read_text() == tables.markdown(study, rows), study


def test_the_area_under_the_curve_counts_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    area = module("adversaries").area
    higher, lower = np.array([0.2, 0.5, 0.9]), np.array([0.1, 0.5])
    # 0.2 beats one of two; 0.5 beats one and ties with one; 0.9 beats both: (1 + 1.5 + 2) / 6
    assert area(higher, lower) == pytest.approx(4.5 / 6)
