"""The answer that ends a command, its tables on request, and runs side by side, through the command line."""

import json
import shutil
from pathlib import Path

import pytest

from damnatio.cli.main import main
from damnatio.reporting.answers import HEADINGS
from tests.conftest import TINY

pytestmark = [pytest.mark.cli, pytest.mark.xdist_group("compare")]
SMALL = (*TINY, "forget.methods=[GS]", "partitions.scales={S1: 6}", "evaluate.replicates=0")
WORDS = [word for setting in SMALL for word in ("--set", setting)]
TABLE = "Verification and identification"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs that differ in their seeds, and one of another protocol."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        made = ["run", "demo", "--run", str(folder / f"tiny-seed{seed}"), *WORDS, "--set", f"seed={seed}"]
        assert main(made) == 0
    shutil.copytree(folder / "tiny-seed2", folder / "other")
    again = ["run", "demo", "--run", str(folder / "other"), *WORDS, "--set", "seed=2"]
    assert main([*again, "--set", "evaluate.operating_points=[0.01, 0.05]"]) == 0
    return folder


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_commands_that_evaluate_end_with_the_answer(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = place / "tiny-seed1"
    for verb in ("run", "report", "evaluate"):
        out = said(capsys, verb, "demo", "--run", str(run), *WORDS, "--set", "seed=1")
        lines = out[out.index("at a false match rate of") :]
        places = [lines.index(heading) for heading in HEADINGS]
        assert places == sorted(places)
        assert "GS, gate and scatter" in lines
        assert TABLE not in out
        assert (f"Page: {run / 'report/index.html'}" in lines) == (verb != "evaluate")


def test_tables_are_asked_for(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("demo", "--run", str(place / "tiny-seed1"), *WORDS, "--set", "seed=1", "--tables")
    for verb in ("run", "report"):
        out = said(capsys, verb, *words)
        assert out.index("Is the gallery still valid?") < out.index(TABLE) < out.index("Page: ")


def test_seeds_are_one_column_with_mean_and_spread(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(place / f"tiny-seed{seed}") for seed in (1, 2)]
    out = said(capsys, "compare", *[f"tiny={run}" for run in runs], "--out", str(place / "seeds"))
    assert "differ" not in out
    content = json.loads((place / "seeds/page.json").read_text())
    (side,) = content["compared"]["sides"]
    assert side == {"title": "tiny", "seeds": 2, "differs": ""}
    singles = [json.loads((Path(run) / "report/page.json").read_text())["panels"][0] for run in runs]
    target = 0.1
    shares = []
    for panel in singles:
        rates = panel["models"]["GS"]["rates"]["TMR T"]
        shares.append(rates["accepted"][panel["targets"].index(target)] / rates["count"])
    spread = abs(shares[0] - shares[1]) / 2**0.5
    assert f"tiny {sum(shares) / 2:.3f} ± {spread:.3f}" in out
    assert f"Page: {place / 'seeds/index.html'}" in out
    assert "tiny, seed 2 of 2" in (place / "seeds/page.json").read_text()


def test_other_protocol_is_shown_and_marked(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(place / name) for name in ("tiny-seed1", "other")]
    out = said(capsys, "compare", *words, "--out", str(place / "both"))
    assert "The protocols differ, so rates do not measure the same. other: evaluate.operating_points is " in out
    content = json.loads((place / "both/page.json").read_text())
    titles = [side["title"] for side in content["compared"]["sides"]]
    assert titles == ["tiny", "other"]
    assert [bool(side["differs"]) for side in content["compared"]["sides"]] == [False, True]
    assert "The protocols differ" in (place / "both/index.html").read_text()
    cells = content["compared"]["scales"]["S1"]["GS"]["TMR T"]
    assert all(len(cell) == 5 for _, cell in cells), "the difference has an interval"


def test_report_without_its_content_is_refused_in_a_sentence(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An earlier damnatio made none."""
    old = shutil.copytree(place / "tiny-seed1/report", tmp_path / "old/report").parent
    (old / "report/page.json").unlink()
    manifest = json.loads((old / "report/stage.json").read_text())
    del manifest["files"]["page.json"]
    (old / "report/stage.json").write_text(json.dumps(manifest))
    capsys.readouterr()
    assert main(["compare", str(old), str(place / "other"), "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "has no page.json: it was made by an earlier damnatio" in line
    assert not (tmp_path / "out").exists()


def test_folder_that_is_no_run_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "no finished report" in line
