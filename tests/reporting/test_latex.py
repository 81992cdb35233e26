"""LaTeX tables: their structure by hand, and a PDF of them where pdflatex is at hand."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from damnatio.recipe.files import load
from damnatio.reporting.grids import DOUBT, Cell, Grid
from damnatio.reporting.latex import document, latex, tex
from damnatio.reporting.report import grids_of, read_report, write_grids
from damnatio.support.tables import Table

DEMO = Path(__file__).parents[2] / "results/demo"


@pytest.fixture
def grid() -> Grid:
    rows = [
        [Cell("0.0001  R ↑"), Cell(0.5), Cell(0.75, best=True), Cell(1200)],
        [Cell("0.0001  Ftr-Fev ↓"), Cell(0.4), Cell(float("nan")), Cell(7)],
        [Cell("0.03  R ↑"), Cell(0.9), Cell(0.1, marks=DOUBT, spread=0.25), Cell(3)],
    ]
    return Grid(
        "rates",
        "Rates of f* & others, 5 %",
        ["", "f*", "HD", "n"],
        rows,
        [("", 1), ("S1", 3)],
        {0: "Verification"},
        ["A note on W1.", "n counts."],
        [1e-4, 1e-4, 0.03],
        ["", "original", "HD", ""],
    )


def test_rows_stand_as_in_the_paper(grid: Grid) -> None:
    lines = [line.strip() for line in latex(grid).splitlines()]
    assert r"\caption{Rates of $f^{\ast}$ \& others, 5 \%}" in lines
    assert r"\sbox0{\begin{tabular}{@{}ll>{\columncolor{refrow}}c>{\columncolor{priorrow}}c@{}}" in lines
    body = lines[lines.index(r"\toprule") : lines.index(r"\bottomrule") + 1]
    ftr, fev = r"$\mathcal F_{\mathrm{tr}}$", r"$\mathcal F_{\mathrm{ev}}$"
    assert body == [
        r"\toprule",
        r"& & \multicolumn{2}{c}{$S_1$} \\",
        r"\specialrule{0.3pt}{0pt}{0pt}",
        r"&  & $f^{\ast}$ & HD \\",
        r"\midrule",
        r"\multicolumn{4}{c}{\textbf{Verification}} \\",
        r"\midrule",
        r"\multirow{2}{*}{$10^{-4}$} & $\mathcal R$ $\uparrow$ & 0.500 & \textbf{0.750} \\",
        rf"& {ftr}-{fev} $\downarrow$ & 0.400 & - \\",
        r"\specialrule{0.3pt}{0pt}{0pt}",
        r"\multirow{1}{*}{$0.03$} & $\mathcal R$ $\uparrow$ & 0.900 & 0.100 $\pm$ 0.250$^\dagger$ \\",
        r"\bottomrule",
    ]
    assert any("A note on $W_1$." in line for line in lines)
    assert not any("n counts" in line for line in lines)  # the column is left out


def test_rows_of_methods_have_tints_and_a_rule_between_kinds() -> None:
    variants = ["original", "CURE", "PD", "HD", "CP", "FT", "GS", "mine"]
    rows = [[Cell(name), Cell(0.5)] for name in variants]
    grid = Grid("d", "D", ["Method", "W1 Ftr-Ftr"], rows, row_variants=variants)
    lines = [line.strip() for line in latex(grid).splitlines()]
    start = lines.index(r"\midrule")
    ftr = r"$\mathcal F_{\mathrm{tr}}$"
    assert lines[start - 1] == rf"Method & \shortstack{{$W_1$\\{ftr}-{ftr}}} \\"
    shown = [
        re.match(r"(?:\\rowcolor\{(\w+)\} )?([\w+]+) &", line)
        for line in lines[start + 1 : lines.index(r"\bottomrule")]
    ]
    assert [(match[2], match[1]) if match else "rule" for match in shown] == [
        ("original", "refrow"),
        "rule",
        ("CURE", "genericrow"),
        "rule",
        ("PD", "priorrow"),
        ("HD", "priorrow"),
        "rule",
        ("CP", "ourrow"),
        "rule",
        ("FT", None),
        "rule",
        ("GS", "newrow"),
        "rule",
        ("mine", None),
    ]


@pytest.mark.parametrize(
    ("plain", "wanted"),
    [
        ("R", r"$\mathcal R$"),
        ("FtrxFev", r"$\mathcal F_{\mathrm{tr}}{\times}\mathcal F_{\mathrm{ev}}$"),
        ("avg(Ftr)-Fev", r"avg($\mathcal F_{\mathrm{tr}}$)-$\mathcal F_{\mathrm{ev}}$"),
        ("OF, FT and NG+ at S2", "OF, FT and NG+ at $S_2$"),
        ("a_b {x} 5% $ # ^ ~", r"a\_b \{x\} 5\% \$ \# \textasciicircum{} \textasciitilde{}"),
        ("V-D to V-H, F tr->ev", r"V-D to V-H, $\mathcal F$ tr$\to$ev"),
        ("CURE‡ 0.1 ± 0.2 ≥ 3°", r"CURE$^\ddagger$ 0.1 $\pm$ 0.2 $\geq$ 3$^\circ$"),
    ],
)
def test_words(plain: str, wanted: str) -> None:
    assert tex(plain) == wanted


def demo_grids() -> list[Grid]:
    """The tables of the committed demo: every method, marks and intervals; and both scales, the second without
    numbers."""
    recipe = load("demo", ["forget.scales=[S1, S2]"])
    counts = Table({"scale": ["S1", "S2"], "F": [10, 50], "mated R": [5, 5]})
    return grids_of(recipe, *read_report(DEMO), counts)


def test_every_row_has_as_many_cells_as_the_table_has_columns() -> None:
    for grid in demo_grids():
        text = latex(grid)
        assert text.isascii(), grid.name
        assert text.count("{") == text.count("}"), grid.name
        types = re.search(r"\\begin\{tabular\}\{@\{\}(.*)@\{\}\}", text)
        assert types
        columns = len(re.sub(r">\{\\columncolor\{\w+\}\}|\|", "", types[1]))
        for line in text[text.index(r"\toprule") : text.index(r"\bottomrule")].splitlines():
            if line.endswith(r"\\"):
                wide = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", line)]
                bare = re.sub(r"\\&", "", line)
                assert bare.count("&") + 1 - len(wide) + sum(wide) == columns, line


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_tables_compile_with_pdflatex(tmp_path: Path) -> None:
    grids = demo_grids()
    write_grids(grids, tmp_path)
    assert (tmp_path / "tables.tex").read_text() == document(grids)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "tables.pdf").stat().st_size > 20_000
    too_wide = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt", done.stdout)]
    assert max(too_wide, default=0) < 10
