"""The contest of all methods, on a world of seconds."""

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import TINY

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from contest.holding import hold
from contest.rules import CONTESTANTS, World
from contest.worlds import Place

SMALL = World(recipe="demo", steps=3, retain=16, common=(), tuning=())
OVERRIDES = [*TINY, "evaluate.operating_points=[0.0001, 0.01]", "partitions.scales={S1: 3}"]
TWO = [contestant for contestant in CONTESTANTS if contestant.name in ("HD", "GS")]


@pytest.mark.cli
def test_a_contest_is_held_once_and_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(SMALL, tmp_path / "demo", OVERRIDES)
    first = hold(place, TWO, draws=(1,))
    print(capsys.readouterr().err)
    assert 0
