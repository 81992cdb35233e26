"""Tables say what is best and what is doubtful in every form; figures are what they claim to be."""

import csv
import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from damnatio.methods import METHODS
from damnatio.recipe.files import load
from damnatio.reporting.grids import DOUBT, Cell, Grid, best_of
from damnatio.reporting.mechanism import IMAGES, flat, moved
from damnatio.reporting.report import read_report, terminal_tables

RESULTS = Path(__file__).parents[2] / "results/demo"


@pytest.fixture
def grid() -> Grid:
    rows = [
        [Cell("R ↑"), Cell(0.5), Cell(0.75, best=True), Cell(1200)],
        [Cell("a|b_c"), Cell(float("nan")), Cell(0.1, marks=DOUBT), Cell(3)],
    ]
    return Grid(
        "rates",
        "Rates of f* & others",
        ["", "f*", "HD", "n"],
        rows,
        [("", 1), ("S1", 3)],
        {0: "Verification"},
        ["A note."],
    )


def test_best_values_include_ties_within_the_margin() -> None:
    assert best_of([0.900, 0.898, 0.897, float("nan")], higher=True) == [True, True, False, False]
    assert best_of([0.1, 0.102, 0.2], higher=False) == [True, True, False]
    assert best_of([float("nan")], higher=True) == [False]


def test_markdown(grid: Grid) -> None:
    lines = grid.markdown().splitlines()
    assert lines[2] == "|  | S1 f* | S1 HD | S1 n |"
    assert lines[4] == "| *Verification* |  |  |  |"
    assert lines[5] == "| R ↑ | 0.500 | **0.750** | 1,200 |"
    assert lines[6] == r"| a\|b_c | - | 0.100† | 3 |"
    assert lines[-1] == "A note."


def test_csv_keeps_full_precision_and_the_section(grid: Grid) -> None:
    rows = list(csv.reader(io.StringIO(grid.csv())))
    assert rows[0] == ["section", "", "S1 f*", "S1 HD", "S1 n"]
    assert rows[1] == ["Verification", "R ↑", "0.5", "0.75", "1200"]
    assert rows[2][2] == ""


@pytest.mark.parametrize(
    "name", [*[n for n in METHODS.names() if METHODS.get(n).kind in ("prior", "proposed")], "BI", "GS"]
)
def test_the_mechanism_lowers_mated_similarity_on_the_sphere(name: str) -> None:
    paths, others = moved(name)
    assert np.allclose(paths[0], moved("")[0][0], atol=1e-6)  # all begin where f* put them
    assert np.allclose(np.linalg.norm(paths, axis=2), 1, atol=1e-5)
    assert np.allclose(np.linalg.norm(others, axis=1), 1)

    def mated(points: np.ndarray) -> float:
        return float((points @ points.T)[~np.eye(IMAGES, dtype=bool)].mean())

    assert mated(paths[-1]) < mated(paths[0]) - 0.1


def test_the_map_keeps_angles_from_the_centre() -> None:
    points = np.array([[0, 0, 1.0], [1.0, 0, 0], [0, -1.0, 0], [0, 0, -1.0]])
    assert np.allclose(np.linalg.norm(flat(points), axis=1)[:3], [0, np.pi / 2, np.pi / 2])
    assert np.allclose(flat(points)[1], [np.pi / 2, 0])


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_a_terminal_of_any_width_shows_every_number_whole(width: int) -> None:
    """The tables of the demo: ten models, marks behind the rates, titles longer than any label."""
    methods = list(dict.fromkeys(read_report(RESULTS)[0]["method"]))[1:]
    recipe = load("demo", [f"forget.methods=[{', '.join(methods)}]", "partitions.scales={S1: 10, S2: 50}"])
    console = Console(width=width, file=io.StringIO())
    tables = terminal_tables(recipe, RESULTS, width)
    for table in tables:
        console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    numbers = [row[1:] for row in csv.reader((RESULTS / "rates.md").open(encoding="utf-8"), delimiter="|")][3:]
    wanted = [cell.replace("*", "").strip() for row in numbers for cell in row if cell.strip()[:1].isdigit()]
    shown = Counter(text.replace("\n", " ").split())
    for number, times in Counter(word for cell in wanted for word in cell.split()).items():
        assert shown[number] >= times, number
    heads = [line.split() for line in text.splitlines() if "f*" in line.split()]
    titles = ["CURE‡" if name == "CURE" else name for name in methods]
    assert (heads[0] == ["f*", *[title for title in titles if title != "GS"], "chance", "n"]) == (width == 200)
    assert ["GS"] in [line.split() for line in text.splitlines()], "a map has a table of its own"


def test_a_table_too_wide_for_a_terminal_is_cut_into_even_parts_a_group(grid: Grid) -> None:
    wide = Grid("rates", "Rates", ["", *["f*", "HD", "n"] * 2], [[*row, *row[1:]] for row in grid.rows])
    wide.spans, wide.breaks = [("", 1), ("S1", 3), ("S2", 3)], grid.breaks
    assert [table.plain.splitlines()[0] for table in wide.terminal(80)] == ["Rates, S1", "Rates, S2"]
    narrow = [table.plain.splitlines() for table in wide.terminal(20)]
    assert [lines[0] for lines in narrow] == ["Rates, S1", "... S1", "Rates, S2", "... S2"]
    assert narrow[0][1:] == ["          f*      HD", "Verification", "R ↑    0.500   0.750", "a|b_c      -  0.100†"]
    assert narrow[1][1:] == ["           n", "Verification", "R ↑    1,200", "a|b_c      3"]
