"""The pipeline through the command line, and what a person at the keyboard gets for a mistake."""

import csv
import errno
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from damnatio.cli.main import main
from damnatio.cli.stages import STAGES

pytestmark = pytest.mark.cli

GROUPS_11 = {"R", "T", "T single", "B", "Ftr-Ftr", "Ftr-Fev", "Fev-Fev", "avg(Ftr)-Fev", "FtrxFtr", "FevxFev"}
GROUPS_1N = {"R", "T", "Ftr", "Fev"}
METRICS = {"TMR", "FMR", "TPIR", "FPIR", "threshold", "W1", "deformation", "footprint", "weakly_forgotten", "EER"}
METRICS |= {"TMR_person", "TPIR_person"}
METRICS |= {"std", "quantile_0.001", "above_0.001", "W1_retain", "TMR_eer", "threshold_0.001", "threshold_eer"}
ALTERED = {"TMR_legacy", "FMR_legacy", "TPIR_legacy", "FPIR_legacy", "drift_cosine", "unchanged"}
"""metrics that compare an altered model with f*"""


def results(run: Path) -> list[dict[str, str]]:
    with (run / "report/results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run at both scales, made once for all tests of this file that only read."""
    from tests.conftest import TINY

    run = tmp_path_factory.mktemp("whole") / "run"
    words = [word for setting in (*TINY, "forget.scales=[S1, S2]") for word in ("--set", setting)]
    assert main(["run", "demo", "--run", str(run), *words]) == 0
    return run


def test_a_run_leaves_numbered_stages_and_a_report(finished: Path) -> None:
    stages = sorted(path.name for path in finished.iterdir() if not path.name.startswith("."))
    numbered = ["1-faces", "2-captures", "3-partitions", "4-train", "5-forget", "6-embed", "7-evaluate"]
    assert stages == [*numbered, "report"]
    names = {path.name for path in (finished / "report").iterdir()}
    for table in ("rates", "rates-fixed", "distances", "protocol", "text", "cost"):
        assert {f"{table}.md", f"{table}.csv", f"{table}.tex"} <= names
    for figure in ("distributions-S1", "distributions-S2", "det-S1", "det-S2", "captures", "trade-off", "mechanism"):
        assert {f"{figure}.png", f"{figure}.svg", f"{figure}.pdf"} <= names
    assert not list(finished.rglob(".partial-*"))


def test_cost_of_every_training_is_known(finished: Path) -> None:
    from damnatio.reporting.cost import read

    spent = read(finished / "report")
    assert list(spent) == [(scale, method) for scale in ("S1", "S2") for method in ("original", "HD", "OF")]
    assert spent["S1", "original"] == spent["S2", "original"]
    for (scale, method), cost in spent.items():
        stage = "4-train/original" if method == "original" else f"5-forget/{scale}-{method}"
        (folder,) = finished.glob(f"{stage}-????????")
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert cost.steps == lines[-1]["step"]
        seconds = json.loads((folder / "stage.json").read_text())["made"]["seconds"]
        assert cost.hours * 3600 > seconds - 0.001 > 0  # the manifest rounds to a thousandth


def test_the_page_is_self_contained(finished: Path) -> None:
    page = (finished / "report/index.html").read_text()
    assert re.search(r'src="data:image/(svg\+xml|png);base64,', page)
    assert "default-src 'none'" in page, "the browser fetches nothing"
    assert not re.findall(r"<(?:link|iframe|script|img)[^>]*(?:src|href)=[\"'](?!data:)", page)
    assert len(page) < 5_000_000


def test_results_are_long_and_complete(finished: Path) -> None:
    rows = results(finished)
    assert list(rows[0]) == [
        *("backbone", "scale", "method", "task", "group", "operating_point", "metric", "value", "count"),
        *("subjects", "low", "high", "wilson_low", "wilson_high"),
    ]
    for scale in ("S1", "S2"):
        for method in ("original", "HD", "OF"):
            mine = [row for row in rows if (row["scale"], row["method"]) == (scale, method)]
            assert {row["group"] for row in mine if row["task"] == "1:1"} >= GROUPS_11
            assert {row["group"] for row in mine if row["task"] == "1:N"} >= GROUPS_1N
            assert {row["metric"] for row in mine} >= METRICS
            assert {row["metric"] for row in mine} & ALTERED == (set() if method == "original" else ALTERED)
            assert {row["operating_point"] for row in mine} == {"0.01", "0.1", ""}
    assert all(0 <= float(row["value"]) <= 1 for row in rows if row["metric"] in ("TMR", "FMR", "TPIR", "FPIR"))
    calibrated = [row for row in rows if row["group"] in ("D", "Dev") and row["metric"] in ("FMR", "FPIR")]
    assert calibrated
    assert all(float(row["value"]) <= float(row["operating_point"]) for row in calibrated)
    untouched = [row for row in rows if row["method"] == "original" and row["metric"] in ("deformation", "footprint")]
    assert {float(row["value"]) for row in untouched} == {0.0}


def test_finished_report_reads_back_as_numbers(finished: Path) -> None:
    from damnatio.reporting.report import read_report

    table, _ = read_report(finished / "report")
    ends = ("low", "high", "wilson_low", "wilson_high")
    assert {table[name].dtype.kind for name in ("operating_point", "value", *ends)} == {"f"}
    assert {table[name].dtype.kind for name in ("count", "subjects")} == {"i"}
    tmr = table.where(table["metric"] == "TMR")
    assert ((tmr["wilson_low"] <= tmr["value"]) & (tmr["value"] <= tmr["wilson_high"])).all()
    assert (tmr["low"] <= tmr["high"]).all()
    assert (tmr["subjects"] > 0).all()


def test_running_again_computes_nothing(tmp_path: Path, tiny: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", "demo", "--run", str(tmp_path / "run"), *tiny]
    assert main(run) == 0
    capsys.readouterr()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert main(run) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if str(tmp_path) in line and "Page" not in line]
    assert len(lines) == 14
    assert all("reused" in line for line in lines)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*") if path.is_file()}

    assert main([*run, "--set", "forget.settings.HD.lambda_forget=5", "--set", "train.checkpoint_seconds=1"]) == 0
    made = [
        line.split()[:2] for line in capsys.readouterr().out.splitlines() if " s " in line and str(tmp_path) in line
    ]
    assert [stage for stage, _ in made] == ["5-forget", "6-embed", "7-evaluate", "report"]
    assert all("HD" in label for stage, label in made if stage != "report")

    assert main([*run, "--set", "evaluate.operating_points=[0.05]"]) == 0
    made = [
        line.split()[:1] for line in capsys.readouterr().out.splitlines() if " s " in line and str(tmp_path) in line
    ]
    assert [stage for (stage,) in made] == ["7-evaluate"] * 3 + ["report"]


def test_the_same_recipe_gives_the_same_numbers(tmp_path: Path, tiny: list[str]) -> None:
    for name in ("a", "b"):
        assert main(["run", "demo", "--run", str(tmp_path / name), *tiny]) == 0
    for file in ("results.csv", "rates.md", "distances.tex", "det-S1.svg", "det-S1.pdf"):
        assert (tmp_path / "a/report" / file).read_bytes() == (tmp_path / "b/report" / file).read_bytes()


def test_each_stage_runs_alone_on_what_the_earlier_ones_left(
    tmp_path: Path, tiny: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for number, verb in enumerate(STAGES):
        capsys.readouterr()
        assert main([verb, "demo", "--run", str(tmp_path / "run"), *tiny]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if str(tmp_path) in line and " s " in line]
        stages = {line.split()[0] for line in lines}
        assert stages == {"report" if verb == "report" else f"{number + 1}-{verb}"}


def test_a_folder_of_images_goes_through_the_same_stages(tmp_path: Path, face_folder: Path, tiny: list[str]) -> None:
    (face_folder / "person00" / "broken.jpg").write_bytes(b"\xff\xd8 no image")
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(f"faces: {{source: folder, root: {face_folder}, size: 32}}\nmodel: {{backbone: iresnet-tiny}}\n")
    settings = [s for s in tiny if not s.startswith("faces.") and s != "--set"]
    settings += ["partitions.retain=12", "partitions.control=4", "partitions.test=6", "partitions.development=8"]
    settings += ["forget.scales=[S1]", "partitions.scales={S1: 2, S2: 4}", "partitions.forget_min_images=4"]
    words = [word for setting in settings for word in ("--set", setting)]
    assert main(["run", str(recipe), "--run", str(tmp_path / "run"), *words]) == 0
    (summary,) = (tmp_path / "run/1-faces").glob("*/summary.json")
    content = json.loads(summary.read_text())
    assert (content["images"], content["skipped"]) == (280, 1)
    assert content["first_skipped"][0].startswith("person00/broken.jpg: ")
    assert {row["method"] for row in results(tmp_path / "run")} == {"original", "HD", "OF"}


def test_help_is_quick_to_import() -> None:
    code = "import sys; from damnatio.cli.main import parser; parser().format_help(); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"torch", "numpy", "matplotlib", "pyarrow", "pydantic", "rich", "shtab", "importlib.metadata"} & set(
        modules
    )
    assert not heavy


def test_listings_name_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    expected = {
        "methods": ["HD", "OF"],
        "backbones": ["iresnet18", "iresnet34", "iresnet50", "iresnet100", "vit-s", "vit-b", "mobilefacenet"],
        "heads": ["cosface", "arcface", "adaface"],
        "sources": ["synthetic", "folder"],
        "recipes": ["demo"],
    }
    for kind, names in expected.items():
        assert main(["ls", kind]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert set(names) <= {line.split()[0] for line in lines}
        assert all(len(line.split()) > 1 for line in lines), "every name comes with a word on what it is"


def test_the_sheet_shows_identities_as_rows(tmp_path: Path, tiny: list[str]) -> None:
    sheet = tmp_path / "sheets/sheet.png"
    words = ["--sheet", str(sheet), "--rows", "3", "--columns", "5"]
    assert main(["faces", "--run", str(tmp_path / "run"), *tiny, *words]) == 0
    with Image.open(sheet) as image:
        width, height = image.size
    assert width > height
    assert height >= 3 * 32 * 3


MISTAKES = [
    (["--set", "evaluate.operating_point=[0.1]"], "Did you mean 'operating_points'?"),
    (["--set", "evaluate.operating_points=[1.5]"], "evaluate.operating_points"),
    (["--set", "evaluate.operating_points=[0]"], "evaluate.operating_points"),
    (["--set", "forget.methods=[HDD]"], "There is no method 'HDD'. Did you mean 'HD'?"),
    (["--set", "forget.settings.OF.weigth=3"], "Did you mean 'weight'?"),
    (["--set", "model.backbone=iresnet35"], "There is no backbone 'iresnet35'. Did you mean"),
    (["--set", "faces.sorce=folder"], "Did you mean"),
    (["--set", "faces={source: folder, root: /no/such/folder}"], "/no/such/folder cannot be read: No such file"),
    (["--set", "partitions.test=500"], "This recipe needs 546 identities in all"),
    (["--set", "partitions.control=500"], "partitions.control (500) is drawn from partitions.retain (24)"),
    (["--set", "seed"], "write it as section.key=value"),
    (["--set", "faces.size=16"], "faces.size"),
    (["--set", "forget.methods=[original]"], "'original' is f* itself"),
    (["--set", "forget.methods=[HD, HD]"], "forget.methods names one of them twice"),
    (["--set", "forget.scales=[]"], "forget.scales"),
    (["--set", "train.warmup_epochs=9"], "warmup_epochs (9) must be less than epochs (2)"),
    (["--set", "train.lr=.inf"], "train.lr"),
    (["--set", "model.head_options={h: 1}"], "the head 'cosface' takes no such option (h)"),
    (["--set", "forget.settings.CURE.clusters=500", "--set", "forget.methods=[CURE]"], "CURE: 500 clusters of"),
    (["--set", "partitions.forget_train=0.1"], "HD works on pairs of images"),
    (["--set", "forget.settings.OF={frame: closed, candidates: 9}"], "'candidates' belongs to the greedy frame"),
]


@pytest.mark.parametrize(("words", "sentence"), MISTAKES)
def test_a_mistake_gets_one_sentence(
    tmp_path: Path, tiny: list[str], words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "demo", "--run", str(tmp_path / "run"), *tiny, *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.startswith("damnatio: ")
    assert "Traceback" not in error
    assert error.count("\n") == 1


def test_a_call_that_computes_nothing_leaves_nothing(
    tmp_path: Path, tiny: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faces" / "somebody").mkdir(parents=True)
    (tmp_path / "faces/somebody/1.png").write_bytes(b"nothing")
    before = sorted(tmp_path.rglob("*"))
    for words in (
        ["forget.methods=[HDD]"],
        ["faces={source: folder, root: nowhere}"],
        ["faces={source: folder, root: faces}"],
        ["model.weights=nowhere.onnx", "faces={source: folder, root: nowhere}"],
    ):
        assert main(["run", "demo", *tiny, *(word for setting in words for word in ("--set", setting))]) == 2
        assert sorted(tmp_path.rglob("*")) == before
    assert main(["erase", "nowhere.onnx", "faces", "faces"]) == 2
    for verb in (["run", "demo", "--run", ""], ["erase", "a", "b", "c", "--out", " "]):
        with pytest.raises(SystemExit) as stopped:
            main(verb)
        assert stopped.value.code == 2
        assert "the name of a folder, and here it is empty" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_stage_that_refuses_leaves_no_folder(tmp_path: Path, tiny: list[str]) -> None:
    run = ["run", "demo", "--run", str(tmp_path / "run"), *tiny, "--set", "partitions.test=500"]
    assert main(run) == 2
    assert sorted(path.name for path in (tmp_path / "run").glob("[!.]*")) == ["1-faces", "2-captures"]


def test_empty_and_unreadable_folders_get_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, unreadable = tmp_path / "empty", tmp_path / "unreadable"
    (unreadable / "somebody").mkdir(parents=True)
    (unreadable / "somebody/1.png").write_bytes(b"nothing")
    Image.fromarray(np.zeros((20, 20, 3), np.uint8)).save(unreadable / "somebody/2.png")
    empty.mkdir()
    for root, sentence in ((empty, "holds no images"), (unreadable, "gave no readable image")):
        words = ["--run", str(tmp_path / "run"), "--set", f"faces={{source: folder, root: {root}}}"]
        assert main(["faces", "demo", *words]) == 2
        assert sentence in capsys.readouterr().err


def test_a_full_disk_keeps_what_was_finished(
    tmp_path: Path, tiny: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = ["partitions", "demo", "--run", str(tmp_path / "run"), *tiny]
    with monkeypatch.context() as patched:
        patched.setattr("damnatio.partitions.Partitions.write", full)
        assert main(run) == 2
    assert "No space left on the disk" in capsys.readouterr().err
    assert main(run) == 0
    out = capsys.readouterr().out
    assert [line.split()[2] for line in out.splitlines() if line.startswith(("1-faces", "2-captures"))] == [
        "reused"
    ] * 2


def test_an_interruption_says_how_to_go_on(
    tmp_path: Path, tiny: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("damnatio.partitions.Partitions.write", interrupt)
    assert main(["partitions", "demo", "--run", str(tmp_path / "run"), *tiny]) == 130
    assert "the same command goes on from there" in capsys.readouterr().err


def test_a_run_without_a_method_reports_the_original_alone(tmp_path: Path, tiny: list[str]) -> None:
    for methods in ("[]", "[FT]"):
        assert main(["run", "demo", "--run", str(tmp_path / "run"), *tiny, "--set", f"forget.methods={methods}"]) == 0
    assert {row["method"] for row in results(tmp_path / "run")} == {"original", "FT"}


def shown(run: Path) -> list[str]:
    return list(dict.fromkeys(f"{row['scale']} {row['method']}" for row in results(run)))


def test_the_report_keeps_what_was_finished_before_for_the_same_recipe(
    finished: Path, tmp_path: Path, tiny: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    whole = (run / "report/results.csv").read_bytes()
    first = ["S1 original", "S1 HD", "S1 OF", "S2 original", "S2 HD", "S2 OF"]
    assert shown(run) == first

    def again(*settings: str) -> str:
        capsys.readouterr()
        words = [word for setting in settings for word in ("--set", setting)]
        assert main(["run", "demo", "--run", str(run), *tiny, *words]) == 0
        return capsys.readouterr().out

    out = again("forget.methods=[OF]", "forget.scales=[S1]")
    (line,) = [line for line in out.splitlines() if " kept " in line]
    assert "kept     S1 HD, S2 HD, S2 OF, S2 original: finished before, with the same settings" in line
    assert not [line for line in out.splitlines() if " s " in line and not line.startswith(("report", "time"))]
    assert (run / "report/results.csv").read_bytes() == whole
    assert "HD, hard dispersion" in out.split("at a false match rate of")[1], "the terminal speaks of them as well"

    again("forget.methods=[FT]", "forget.scales=[S2]")
    assert shown(run) == [*first, "S2 FT"]
    assert "nan → nan" not in (run / "report/index.html").read_text(), "FT was not evaluated at the first scale"


def test_the_report_names_what_it_keeps_and_lets_go_of_what_was_deleted(
    finished: Path, tmp_path: Path, tiny: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from damnatio.reporting.report import RESULTS, WARNINGS, long_results

    def numbers_alone(recipe: Any, partitions: Any, evaluated: Any, folder: Path, **shown: Any) -> None:
        panel = {"title": "", "targets": [0.1], "first": 0, "recommended": [None], "models": {}}
        (folder / "page.json").write_text(json.dumps({"title": "", "panels": [panel]}))
        for table, name in zip(long_results("tiny", evaluated), (RESULTS, WARNINGS), strict=True):
            table.write_csv(folder / name)

    monkeypatch.setattr("damnatio.reporting.report.write_report", numbers_alone)
    run = shutil.copytree(finished, tmp_path / "run")

    def again(*settings: str) -> list[str]:
        words = [word for setting in settings for word in ("--set", setting)]
        assert main(["run", "demo", "--run", str(run), *tiny, *words]) == 0
        return shown(run)

    second = ["S2 original", "S2 HD", "S2 OF"]
    mine = ["forget.methods=[mine]", "forget.settings.mine={method: FT, lr: 0.001}"]
    assert again(*mine) == ["S1 original", "S1 HD", "S1 OF", "S1 mine", *second]
    # the recipe knows no `mine`: its settings are those of the last report
    assert again("forget.methods=[OF]") == ["S1 original", "S1 HD", "S1 OF", "S1 mine", *second]
    listed = json.loads((run / "report/stage.json").read_text())
    assert listed["settings"]["recipe"]["forget"]["methods"] == ["HD", "OF", "mine"]
    assert listed["settings"]["recipe"]["forget"]["settings"]["mine"] == {"method": "FT", "lr": 0.001}
    assert {"S1-mine", "S2-OF"} <= listed["inputs"].keys()

    for folder in (*run.glob("7-evaluate/S?-HD-*"), *run.glob("7-evaluate/S1-mine-*")):
        shutil.rmtree(folder)
    kept = ["S1 original", "S1 OF", "S2 original", "S2 OF"]
    assert again("forget.methods=[OF]", "forget.scales=[S2]") == kept

    capsys.readouterr()
    assert again("forget.methods=[OF]", "evaluate.operating_points=[0.05]") == kept[:2], "another recipe otherwise"
    assert " kept " not in capsys.readouterr().out
    assert again("forget.methods=[OF]") == kept


def test_an_edited_method_is_trained_anew_and_the_others_are_not(
    tmp_path: Path, tiny: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ["forget", "demo", "--run", str(tmp_path / "run"), *tiny]
    assert main(run) == 0
    capsys.readouterr()
    from damnatio.methods import METHODS

    before = METHODS.code
    monkeypatch.setattr(METHODS, "code", lambda name: before(name) | ({"frame": "edited"} if name == "OF" else {}))
    assert main(run) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if " s " in line] == ["S1-OF"]
    assert [line.split("last one: ")[1] for line in lines if "unlike" in line] == ["code frame"]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    ],
)
def test_memory_that_ends_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    """torch raises a RuntimeError where Python has a MemoryError."""
    from damnatio.pipeline import Pipeline

    def fail(pipeline: Pipeline) -> None:
        raise error

    monkeypatch.setattr(Pipeline, "captures", fail)
    assert main(["captures", "demo", "--run", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("damnatio: Out of memory. Lower the batch")


def test_a_recipe_of_one_scale_runs_at_that_scale(tmp_path: Path, tiny: list[str]) -> None:
    """Nobody has to name a scale twice: the paper's second one is no default of a recipe that has one."""
    recipe = tmp_path / "one.yaml"
    recipe.write_text("faces: {source: synthetic}\nmodel: {backbone: iresnet-tiny}\n")
    words = [*tiny, "--set", "partitions.scales={S1: 3}", "--set", "forget.methods=[]"]
    assert main(["run", str(recipe), "--run", str(tmp_path / "run"), *words]) == 0
    assert {row["scale"] for row in results(tmp_path / "run")} == {"S1"}


def test_output_that_cannot_be_written_is_told_by_its_own_name(
    tmp_path: Path, tiny: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not by that of the temporary file beside it."""
    from damnatio.pipeline import Pipeline
    from damnatio.support.files import write_atomically

    (tmp_path / "file").write_text("x")
    words = ["faces", "demo", "--run", str(tmp_path / "run"), *tiny, "--sheet"]
    assert main([*words, str(tmp_path / "file/x.png")]) == 2
    assert capsys.readouterr().err == f"damnatio: {tmp_path / 'file'} is a file where a folder is expected.\n"
    monkeypatch.setattr(Pipeline, "faces", lambda pipeline: write_atomically(tmp_path / "run", "x"))
    assert main([*words, "x.png"]) == 2
    assert capsys.readouterr().err == f"damnatio: {tmp_path / 'run'}: Is a directory.\n"
