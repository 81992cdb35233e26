"""The tables of the legacy gallery and of people, from long results made by hand."""

import math

import pytest

from damnatio.reporting import layouts
from damnatio.reporting.grids import Grid
from damnatio.reporting.lookup import Results
from damnatio.reporting.panels import CONTROL, MAPS, Panel, kinds_of, panels_of
from damnatio.support.tables import Table

COLUMNS = ("scale", "method", "task", "group", "operating_point", "metric", "value", "count", "low", "high")
TITLES = {"original": "f*", "HD": "HD", "GS": "GS"}
ROWS = [
    ("original", "1:1", "T", 0.01, "TMR", 0.9, 500),
    ("original", "1:1", "T single", 0.01, "TMR", 0.8, 700),
    ("original", "1:1", "Ftr-Ftr", 0.01, "TMR", 0.7, 300),
    ("original", "1:N", "D", 0.01, "FPIR", 0.0099, 9000),
    ("original", "1:1", "T", 0.01, "TMR_person", 0.85, 20),
    ("HD", "1:1", "T", 0.01, "TMR_legacy", 0.4, 500),
    ("HD", "1:1", "T single", 0.01, "TMR_legacy", 0.3, 1400),
    ("HD", "1:1", "Ftr-Ftr", 0.01, "TMR_legacy", 0.2, 600),
    ("HD", "1:N", "D", 0.01, "FPIR_legacy", 0.02, 9000),
    ("HD", "1:1", "T", math.nan, "drift_cosine", 0.6, 50),
    ("HD", "1:1", "F", math.nan, "drift_cosine", 0.1, 40),
    ("HD", "1:1", "T", 0.01, "TMR_person", 0.35, 20),
    ("GS", "1:1", "T", 0.01, "TMR_legacy", 0.9, 500),
    ("GS", "1:1", "T single", 0.01, "TMR_legacy", 0.8, 1400),
    ("GS", "1:1", "Ftr-Ftr", 0.01, "TMR_legacy", 0.0, 600),
    ("GS", "1:N", "D", 0.01, "FPIR_legacy", 0.0099, 9000),
    ("GS", "1:1", "T", math.nan, "drift_cosine", 0.999, 50),
    ("GS", "1:1", "F", math.nan, "drift_cosine", 0.05, 40),
    ("GS", "1:1", "T", 0.01, "TMR_person", 0.85, 20),
]
WARNED = ("scale", "method", "task", "group", "operating_point")


@pytest.fixture
def results() -> Results:
    """The operating point of f* is doubtful in 1:1, and that of HD in 1:N."""
    table = Table.of_rows(COLUMNS, [["S1", *row, math.nan, math.nan] for row in ROWS])
    doubts = Table.of_rows(WARNED, [["S1", "original", "1:1", "D", 0.01], ["S1", "HD", "1:N", "D", 0.01]])
    return Results(table, doubts, TITLES, ["GS"])


def panels(results: Results) -> list[Panel]:
    return panels_of(results, ["S1"], list(TITLES))


def texts(grid: Grid) -> dict[str, list[str]]:
    """By the first cell of a row: the others, best values in bold, with their marks."""
    return {
        row[0].text: [("**" if cell.best else "") + cell.text + cell.marks for cell in row[1:]] for row in grid.rows
    }


def test_legacy_table_shows_the_ordinary_rates_of_the_original_and_counts_both_orders(results: Results) -> None:
    grid = layouts.legacy(panels(results), [0.01])
    assert grid.name == "legacy"
    assert grid.caption.startswith("Who must be enrolled again")
    shown = texts(grid)
    assert shown["0.01  T ↑"] == ["0.900†", "**0.400†", "0.01", "500", "0.900†"]
    assert shown["0.01  T single ↑"] == ["0.800†", "**0.300†", "0.01", "1,400", "0.800†"]
    assert shown["0.01  Ftr-Ftr ↓"] == ["0.700†", "**0.200†", "0.01", "600", "0.000†°"]


def test_rates_at_old_templates_are_doubted_as_those_of_the_original(results: Results) -> None:
    """At its thresholds: that HD's own are doubtful does not matter."""
    shown = texts(layouts.legacy(panels(results), [0.01]))
    assert shown["0.01  D ↓"] == ["0.010", "**0.020", "≤0.01", "9,000", "0.010"]


def test_original_has_not_moved_and_that_of_the_forgotten_is_no_aim(results: Results) -> None:
    shown = texts(layouts.legacy(panels(results), [0.01]))
    assert shown["T ↑"] == ["1.000", "**0.600", "", "50", "0.999"]
    assert shown["F"] == ["1.000", "0.100", "", "40", "0.050"]


def test_groups_without_a_number_are_left_out(results: Results) -> None:
    grid = layouts.legacy(panels(results), [0.01])
    assert not [name for name in texts(grid) if " B " in name or name.startswith("B")]
    assert set(texts(layouts.rates(panels(results), [0.01]))) == {
        "0.01  T ↑",
        "0.01  T single ↑",
        "0.01  Ftr-Ftr ↓",
    }


def test_means_over_people_are_not_said_to_rest_on_few_comparisons(results: Results) -> None:
    shown = texts(layouts.people(panels(results), [0.01]))
    assert shown == {"0.01  T ↑": ["0.850†", "**0.350", "0.01", "20", "0.850"]}


def test_maps_stand_apart_from_methods_that_change_the_network(results: Results) -> None:
    """In columns under a heading of their own, in rows under a title, and never among the best."""
    grid = layouts.legacy(panels(results), [0.01])
    assert grid.flat_header()[1:] == ["S1 f*", "S1 HD", "S1 chance", "S1 n", "S1 map GS"]
    assert MAPS in grid.notes
    assert not any(row[-1].best for row in grid.rows)
    rows = layouts.distances(panels(results))
    assert rows.breaks == {
        0: "The original, and methods that change the network",
        2: "Maps behind a network that stays as it is",
    }
    assert kinds_of(["original", "HD"], ["GS"]) == {}


def test_control_is_said_where_it_stands() -> None:
    table = Table.of_rows(COLUMNS, [["S1", *row, math.nan, math.nan] for row in ROWS])
    known = Results(table, Table.of_rows(WARNED, []), {"original": "f*", "FT": "FT"})
    assert CONTROL in layouts.people(panels_of(known, ["S1"], ["original", "FT"]), [0.01]).notes


def test_people_who_still_link_come_first_with_their_chance() -> None:
    rows = [
        ("original", "1:1", "F", 0.01, "linked_people", 1.0, 50),
        ("HD", "1:1", "F", 0.01, "linked_people", 0.24, 50),
        ("original", "1:1", "F", 0.01, "weakly_forgotten", 0.0, 50),
        ("original", "1:1", "F", 0.01, "weakly_forgotten_chance", 0.15, 50),
    ]
    table = Table.of_rows(COLUMNS, [["S1", *row, math.nan, math.nan] for row in rows])
    grid = layouts.rates(
        panels_of(Results(table, Table.of_rows(WARNED, []), TITLES), ["S1"], ["original", "HD"]), [0.01]
    )
    assert list(grid.breaks.values()) == ["People who still link beyond chance", "Identities weakly forgotten"]
    assert [[cell.text for cell in row] for row in grid.rows] == [
        ["0.01  F ↓", "1.000", "0.240", "≤0.050", "50"],
        ["0.01  F ↑", "0.000", "-", "0.150", "50"],
    ]
