"""The scripts beside the committed results."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from damnatio.recipe.files import load
from damnatio.reporting.joined import Run, write_joined
from tests.reporting.test_joined import a_run

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


def in_results(call: str, *words: str) -> str:
    """What Python prints among the scripts."""
    command = [sys.executable, "-c", f"import sys; from pathlib import Path; {call}", *words]
    return subprocess.run(command, cwd=ROOT / "results", check=True, capture_output=True, text=True).stdout


def test_collect_takes_the_report_of_each_experiment(tmp_path: Path) -> None:
    run, target = tmp_path / "run", tmp_path / "target"
    made = {"command": "damnatio run", "damnatio": "0", "machine": "m", "finished": "today"}
    settings = {"report": {"experiments": ["a", "b"]}} | {
        f"report-{name}": {"recipe": {"faces": {"source": "folder"}, "name": name}} for name in ("a", "b")
    }
    for folder, setting in settings.items():
        (run / folder).mkdir(parents=True)
        (run / folder / "stage.json").write_text(json.dumps({"settings": setting, "made": made}))
        for name in ("results.csv", "cost.jsonl", "rates.md", "captures.png", "index.html"):
            (run / folder / name).write_text(folder)
    call = "from collect import collect; print(*[folder.name for folder in collect(*map(Path, sys.argv[1:]))])"
    assert in_results(call, str(run), str(target)).split() == ["a", "b"]
    files = {str(file.relative_to(target)) for file in target.rglob("*") if file.is_file()}
    own = ("results.csv", "cost.jsonl", "rates.md", "recipe.yaml")
    assert files == {f"{name}/{file}" for name in ("a", "b") for file in own}
    assert (target / "b/rates.md").read_text() == "report-b"
    assert "name: b" in (target / "b/recipe.yaml").read_text()


def collected(target: Path, *words: tuple[str, str, str]) -> None:
    """Reports as they are collected: experiment, backbone and source of faces of each."""
    for name, backbone, source in words:
        run = a_run(target / name, name, backbone, seed=1)
        content = run.recipe.model_dump(mode="json")
        content["faces"] = {"source": "folder", "root": "/faces"} if source == "folder" else content["faces"]
        (target / name / "recipe.yaml").write_text(yaml.safe_dump(content))


def joined(target: Path) -> "subprocess.CompletedProcess[str]":
    call = "import sys; from pathlib import Path; from collect import _reports_in, join; here = Path(sys.argv[1]); "
    command = [sys.executable, "-c", f"{call}join(_reports_in(here), here)", str(target)]
    return subprocess.run(command, check=False, cwd=ROOT / "results", capture_output=True, text=True)


def test_experiments_that_were_collected_one_after_the_other_are_joined_as_a_run_joins_them(tmp_path: Path) -> None:
    target, at_once = tmp_path / "target", tmp_path / "report"
    collected(target, ("vit", "vit-tiny", "synthetic"))
    assert joined(target).returncode == 0
    collected(target, ("iresnet", "iresnet-tiny", "synthetic"))
    assert joined(target).returncode == 0
    at_once.mkdir()
    backbones = {"vit": "vit-tiny", "iresnet": "iresnet-tiny"}  # what was here first comes first
    words = {name: ["forget.methods=[PD, OF]", f"model.backbone={backbone}"] for name, backbone in backbones.items()}
    write_joined("both", [Run(name, load("demo", words[name]), target / name) for name in backbones], at_once)
    made = {file.name for file in target.iterdir() if file.is_file()}
    assert {"results.csv", "verification.md", "rates.tex", "cost.md", "trade-off.png", "findings.md"} <= made
    assert [name for name in sorted(made) if (target / name).read_bytes() != (at_once / name).read_bytes()] == []


def test_experiments_of_two_protocols_are_not_joined(tmp_path: Path) -> None:
    collected(tmp_path, ("iresnet", "iresnet-tiny", "synthetic"), ("vit", "vit-tiny", "folder"))
    done = joined(tmp_path)
    assert done.returncode == 1
    assert "cannot stand in one table: faces." in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.csv"))


def test_page_of_an_open_question_has_a_column_per_head_and_the_order_of_the_methods(tmp_path: Path) -> None:
    folder = tmp_path / "open-question-heads"
    folder.mkdir()
    titles = "experiment,seed,scale,method,task,group,operating_point,metric,value,count"
    values = {"cosface": (0.9, 0.5, 0.7, 0.6), "arcface": (0.8, 0.4, 0.5, 0.6)}
    rows = [
        f"{head},1,S,{method},1:1,T,0.01,TMR,{value},100"
        for head, of_head in values.items()
        for method, value in zip(("original", "HD", "OF", "EC"), of_head, strict=True)
    ]
    rows += [f"{head},1,S,original,1:1,D,0.01,FMR,0.01,100000" for head in values]
    rows += [f"{head},1,S,HD,1:N,T,0.01,TPIR,0.111,100" for head in values]
    (folder / "results.csv").write_text("\n".join([titles, *rows]))
    in_results("from open_questions import main; main(Path(sys.argv[1]))", str(folder))
    page = (folder / "README.md").read_text()
    assert "|  | cosface | arcface |" in page
    assert "| f\\* | 0.900 | 0.800 |" in page
    assert "| OF | 0.700 | 0.500 |" in page
    assert "| Strangers still recognised | 0.50 |" in page  # f* is not in the order: 1, 3, 2 against 1, 2, 3
    assert "with that of cosface of 0.50 at most and 0.50 at least (strangers still recognised, arcface)" in page
    assert "0.111" not in page
