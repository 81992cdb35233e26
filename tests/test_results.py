"""The scripts beside the committed results."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def compared(first: Path, second: Path) -> list[str]:
    command = [sys.executable, str(ROOT / "results/compare.py"), str(first), str(second)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_compare_names_the_row_of_each_metric_that_moved_most(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    titles = (
        "backbone,scale,method,task,group,operating_point,metric,value,count,subjects,low,high,wilson_low,wilson_high"
    )
    rows = ["1:1,R,0.01,TMR,0.9,1000,9,0.8,0.95,,", "1:1,T,0.01,TMR,0.8,1000,9,0.7,0.85,,", "1:1,R,,W1,0.5,7,0,,,,"]
    first.write_text("\n".join([titles, *(f"net,S1,HD,{row}" for row in rows), "net,S1,OF,1:1,R,,EER,0.1,7,0,,,,"]))
    moved = [rows[0].replace("0.9,", "0.85,"), rows[1].replace("0.8,1", "0.9,1"), rows[2]]
    second.write_text("\n".join([titles, *(f"net,S1,HD,{row}" for row in moved)]))
    lines = compared(first, second)
    assert lines[1].split()[:3] == ["1:1", "TMR", "0.01"]
    assert lines[1].endswith("HD T: 0.8000 -> 0.9000, n = 1,000")
    assert " 0.0750  0.1000  1 of 2 " in lines[1]
    assert lines[2].endswith("HD R: 0.5000 -> 0.5000, n = 7")
    assert lines[-1] == "3 rows compared; 1 are in one of the two only"


def test_compare_reads_the_committed_results() -> None:
    committed = ROOT / "results/demo/results.csv"
    assert all(" 0.0000  0.0000 " in line for line in compared(committed, committed)[1:-1])


@pytest.mark.parametrize("source", ["synthetic", "folder"])
def test_collect_takes_every_table_along_and_no_photograph(tmp_path: Path, source: str) -> None:
    run, target = tmp_path / "run", tmp_path / "target"
    (run / "report").mkdir(parents=True)
    tables = {"rates.md", "distances.md", "legacy.md", "people.md", "rates-fixed.md", "protocol.md", "findings.md"}
    for name in (*tables, "results.csv", "warnings.csv", "captures.png", "index.html"):
        (run / "report" / name).write_text("")
    made = {"command": "damnatio run", "damnatio": "0", "machine": "m", "finished": "today"}
    recipe = {"faces": {"source": source}}
    (run / "report/stage.json").write_text(json.dumps({"settings": {"recipe": recipe}, "made": made}))
    call = "import sys; from pathlib import Path; from collect import collect; collect(*map(Path, sys.argv[1:]))"
    command = [sys.executable, "-c", call, str(run), str(target)]
    subprocess.run(command, cwd=ROOT / "results", check=True)
    found = {path.name for path in target.iterdir()}
    assert found - {"captures.png"} == tables | {"results.csv", "warnings.csv", "recipe.yaml"}
    assert ("captures.png" in found) == (source == "synthetic")
